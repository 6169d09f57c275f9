// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// lockedDir is a state directory as of a lab that this process runs. Its path is longer
// than a socket's path can be.
func lockedDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	if err := lab.PrepareDir(dir); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteString("4194304"); err != nil { // above the largest process id
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestConnectSaysWhenNoLabRuns(t *testing.T) {
	dir := t.TempDir()
	_, err := Connect(dir)
	if !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "podgang-lab up") {
		t.Errorf("empty directory: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Connect(dir)
	if !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "its logs are in") {
		t.Errorf("after a crash: %v", err)
	}
}

func TestLabWithoutSocketIsStartingOrInTheForeground(t *testing.T) {
	client, err := Connect(lockedDir(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Status(context.Background())
	if err == nil || !strings.Contains(err.Error(), "still starting") {
		t.Errorf("got %v", err)
	}
}

func TestRequestsReachTheSupervisorAndErrorsComeBack(t *testing.T) {
	dir := lockedDir(t)
	listener, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler(&lab.Lab{}, "a")}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := serve(ctx, server, listener); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		cancel()
		<-served
	}()
	client, err := Connect(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(context.Context, string) error{"kill": client.Kill, "restart": client.Restart} {
		if err := call(context.Background(), "kubelet"); err == nil || err.Error() != `this lab has no component "kubelet"` {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailedStartIsReportedToTheReader(t *testing.T) {
	t.Setenv(lab.BinDirEnv, t.TempDir())
	reader, writer := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- Run(context.Background(), lab.Options{Dir: t.TempDir()}, writer) }()
	var last Event
	for decoder := json.NewDecoder(reader); ; {
		var e Event
		if err := decoder.Decode(&e); err != nil {
			break
		}
		last = e
	}
	err := <-result
	if err == nil || last.Failed != err.Error() || !strings.Contains(last.Failed, "make build") {
		t.Errorf("event %+v, error %v", last, err)
	}
}
