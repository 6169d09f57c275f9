// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestMain(m *testing.M) {
	if os.Getenv("PROCESS_TEST_PARENT") != "" {
		beParent()
		return
	}
	goleak.VerifyTestMain(m,
		// Lives as long as the program, by design: see spawner.
		goleak.IgnoreTopFunction("github.com/podgang/podgang-scheduler/pkg/lab/process.serveSpawns"))
}

// beParent is the parent in TestChildEndsWithItsParent: it starts children, says their
// process ids, and waits to be killed.
func beParent() {
	for range 3 {
		p, err := Start(Spec{Name: "child", Path: "/bin/sleep", Args: []string{"1000"}, LogFile: os.Getenv("PROCESS_TEST_PARENT")})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
	}
	select {}
}

func start(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, LogFile: filepath.Join(t.TempDir(), "logs", "script.log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func waitDone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the process does not end")
	}
}

func TestChildEndsWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "PROCESS_TEST_PARENT="+filepath.Join(t.TempDir(), "child.log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var children []int
	for len(children) < 3 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the parent says %q", lines.Text())
		}
		children = append(children, pid)
	}
	if len(children) != 3 {
		t.Fatal("the parent did not start its children")
	}
	for _, pid := range children {
		if !alive(pid) {
			t.Fatalf("child %d does not run before its parent is killed", pid)
		}
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // reports the kill
	eventually(t, fmt.Sprintf("children %v end after their parent was killed", children), func() bool {
		return !slices.ContainsFunc(children, alive)
	})
}

// alive reports whether the process runs; one that has ended but was not waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestExitHasTheEndOfTheLog(t *testing.T) {
	p := start(t, "for i in $(seq 100); do echo line $i; done; echo the reason >&2; exit 3")
	waitDone(t, p)
	exit := p.Exit()
	if exit == nil {
		t.Fatal("no exit")
	}
	if exit.How != "exit status 3" || len(exit.Tail) != 12 || exit.Tail[11] != "the reason" || exit.Tail[0] != "line 90" {
		t.Errorf("got %+v", exit)
	}
	var err error = exit
	if !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), exit.LogFile) {
		t.Errorf("the error names neither reason nor log: %v", err)
	}
}

func TestTailIsOfTheLatestStartOnly(t *testing.T) {
	log := filepath.Join(t.TempDir(), "x.log")
	for _, text := range []string{"first", "second"} {
		p, err := Start(Spec{Name: "x", Path: "/bin/echo", Args: []string{text}, LogFile: log})
		if err != nil {
			t.Fatal(err)
		}
		waitDone(t, p)
		if got := p.LogTail(10); !slices.Equal(got, []string{text}) {
			t.Errorf("tail %q, want only %q", got, text)
		}
	}
	all, err := Tail(log, 0, 10)
	if err != nil || !slices.Equal(all, []string{"first", "second"}) {
		t.Errorf("the log holds %q (%v), want both starts", all, err)
	}
}

func TestTailOfALongLogStartsAtALine(t *testing.T) {
	log := filepath.Join(t.TempDir(), "x.log")
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "line %05d\n", i)
	}
	if err := os.WriteFile(log, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := Tail(log, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 1000 || len(lines) >= 20_000 || lines[len(lines)-1] != "line 19999" {
		t.Fatalf("%d lines, last %q", len(lines), lines[len(lines)-1])
	}
	if !strings.HasPrefix(lines[0], "line ") || len(lines[0]) != len("line 00000") {
		t.Errorf("the first line is cut: %q", lines[0])
	}
}

func TestStopAsksBeforeItKills(t *testing.T) {
	p := start(t, "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done")
	waitForLine(t, p, "up")
	p.Stop(context.Background(), 30*time.Second)
	if got := p.LogTail(1); !slices.Equal(got, []string{"asked"}) {
		t.Errorf("last line %q, want asked", got)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	p := start(t, "trap '' TERM; echo up; while :; do sleep 0.01; done")
	waitForLine(t, p, "up")
	p.Stop(context.Background(), 20*time.Millisecond)
	if exit := p.Exit(); exit == nil || exit.How != "signal: killed" {
		t.Errorf("exit %+v, want killed", exit)
	}
}

func TestStopKillsWhenItsContextEnds(t *testing.T) {
	p := start(t, "trap '' TERM; echo up; while :; do sleep 0.01; done")
	waitForLine(t, p, "up")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.Stop(ctx, time.Hour)
	if p.Running() {
		t.Error("it runs on")
	}
}

func waitForLine(t *testing.T, p *Process, line string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the process says %q", line), func() bool { return slices.Contains(p.LogTail(10), line) })
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		t.Fatalf("expected that %s: %v", what, err)
	}
}

func TestChildrenHaveTheirOwnProcessGroup(t *testing.T) {
	p := start(t, "while :; do sleep 0.01; done")
	group, err := syscall.Getpgid(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	if group != p.PID() {
		t.Errorf("group %d, want its own, %d: Ctrl-C at the terminal would reach it", group, p.PID())
	}
}

func TestStartSaysWhatCannotBeStarted(t *testing.T) {
	_, err := Start(Spec{Name: "etcd", Path: "/no/such/file", LogFile: filepath.Join(t.TempDir(), "x.log")})
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "etcd: ") {
		t.Errorf("got %v", err)
	}
}
