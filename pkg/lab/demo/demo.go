// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/examples"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/pkg/lab/view"
)

const (
	example       = "disagg-l40s"
	gangNamespace = "dynamo-demo"
	soloNamespace = metav1.NamespaceDefault
	soloName      = "solo"

	// stepTimeout bounds each wait for something that takes well under a second.
	stepTimeout = 60 * time.Second
	// holdTime is how long the gang is watched while it does not fit.
	holdTime = 3 * time.Second
)

// solo is a plain pod, in no gang, that takes one GPU.
const solo = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: solo, namespace: default}
spec:
  devices:
    requests:
    - name: gpu
      exactly: {deviceClassName: gpu.nvidia.com, count: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: solo, namespace: default}
spec:
  schedulerName: podgang-scheduler
  terminationGracePeriodSeconds: 0
  resourceClaims:
  - {name: gpu, resourceClaimName: solo}
  containers:
  - name: main
    image: busybox
    command: [sleep, infinity]
    resources: {claims: [{name: gpu}]}
`

// Options says how to run the demonstration.
type Options struct {
	// Out gets the tables and the result.
	Out io.Writer
	// OnStep is told of the steps of starting the lab.
	OnStep func(lab.Step)
	// Scheduler is the binary that schedules: lab.PodGangScheduler or lab.KubeScheduler.
	Scheduler string
	// BinDir is where the binaries are; see lab.FindBinary.
	BinDir string
}

// demo is one run.
type demo struct {
	out    io.Writer
	lab    *lab.Lab
	client kubernetes.Interface
	reader *view.Reader

	gang    []*unstructured.Unstructured // the example's objects
	members []string                     // names of the gang's pods
}

// Run runs the demonstration in a lab of its own, which it removes at the end. It
// returns nil only when all of it was observed; else the error says what differed.
func Run(ctx context.Context, opts Options) (err error) {
	d, err := load()
	if err != nil {
		return err
	}
	shape, err := shapes.Load("a", nil)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "podgang-demo-")
	if err != nil {
		return fmt.Errorf("cannot make a directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := lab.Start(ctx, lab.Options{
		Dir: dir, BinDir: opts.BinDir, Shape: shape, OnStep: opts.OnStep,
		Schedulers: []lab.Scheduler{{Binary: opts.Scheduler}},
	})
	if err != nil {
		return err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, l.Stop(stopCtx))
	}()
	d.out, d.lab = opts.Out, l
	result, err := d.run(ctx)
	if err != nil {
		return err
	}
	view.Println(opts.Out, "\n"+result)
	return nil
}

// run returns the last line to print.
func (d *demo) run(ctx context.Context) (string, error) {
	if err := d.connect(); err != nil {
		return "", err
	}
	d.title("A pod in no gang takes one of the two GPUs.")
	if err := d.takeOneGPU(ctx); err != nil {
		return "", err
	}
	d.title("A gang of three is created: frontend, prefill and decode. The workers need a GPU each.")
	if err := d.lab.Apply(ctx, d.gang...); err != nil {
		return "", err
	}
	free, all, err := d.watchHeld(ctx)
	if err != nil {
		return "", err
	}
	if err := d.tables(ctx, "before"); err != nil {
		return "", err
	}
	d.title("The first pod is deleted, which frees its GPU.")
	took, err := d.freeAndTime(ctx)
	if err != nil {
		return "", errors.Join(err, d.tables(ctx, "now"))
	}
	if err := d.waitRunning(ctx); err != nil {
		return "", errors.Join(err, d.tables(ctx, "now"))
	}
	if err := d.tables(ctx, "after"); err != nil {
		return "", err
	}
	n := len(d.members)
	return fmt.Sprintf("demo: held 0/%d with %d of %d GPUs free; bound %d/%d in %d ms after the GPU was freed",
		n, free, all, n, n, took.Milliseconds()), nil
}

// load reads the example.
func load() (*demo, error) {
	d := &demo{}
	var err error
	if d.gang, err = examples.Load(example); err != nil {
		return nil, err
	}
	for _, obj := range d.gang {
		if obj.GetKind() == "Pod" {
			d.members = append(d.members, obj.GetName())
		}
	}
	return d, nil
}

func (d *demo) connect() (err error) {
	config := d.lab.RESTConfig()
	if d.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	d.reader, err = view.NewReader(config)
	return err
}

func (d *demo) title(text string) { view.Printf(d.out, "\n%s\n", text) }

// tables prints the pods, the gang and the claims.
func (d *demo) tables(ctx context.Context, when string) error {
	s, err := d.reader.Read(ctx, soloNamespace, gangNamespace)
	if err != nil {
		return err
	}
	view.Printf(d.out, "\n--- %s ---\n", when)
	s.PrintPods(d.out)
	view.Println(d.out, "")
	s.PrintGangs(d.out)
	view.Println(d.out, "")
	s.PrintClaims(d.out)
	return nil
}

func (d *demo) takeOneGPU(ctx context.Context) error {
	objs, err := lab.Decode("the pod", []byte(solo))
	if err != nil {
		return err
	}
	if err := d.lab.Apply(ctx, objs...); err != nil {
		return err
	}
	return d.until(ctx, "pod "+soloNamespace+"/"+soloName+" runs", func(s *view.State) (bool, string) {
		pod := s.Pod(soloNamespace, soloName)
		return pod != nil && pod.Status.Phase == corev1.PodRunning, "it is " + podState(pod)
	})
}

// until polls the state until the condition holds; at the timeout the error has the
// condition's last description.
func (d *demo) until(ctx context.Context, what string, condition func(*view.State) (ok bool, instead string)) error {
	instead := "nothing was read"
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, stepTimeout, true, func(ctx context.Context) (ok bool, err error) {
		s, err := d.reader.Read(ctx, soloNamespace, gangNamespace)
		if err != nil {
			return false, err
		}
		ok, instead = condition(s)
		return ok, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("expected that %s; after %.0f s %s", what, stepTimeout.Seconds(), instead)
	}
	return err
}

func podState(pod *corev1.Pod) string {
	if pod == nil {
		return "not there"
	}
	state := string(pod.Status.Phase)
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			state += ", " + c.Reason + ": " + c.Message
		}
	}
	return state
}

// watchHeld waits for the scheduler's verdict on the gang and then watches it for
// holdTime. No member may be bound and no claim of the gang allocated at any moment.
func (d *demo) watchHeld(ctx context.Context) (free, all int, err error) {
	err = d.until(ctx, "the scheduler says that the gang cannot be scheduled", func(s *view.State) (bool, string) {
		if d.inPart(s) != "" {
			return true, "" // told below
		}
		return slices.ContainsFunc(d.members, func(name string) bool {
			pod := s.Pod(gangNamespace, name)
			return pod != nil && view.Refusal(pod) != nil
		}), "no pod of the gang has the condition PodScheduled=False with reason Unschedulable"
	})
	if err != nil {
		return 0, 0, errors.Join(err, d.tables(ctx, "now"))
	}
	deadline := time.Now().Add(holdTime)
	var s *view.State
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if s, err = d.reader.Read(ctx, soloNamespace, gangNamespace); err != nil {
			return false, err
		}
		return d.inPart(s) != "" || time.Now().After(deadline), nil
	})
	if err != nil {
		return 0, 0, err
	}
	if fault := d.inPart(s); fault != "" {
		return 0, 0, errors.Join(fmt.Errorf("expected that nothing of the gang is bound while it does not fit; but %s", fault), d.tables(ctx, "now"))
	}
	slices, err := d.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, fmt.Errorf("cannot list the ResourceSlices: %w", err)
	}
	free, all = s.GPUs(slices.Items)
	if free != 1 || all != 2 {
		return 0, 0, fmt.Errorf("expected 1 of 2 GPUs to be free; %d of %d are", free, all)
	}
	return free, all, nil
}

// inPart describes what the gang holds although it is not complete; "" means nothing.
func (d *demo) inPart(s *view.State) string {
	var bound, allocated []string
	for _, name := range d.members {
		if pod := s.Pod(gangNamespace, name); pod != nil && pod.Spec.NodeName != "" {
			bound = append(bound, name)
		}
	}
	for i := range s.Claims {
		if c := &s.Claims[i]; c.Namespace == gangNamespace && c.Status.Allocation != nil {
			allocated = append(allocated, c.Name)
		}
	}
	var parts []string
	if len(bound) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d pods are bound: %s", len(bound), len(d.members), strings.Join(bound, ", ")))
	}
	if len(allocated) > 0 {
		parts = append(parts, fmt.Sprintf("%d of its claims are allocated: %s", len(allocated), strings.Join(allocated, ", ")))
	}
	return strings.Join(parts, "; ")
}

// freeAndTime deletes the pod that holds a GPU and measures the time from the delete
// request until a watch has shown all members of the gang bound.
func (d *demo) freeAndTime(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	pods := d.client.CoreV1().Pods(gangNamespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot list the pods of %s: %w", gangNamespace, err)
	}
	watcher, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return 0, fmt.Errorf("cannot watch the pods of %s: %w", gangNamespace, err)
	}
	defer watcher.Stop()

	freed := time.Now()
	err = d.client.CoreV1().Pods(soloNamespace).Delete(ctx, soloName, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil {
		return 0, fmt.Errorf("cannot delete pod %s/%s: %w", soloNamespace, soloName, err)
	}
	bound := map[string]bool{}
	for event := range watcher.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if ok && pod.Spec.NodeName != "" && slices.Contains(d.members, pod.Name) {
			bound[pod.Name] = true
		}
		if len(bound) == len(d.members) {
			return time.Since(freed), nil
		}
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return 0, err
	}
	return 0, fmt.Errorf("expected %d of %d pods to be bound after the GPU was freed; %d were within %.0f s",
		len(d.members), len(d.members), len(bound), time.Since(freed).Seconds())
}

// waitRunning waits until the gang's floors run, its phase says so, and its claims are allocated.
func (d *demo) waitRunning(ctx context.Context) error {
	return d.until(ctx, "all pods of the gang run, its phase is Running and its 2 claims are allocated", func(s *view.State) (bool, string) {
		if len(s.Gangs) != 1 {
			return false, fmt.Sprintf("there are %d PodGangs", len(s.Gangs))
		}
		gang := &s.Gangs[0]
		if !s.FloorsRun(gang) {
			return false, "some of its pods do not run"
		}
		allocated := 0
		for i := range s.Claims {
			if c := &s.Claims[i]; c.Namespace == gangNamespace && c.Status.Allocation != nil {
				allocated++
			}
		}
		if allocated != 2 {
			return false, fmt.Sprintf("%d of its claims are allocated", allocated)
		}
		return gang.Status.Phase == "Running", fmt.Sprintf("its phase is %q", gang.Status.Phase)
	})
}
