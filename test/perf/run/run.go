// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/test/perf/contender"
	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/probe"
	"github.com/podgang/podgang-scheduler/test/perf/result"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

const (
	// setupTimeout bounds all that comes before the measurement, on a busy machine.
	setupTimeout = 10 * time.Minute
	// settle is how long nothing may have been written at the end of a run: events and
	// status come after the last binding, and belong to it. settleLimit is how long the
	// run waits for that at most.
	settle      = time.Second
	settleLimit = 15 * time.Second
)

// Options of a run.
type Options struct {
	Workload  *workload.Workload
	Contender *contender.Contender
	// Mode is result.Drain or result.Arrival; refuse and churn arrive always.
	Mode  string
	Scale float64
	Round int
	// Long makes churn last as long as it can.
	Long bool
	// Timeout replaces that of the workload, if above 0.
	Timeout time.Duration
	// ProfileDir gets CPU and heap profiles of the scheduler; empty for none.
	ProfileDir string
	// Keep leaves the logs of the control plane in place.
	Keep bool
	// Progress is told what happens, often.
	Progress func(string)
}

// run is one run while it happens.
type run struct {
	Options
	cluster *shape.Shape
	set     workload.Set
	lab     *lab.Lab
	client  kubernetes.Interface
	config  *rest.Config // of client
	record  *journal.Recorder
	out     *result.Result

	// begin is when the scheduler could start work: it was ready, or in arrival mode the
	// first pod was created.
	begin  time.Time
	before map[string]int // requests to the API server before begin
}

// Run makes the run. An error means that nothing was measured; a scheduler that does
// not finish is a result.
func Run(ctx context.Context, opts Options) (*result.Result, error) {
	if opts.Workload.Kind != workload.Drain {
		opts.Mode = result.Arrival
	}
	if opts.Contender.Scheduler == nil && (opts.Mode != result.Drain) {
		return nil, fmt.Errorf("%s has no %s for workload %s: it needs to know the load before it starts", opts.Contender.Name, opts.Mode, opts.Workload.Name)
	}
	r := &run{Options: opts}
	if err := r.plan(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "podgang-perf-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for the control plane: %w", err)
	}
	defer func() {
		if !opts.Keep {
			_ = os.RemoveAll(dir) // only disk space is lost
		}
	}()
	if err := r.describe(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the watches
	defer cancel()
	defer r.stop(ctx)
	setup, done := context.WithTimeout(ctx, setupTimeout)
	defer done()
	if err := r.startLab(setup, ctx, dir); err != nil {
		return nil, err
	}
	if err := r.measure(ctx); err != nil {
		return nil, fmt.Errorf("%w; logs are in %s/logs with -keep", err, dir)
	}
	return r.out, nil
}

// plan generates the cluster and the load.
func (r *run) plan() (err error) {
	if r.cluster, err = r.Workload.Cluster(r.Scale); err != nil {
		return fmt.Errorf("workload %s: %w", r.Workload.Name, err)
	}
	r.set = workload.Expand(r.Workload.Load, r.Scale)
	return nil
}

func (r *run) describe(ctx context.Context) error {
	path, err := lab.FindBinary("", r.Contender.Binary)
	if err != nil {
		return err
	}
	build, err := result.Build(path)
	if err != nil {
		return err
	}
	r.out = &result.Result{
		Workload: r.Workload.Name, Scheduler: r.Contender.Name, Mode: r.Mode, Scale: r.Scale, Round: r.Round,
		Time: time.Now(), Build: build, Versions: result.ReadVersions(ctx), Machine: result.ReadMachine(),
		Nodes: len(r.cluster.Nodes), Gangs: len(r.set.Gangs), Pods: r.set.ToBind(),
	}
	return nil
}

func (r *run) progress(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// startLab starts the control plane and makes the cluster. The watches last as long as
// watching.
func (r *run) startLab(ctx, watching context.Context, dir string) error {
	opts := lab.Options{
		Dir: dir, Shape: r.cluster, ExtraArgs: map[string][]string{lab.APIServer: r.Contender.ServerArgs},
		OnStep: func(s lab.Step) {
			if !s.Done {
				r.progress("starting %s", s.Name)
			}
		},
	}
	if r.Contender.Scheduler != nil {
		opts.Schedulers = []lab.Scheduler{*r.Contender.Scheduler}
	}
	if r.Contender.Gates != nil {
		opts.FeatureGates = r.Contender.Gates(r.Workload)
	}
	var err error
	if r.lab, err = lab.Start(ctx, opts); err != nil {
		return fmt.Errorf("cannot start the control plane: %w", err)
	}
	// kubelets are on other machines; here one would take the CPU of those that are measured.
	r.lab.Component(lab.Kwok).Stop(ctx)
	r.config = r.lab.RESTConfig()
	r.config.ContentType = runtime.ContentTypeProtobuf
	if r.client, err = kubernetes.NewForConfig(r.config); err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	server, err := r.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("cannot ask the API server for its version: %w", err)
	}
	r.out.Versions.Kubernetes = server.GitVersion
	if err := r.prepareNamespace(ctx); err != nil {
		return err
	}
	if r.Contender.Prepare != nil {
		if err := r.Contender.Prepare(ctx, r.lab); err != nil {
			return fmt.Errorf("cannot prepare the cluster for %s: %w", r.Contender.Name, err)
		}
	}
	if r.record, err = journal.Record(watching, r.client, capacity(r.cluster)); err != nil {
		return err
	}
	if v := r.Contender.Verdict; v != nil {
		return r.record.WatchCondition(watching, r.lab.RESTConfig(), *v, r.Contender.VerdictCondition)
	}
	return nil
}

// stop ends the control plane, if it runs, whatever has become of ctx.
func (r *run) stop(ctx context.Context) {
	if r.lab == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	_ = r.lab.Stop(ctx) // it kills what does not end
}

func (r *run) measure(ctx context.Context) error {
	switch r.Workload.Kind {
	case workload.Refuse:
		return r.refuse(ctx)
	case workload.Churn:
		return r.churn(ctx)
	}
	if r.Mode == result.Arrival {
		return r.arrive(ctx)
	}
	return r.drain(ctx)
}

func (r *run) timeout() time.Duration {
	if r.Timeout > 0 {
		return r.Timeout
	}
	return r.Workload.TimeoutAt(r.Scale)
}

// scheduler is the component; nil for the oracle.
func (r *run) scheduler() *lab.Component {
	s := r.Contender.Scheduler
	switch {
	case s == nil:
		return nil
	case s.Name != "":
		return r.lab.Component(s.Name)
	default:
		return r.lab.Component(s.Binary)
	}
}

// startScheduler starts it and waits until it is ready.
func (r *run) startScheduler(ctx context.Context) error {
	c := r.scheduler()
	if err := r.lab.StartScheduler(ctx, c.Name()); err != nil {
		return err
	}
	r.out.Startup = time.Since(c.Since()).Seconds()
	return nil
}

// requests are those that the API server has answered so far.
func (r *run) requests(ctx context.Context) (map[string]int, error) {
	endpoint, err := probe.NewEndpoint(r.lab.RESTConfig(), r.lab.Component(lab.APIServer).Port())
	if err != nil {
		return nil, err
	}
	metrics, err := endpoint.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return metrics.Requests(), nil
}

// pause waits for the time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

var errEnded = errors.New("the scheduler has ended")
