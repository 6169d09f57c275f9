// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/test/testlab"
)

// options say how a run is made.
type options struct {
	seed      uint64
	duration  time.Duration // under fire
	scheduler string        // the binary
	patience  time.Duration // how long the cluster may take to become calm
}

// run is one run.
type run struct {
	ctx      context.Context // of the recorder, which outlives the steps
	opts     options
	dir      string // for what is kept if something is found
	plan     *plan
	shape    *shape.Shape
	lab      *lab.Lab
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	journal  *journal
	injector *injector
	recorder *recorder
	judge    *judge
	keepers  map[string]*keeper
	log      *logReader

	workers sync.WaitGroup // of tracks
	mu      sync.Mutex     // guards what follows
	queues  map[string][]step
	// errs are why the run cannot be carried out as planned.
	errs []error
	// fallen are findings about the scheduler's process.
	fallen []finding
	// logged is the time of the last line of the log.
	logged time.Time
	// kills of the scheduler and the API server.
	kills []time.Time
	// apiDown is when the API server was down, up to when the recorder knew all again.
	apiDown []span
}

// clusterFile is the shape of the cluster.
const clusterFile = "testdata/cluster.yaml"

// newRun plans a run and starts its lab.
func newRun(ctx context.Context, opts options) (*run, error) {
	cluster, err := shapes.LoadFile(clusterFile, nil)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("podgang-chaos-%d-", opts.seed))
	if err != nil {
		return nil, err
	}
	r := &run{
		ctx: ctx, opts: opts, dir: dir, plan: newPlan(opts.seed, opts.duration, nodesOf(cluster)), shape: cluster,
		journal: &journal{}, judge: newJudge(), keepers: map[string]*keeper{}, queues: map[string][]step{},
	}
	r.injector = newInjector(r.journal)
	if err := os.WriteFile(filepath.Join(dir, "plan.txt"), []byte(r.plan.String()), 0o600); err != nil {
		return nil, err
	}
	scheduler := lab.Scheduler{Binary: opts.scheduler, Name: lab.PodGangScheduler, Args: []string{"-v=2"}}
	if opts.scheduler == lab.PodGangScheduler {
		scheduler.Server = r.injector.Serve // kube-scheduler's client certificate would not pass through it
	}
	r.lab, err = lab.Start(ctx, lab.Options{Dir: filepath.Join(dir, "lab"), Shape: cluster, Schedulers: []lab.Scheduler{scheduler}})
	if err != nil {
		return nil, err
	}
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	return r, r.furnish(ctx)
}

// nodesOf are the names of the nodes.
func nodesOf(cluster *shape.Shape) []string {
	var nodes []string
	for _, n := range cluster.Nodes {
		nodes = append(nodes, n.Name)
	}
	return nodes
}

// connect makes the clients, the recorder and the keepers.
func (r *run) connect(ctx context.Context) (err error) {
	if r.client, r.dynamic, err = testlab.Clients(r.lab); err != nil {
		return err
	}
	if r.recorder, err = newRecorder(ctx, r.journal, r.client, r.dynamic); err != nil {
		return err
	}
	r.log = &logReader{file: r.lab.Component(lab.PodGangScheduler).LogFile()}
	for _, c := range r.lab.Components() {
		k := &keeper{component: c, journal: r.journal, fell: func(err error) { r.noteFall(c.Name(), err) }}
		if c.Name() == lab.PodGangScheduler || c.Name() == lab.APIServer {
			k.killed = func() { r.noteKill(c.Name()) }
		}
		if c.Name() == lab.APIServer {
			k.started = r.catchUp
		}
		r.keepers[c.Name()] = k
		go k.watch(ctx)
	}
	return nil
}

func (r *run) noteKill(component string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kills = append(r.kills, time.Now())
	if component == lab.APIServer {
		r.apiDown = append(r.apiDown, span{from: time.Now()})
	}
}

// catchUp has the recorder know all again when the API server is back.
func (r *run) catchUp(context.Context) error {
	err := r.recorder.restart(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.apiDown); n > 0 {
		r.apiDown[n-1].to = time.Now()
	}
	return err
}

// noteFall notes that a component has ended by itself.
func (r *run) noteFall(component string, err error) {
	r.journal.note("", fmt.Sprintf("%s has ended by itself: %v", component, err))
	if component != lab.PodGangScheduler {
		return // of no concern to the scheduler
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fallen = append(r.fallen, finding{at: time.Now(), text: fmt.Sprintf("the scheduler has ended by itself: %v", err)})
}

// furnish creates what all gangs use.
func (r *run) furnish(ctx context.Context) error {
	create := []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context) error { // a controller makes it too
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			_, err := r.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
			return err
		},
	}
	for name, value := range map[string]int32{"low": 10, "high": 1000} {
		create = append(create, func(ctx context.Context) error {
			class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
			_, err := r.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
			return err
		})
	}
	for _, gpus := range templateSizes {
		create = append(create, func(ctx context.Context) error {
			template := &resourcev1.ResourceClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Name: templateFor(gpus)},
				Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: claimSpec(gpus)},
			}
			_, err := r.client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, template, metav1.CreateOptions{})
			return err
		})
	}
	for _, do := range create {
		if err := persist(ctx, do); err != nil {
			return err
		}
	}
	return nil
}

// fire carries out the steps of a round, and returns when all of them are done.
func (r *run) fire(ctx context.Context, steps []step, begin, end time.Duration) {
	start := time.Now()
	for _, s := range steps {
		if !pause(ctx, time.Until(start.Add(s.at-begin))) {
			break
		}
		r.enqueue(ctx, s)
	}
	pause(ctx, time.Until(start.Add(end-begin)))
	r.workers.Wait()
}

// enqueue gives a step to its track.
func (r *run) enqueue(ctx context.Context, s step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queues[s.track] = append(r.queues[s.track], s)
	if len(r.queues[s.track]) == 1 {
		r.workers.Go(func() { r.work(ctx, s.track) })
	}
}

// work carries out the steps of a track until there is none.
func (r *run) work(ctx context.Context, track string) {
	for {
		r.mu.Lock()
		s := r.queues[track][0]
		r.mu.Unlock()
		if !strings.HasPrefix(track, "request-") { // noted when it comes about
			r.journal.note(subjectOf(track), "STEP "+s.text)
		}
		err := s.do(ctx, r)
		r.mu.Lock()
		if err != nil && ctx.Err() == nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", s.text, err))
		}
		r.queues[track] = r.queues[track][1:]
		done := len(r.queues[track]) == 0
		if done {
			delete(r.queues, track)
		}
		r.mu.Unlock()
		if done {
			return
		}
	}
}

// quietTime is how long nothing has to change, and the scheduler has to have nothing to
// do, for the cluster to be calm.
const quietTime = 2 * time.Second

// calm waits until the cluster is as it has to be at rest, and more is true if more is
// given. What is not so when patience ends is found.
func (r *run) calm(ctx context.Context, more func() []finding) []finding {
	const interval = 250 * time.Millisecond
	deadline := time.Now().Add(r.opts.patience)
	for {
		found, settled := r.look(ctx)
		if settled && more != nil {
			found = append(found, more()...)
		}
		if len(found) == 0 || time.Now().After(deadline) || !pause(ctx, interval) {
			return found
		}
	}
}

// look says what is not as it has to be at rest. settled means that the judge knows all.
func (r *run) look(ctx context.Context) (found []finding, settled bool) {
	if text := r.recorder.behind(ctx, r.client, r.dynamic); text != "" {
		return []finding{{at: time.Now(), text: "not calm: " + text}}, false
	}
	r.mu.Lock()
	r.judge.kills, r.judge.apiDown = slices.Clone(r.kills), slices.Clone(r.apiDown)
	r.mu.Unlock()
	r.judge.apply(r.recorder.take())
	found = r.judge.atRest()
	if !r.lab.Component(lab.PodGangScheduler).Running() {
		found = append(found, finding{at: time.Now(), text: "the scheduler does not run"})
	}
	if len(found) > 0 {
		return found, true
	}
	if r.journal.quietFor() < quietTime {
		return []finding{{at: time.Now(), text: "not calm: objects still change"}}, true
	}
	if line := r.log.busy(quietTime); line != "" { // it has a line for every attempt
		return []finding{{at: time.Now(), subject: subjectOf(line), text: "not calm: the scheduler still works: " + line}}, true
	}
	return found, true
}

// peace ends all faults and mends what is broken.
func (r *run) peace(ctx context.Context) {
	r.injector.peace()
	r.journal.note("", "PEACE: no more faults")
	if err := r.repair(ctx); err != nil {
		r.mu.Lock()
		r.errs = append(r.errs, err)
		r.mu.Unlock()
	}
}

// stop ends the lab.
func (r *run) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if r.lab != nil {
		_ = r.lab.Stop(ctx) // its processes end with this one in any case
	}
	r.injector.Close()
}
