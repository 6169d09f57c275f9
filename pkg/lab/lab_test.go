// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/podgang/podgang-scheduler/manifests"
	"github.com/podgang/podgang-scheduler/pkg/lab/process"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/podgang/podgang-scheduler/pkg/lab/process.serveSpawns"),
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// scripted is a component that runs a shell script.
func scripted(t *testing.T, script string, ready func(context.Context) error) *Component {
	t.Helper()
	c := &Component{
		spec:    process.Spec{Name: "scripted", Path: "/bin/sh", Args: []string{"-c", script}, LogFile: filepath.Join(t.TempDir(), "scripted.log")},
		ready:   ready,
		timeout: time.Minute,
	}
	t.Cleanup(c.Kill)
	return c
}

func alwaysReady(context.Context) error { return nil }

func TestComponentThatEndsAtStartIsReportedWithItsLog(t *testing.T) {
	c := scripted(t, "echo cannot open the door; exit 7", func(context.Context) error { return errors.New("not yet") })
	err := c.Start(context.Background())
	var exit *process.ExitError
	if !errors.As(err, &exit) || exit.How != "exit status 7" || !strings.Contains(err.Error(), "cannot open the door") {
		t.Errorf("got %v", err)
	}
	if c.Running() {
		t.Error("it counts as running")
	}
}

func TestComponentThatEndsAtStartIsLaunchedAgainWhereThatMayHelp(t *testing.T) {
	marks := t.TempDir()
	endsAtFirst := "n=$(ls " + marks + " | wc -l); touch " + marks + "/$n; test $n -ge 2 && exec sleep 1000; exit 2"
	for _, tc := range []struct {
		relaunches, restarts int
		running              bool
	}{{0, 0, false}, {1, 1, false}, {3, 2, true}} {
		if err := os.RemoveAll(marks); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(marks, 0o700); err != nil {
			t.Fatal(err)
		}
		c := scripted(t, endsAtFirst, func(context.Context) error {
			if _, err := os.Stat(filepath.Join(marks, "2")); err != nil {
				return errors.New("not yet")
			}
			return nil
		})
		c.relaunches = tc.relaunches
		err := c.Start(context.Background())
		if c.Running() != tc.running || (err == nil) != tc.running || c.Restarts() != tc.restarts {
			t.Errorf("with %d relaunches: running %t after %d restarts (%v)", tc.relaunches, c.Running(), c.Restarts(), err)
		}
		c.Kill()
	}
}

func TestComponentThatIsNeverReadyIsReportedAndEnded(t *testing.T) {
	c := scripted(t, "exec sleep 1000", func(context.Context) error { return errors.New("the door is closed") })
	c.timeout = 200 * time.Millisecond
	err := c.Start(context.Background())
	if err == nil || !strings.Contains(err.Error(), "scripted is not ready") || !strings.Contains(err.Error(), "the door is closed") {
		t.Errorf("got %v", err)
	}
	if c.Running() {
		t.Error("it runs on")
	}
}

func TestComponentCanBeKilledAndStartedAgain(t *testing.T) {
	c := scripted(t, "exec sleep 1000", alwaysReady)
	ctx := context.Background()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	first := c.PID()
	if err := c.Start(ctx); err != nil || c.PID() != first {
		t.Errorf("starting it while it runs: %v, process %d, then %d", err, first, c.PID())
	}
	c.Kill()
	if c.Running() || c.Err() == nil || !strings.Contains(c.Err().Error(), "signal: killed") {
		t.Errorf("after the kill: running %t, %v", c.Running(), c.Err())
	}
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if !c.Running() || c.PID() == first || c.Restarts() != 1 || c.Err() != nil {
		t.Errorf("after the restart: running %t, process %d, %d restarts, %v", c.Running(), c.PID(), c.Restarts(), c.Err())
	}
	c.Stop(ctx)
	if c.Running() {
		t.Error("it runs after Stop")
	}
}

func TestComponentCanBeKilledWhileItStarts(t *testing.T) {
	asked := make(chan struct{}, 1000)
	c := scripted(t, "exec sleep 1000", func(context.Context) error {
		asked <- struct{}{}
		return errors.New("not yet")
	})
	started := make(chan error)
	go func() { started <- c.Start(context.Background()) }()
	<-asked
	c.Kill()
	if err := <-started; err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("got %v", err)
	}
}

func TestStateDirectoryIsUsedByOneLabAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lab")
	dir, leftovers, err := lockDir(path)
	if err != nil || leftovers {
		t.Fatalf("%v, leftovers %t", err, leftovers)
	}
	if pid, err := Owner(path); err != nil || pid != os.Getpid() {
		t.Errorf("owner %d, %v; want this process", pid, err)
	}
	if _, _, err := lockDir(path); !errors.Is(err, ErrRunning) {
		t.Errorf("second lock: %v, want ErrRunning", err)
	}
	if err := Remove(path); !errors.Is(err, ErrRunning) {
		t.Errorf("remove while locked: %v, want ErrRunning", err)
	}
	dir.unlock()
	if pid, err := Owner(path); err != nil || pid != 0 {
		t.Errorf("owner %d, %v; want none", pid, err)
	}
}

func TestLeftoversOfALabAreRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lab")
	dir, _, err := lockDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.write([]byte("old"), "etcd", "member", "wal"); err != nil {
		t.Fatal(err)
	}
	dir.unlock() // as at the end of the process
	dir, leftovers, err := lockDir(path)
	if err != nil || !leftovers {
		t.Fatalf("%v, leftovers %t", err, leftovers)
	}
	if _, err := os.Stat(filepath.Join(path, "etcd")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old data is still there: %v", err)
	}
	dir.unlock()
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if err := Remove(path); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "thesis.tex")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, use := range map[string]func() error{
		"start":  func() error { _, _, err := lockDir(path); return err },
		"remove": func() error { return Remove(path) },
	} {
		if err := use(); err == nil || !strings.Contains(err.Error(), "not a lab's directory") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestDirectoryThatCannotBeMadeIsReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := PrepareDir(filepath.Join(file, "lab"))
	if err == nil || !strings.Contains(err.Error(), "choose another with --dir") {
		t.Errorf("got %v", err)
	}
}

func TestMissingBinarySaysHowToGetIt(t *testing.T) {
	dir := t.TempDir()
	_, err := FindBinary(dir, "kwok")
	if err == nil || !strings.Contains(err.Error(), `run "make build"`) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(dir, "kwok")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := FindBinary(dir, "kwok"); err == nil {
		t.Error("a file that is not executable was taken")
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(BinDirEnv, dir)
	if got, err := FindBinary("", "kwok"); err != nil || got != path {
		t.Errorf("got %s, %v; want %s", got, err, path)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts Options
		want string
	}{
		{"no directory", Options{}, "needs a state directory"},
		{"unknown scheduler", Options{Dir: "x", Schedulers: []Scheduler{{Binary: "volcano"}}}, `unknown scheduler "volcano"`},
		{"same name twice", Options{Dir: "x", Schedulers: []Scheduler{{Binary: PodGangScheduler}, {Binary: PodGangScheduler}}}, `named "podgang-scheduler"`},
		{"arguments of nobody", Options{Dir: "x", ExtraArgs: map[string][]string{"kubelet": {"--v=4"}}}, `"kubelet", which is no component`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Start(context.Background(), tc.opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	two := &Lab{opts: Options{Dir: "x", Schedulers: []Scheduler{{Binary: PodGangScheduler}, {Binary: PodGangScheduler, Name: "second"}}}}
	if err := two.checkOptions(); err != nil {
		t.Errorf("two replicas with their own names: %v", err)
	}
}

func TestDeploymentArgumentsAreKeptExceptPlaces(t *testing.T) {
	got := ownArgs([]string{"--config=/etc/x.yaml", "--v=2", "--secure-port", "10259", "--feature-gates=A=true", "--bind-address=0.0.0.0", "--emulated-version=1.36"})
	want := []string{"--v=2", "--feature-gates=A=true", "--emulated-version=1.36"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
}

// schedulerConfig writes the configuration of s in a lab with the project's own as base.
func schedulerConfig(t *testing.T, s Scheduler, all ...Scheduler) map[string]any {
	t.Helper()
	dir, _, err := lockDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.unlock()
	l := &Lab{dir: dir, opts: Options{Schedulers: all}}
	path, err := l.writeSchedulerConfig(s, &installation{config: manifests.SchedulerConfig()}, "/the/kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestSchedulerConfigIsThatOfTheManifestsButForTheLabsOwn(t *testing.T) {
	want := map[string]any{}
	if err := yaml.Unmarshal(manifests.SchedulerConfig(), &want); err != nil {
		t.Fatal(err)
	}
	want["clientConnection"].(map[string]any)["kubeconfig"] = "/the/kubeconfig"
	elected := schedulerConfig(t, Scheduler{Binary: PodGangScheduler, LeaderElect: true})
	if diff := cmp.Diff(want, elected); diff != "" {
		t.Errorf("with leader election (-want, +got)\n%s", diff)
	}
	want["leaderElection"].(map[string]any)["leaderElect"] = false
	edited := schedulerConfig(t, Scheduler{Binary: PodGangScheduler, EditConfig: func(c *unstructured.Unstructured) error {
		c.Object["parallelism"] = int64(3)
		return nil
	}})
	want["parallelism"] = float64(3)
	if diff := cmp.Diff(want, edited); diff != "" {
		t.Errorf("edited (-want, +got)\n%s", diff)
	}
}

func TestStockSchedulerAnswersToOurNameOnlyWhenOursDoesNotRun(t *testing.T) {
	names := func(all ...Scheduler) (names []string) {
		for _, p := range schedulerConfig(t, Scheduler{Binary: KubeScheduler}, all...)["profiles"].([]any) {
			names = append(names, p.(map[string]any)["schedulerName"].(string))
		}
		return names
	}
	stock, ours := Scheduler{Binary: KubeScheduler}, Scheduler{Binary: PodGangScheduler}
	if diff := cmp.Diff([]string{"default-scheduler", "podgang-scheduler"}, names(stock)); diff != "" {
		t.Errorf("alone (-want, +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"default-scheduler"}, names(stock, ours)); diff != "" {
		t.Errorf("beside ours (-want, +got)\n%s", diff)
	}
}

func TestBadSchedulerConfigIsReported(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"not YAML", "a: [", "is not YAML"},
		{"another kind", "kind: Pod", `is a "Pod", not a KubeSchedulerConfiguration`},
		{"key twice", "kind: KubeSchedulerConfiguration\nkind: KubeSchedulerConfiguration\n", "already set"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := &Lab{}
			_, err := l.writeSchedulerConfig(Scheduler{Binary: PodGangScheduler, Config: []byte(tc.config)}, &installation{}, "")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	objs, err := Decode("x", []byte("---\n# nothing\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objs {
		got = append(got, Describe(o))
	}
	if diff := cmp.Diff([]string{"Pod ns/a", "Node b"}, got); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"no kind", "apiVersion: v1\nmetadata: {name: a}\n", "x, document 1: apiVersion, kind and metadata.name are needed"},
		{"not YAML", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\na: [\n", "x, document 2: "},
	} {
		if _, err := Decode("x", []byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
		}
	}
}

func TestPortsAreHeldUntilReleased(t *testing.T) {
	var a, b portSet
	defer a.releaseAll()
	defer b.releaseAll()
	seen := map[int]bool{}
	for range 20 {
		for _, set := range []*portSet{&a, &b} {
			port, err := set.take()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] {
				t.Errorf("port %d was given twice", port)
			}
			seen[port] = true
		}
	}
}
