// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/grove/operator"
	"github.com/podgang/podgang-scheduler/test/observe"
)

const (
	schedulerName = "podgang-scheduler"
	// roleKey is the label and the taint of the workers, agent its value.
	roleKey = "node_role.e2e.grove.nvidia.com"
	agent   = "agent"
)

// scenario is one test: a namespace, a workload, and the nodes that it may use.
type scenario struct {
	t   *testing.T
	c   *cluster
	ctx context.Context
	ns  string

	op         *operator.Operator
	workload   string
	generation operator.Generation
	// total and free are how many of the nodes may be used in all and now: those from 0.
	total, free int

	// mayLack are gangs that have lost bound pods: they may be below their floors.
	mayLack map[string]bool

	// newest is the node that became usable last, "" for those from the start.
	newest string

	markers  int
	added    []string // nodes
	logFrom  int64    // size of the scheduler's log at the start
	restarts int
}

// scenarios numbers the namespaces.
var scenarios atomic.Int32

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// newScenario makes a namespace, and so many of the total nodes usable as are not
// cordoned. At the end of the test the common checks run, and all is deleted but the
// empty namespace.
func newScenario(t *testing.T, total, cordoned int) *scenario {
	t.Helper()
	c := theLab.get(t)
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	s := &scenario{t: t, c: c, ctx: t.Context(), ns: strings.Trim(fmt.Sprintf("t%d-%.40s", scenarios.Add(1), name), "-"), total: total, free: total - cordoned, mayLack: map[string]bool{}}
	if info, err := os.Stat(s.scheduler().LogFile()); err == nil {
		s.logFrom = info.Size()
	}
	s.restarts = s.scheduler().Restarts()
	_, err := c.Client.CoreV1().Namespaces().Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}, metav1.CreateOptions{})
	s.must(err)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = c.Client.CoreV1().ServiceAccounts(s.ns).Create(s.ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // a controller makes it too
		t.Fatal(err)
	}
	t.Cleanup(s.finish)
	s.isRefused() // all nodes are cordoned
	s.must(c.cordon(s.ctx, 0, s.free, false))
	return s
}

// isRefused waits until the scheduler refuses a pod that asks for nothing: it knows then
// that the nodes that the pod may have are cordoned. A node that it thought usable would
// spoil the numbers. It may hear of a pod before it hears of an older change of a node: a
// pod that it has bound is replaced by another.
func (s *scenario) isRefused(opts ...func(*corev1.Pod)) {
	s.t.Helper()
	refused, began := false, time.Now()
	for !refused {
		if time.Since(began) > *patience {
			s.t.Fatalf("expected: a pod that asks for nothing finds no usable node; after %v: all were bound", *patience)
		}
		s.markers++
		probe := s.createPod(fmt.Sprintf("probe-%d", s.markers), opts...)
		s.until("pod "+probe+" is bound or refused", func() string {
			pod := observe.Get[*corev1.Pod](s.c.recorder.State, s.ns, probe)
			if pod == nil {
				return "it does not exist"
			}
			c := observe.Scheduled(pod)
			refused = c != nil && c.Reason == corev1.PodReasonUnschedulable
			if !refused && pod.Spec.NodeName == "" {
				return describe(pod)
			}
			return ""
		})
		s.must(s.c.Client.CoreV1().Pods(s.ns).Delete(s.ctx, probe, metav1.DeleteOptions{}))
	}
}

// onNode confines a pod to a node.
func onNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector[corev1.LabelHostname] = name }
}

func (s *scenario) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scenario) scheduler() *lab.Component { return s.c.Component(lab.PodGangScheduler) }

// until waits for a condition: a function that returns "" when it holds, and otherwise
// what is instead.
func (s *scenario) until(what string, holds func() (instead string)) {
	s.t.Helper()
	instead := ""
	err := s.c.recorder.Wait(s.ctx, *patience, func() bool {
		instead = holds()
		return instead == ""
	})
	if err != nil {
		s.t.Fatalf("expected: %s; after %v: %s", what, *patience, instead)
	}
}

// start starts the operator of a workload.
func (s *scenario) start(w operator.Workload, generation operator.Generation, held ...operator.Hold) {
	s.t.Helper()
	s.workload, s.generation = w.Name, generation
	op, err := operator.Start(context.WithoutCancel(s.ctx), s.c.Client, s.c.Dynamic, operator.Options{
		Namespace: s.ns, Workload: w, Generation: generation, SchedulerName: schedulerName, Held: held,
	})
	s.must(err)
	s.op = op
}

// uncordon makes k more nodes usable.
func (s *scenario) uncordon(k int) {
	s.t.Helper()
	s.must(s.c.cordon(s.ctx, s.free, s.free+k, false))
	s.free += k
	if k > 0 {
		s.newest = nodeName(s.free - 1)
	}
	if s.free > s.total {
		s.t.Fatalf("the scenario has %d nodes, and %d are to be usable", s.total, s.free)
	}
}

// cordonNode cordons a node, and returns when the scheduler knows it.
func (s *scenario) cordonNode(name string) {
	s.t.Helper()
	s.must(s.c.cordonNode(s.ctx, name, true))
	s.isRefused(onNode(name))
}

// addNode adds a node with room for so many pods of the workload, in one moment.
func (s *scenario) addNode(slots int) {
	s.t.Helper()
	name := fmt.Sprintf("%s-%d", s.ns, len(s.added))
	s.added, s.newest = append(s.added, name), name
	node, err := s.c.Client.CoreV1().Nodes().Get(s.ctx, nodeName(0), metav1.GetOptions{})
	s.must(err)
	node.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: node.Labels, Annotations: node.Annotations}
	node.Labels[corev1.LabelHostname] = name
	node.Spec.Unschedulable = false
	memory := resource.NewQuantity(int64(slots)*slotMemory.Value(), resource.BinarySI)
	node.Status.Allocatable[corev1.ResourceMemory], node.Status.Capacity[corev1.ResourceMemory] = *memory, *memory
	_, err = s.c.Client.CoreV1().Nodes().Create(s.ctx, node, metav1.CreateOptions{})
	s.must(err)
}

// slotMemory is what a pod of a workload asks for. A worker has 150Mi.
var slotMemory = resource.MustParse("80Mi")

// worker is a pod for the workers, which asks for nothing.
func worker() corev1.PodSpec {
	return corev1.PodSpec{
		SchedulerName:                 schedulerName,
		NodeSelector:                  map[string]string{roleKey: agent},
		Tolerations:                   []corev1.Toleration{{Key: roleKey, Operator: corev1.TolerationOpEqual, Value: agent, Effect: corev1.TaintEffectNoSchedule}},
		TerminationGracePeriodSeconds: ptr.To[int64](0),
		AutomountServiceAccountToken:  ptr.To(false),
		Containers:                    []corev1.Container{{Name: "main", Image: "pause"}},
	}
}

// createPod creates a pod in no gang and returns its name.
func (s *scenario) createPod(name string, opts ...func(*corev1.Pod)) string {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: worker()}
	for _, opt := range opts {
		opt(pod)
	}
	_, err := s.c.Client.CoreV1().Pods(s.ns).Create(s.ctx, pod, metav1.CreateOptions{})
	s.must(err)
	return name
}

// drain returns when the scheduler has nothing left to try. It has scheduled two pods
// that come after everything else in the queue: the first when nothing else was ready,
// the second after it has been idle and so has tried what was backing off. They go to
// the node that became usable last, so it knows that node.
func (s *scenario) drain() {
	s.t.Helper()
	for range 2 {
		s.markers++
		name := s.createPod(fmt.Sprintf("marker-%d", s.markers), func(p *corev1.Pod) {
			p.Spec.PriorityClassName = markerClass
			if s.newest != "" {
				onNode(s.newest)(p)
			}
		})
		s.isScheduled(name)
	}
}

// isScheduled waits until a pod that has nothing to do with the workload is bound.
func (s *scenario) isScheduled(name string) {
	s.t.Helper()
	s.until("the unrelated pod "+name+" is scheduled", func() string {
		pod := observe.Get[*corev1.Pod](s.c.recorder.State, s.ns, name)
		switch {
		case pod == nil:
			return "it does not exist"
		case pod.Spec.NodeName == "":
			return describe(pod)
		}
		return ""
	})
}

// pods are the pods of the workload, by name.
func (s *scenario) pods() []*corev1.Pod {
	var own []*corev1.Pod
	for _, pod := range observe.List[*corev1.Pod](s.c.recorder.State, s.ns) {
		if pod.Labels[v1alpha1.LabelPartOf] == s.workload {
			own = append(own, pod)
		}
	}
	return own
}

// podsOf are the pods of a gang, by name.
func (s *scenario) podsOf(gang string) []*corev1.Pod {
	var own []*corev1.Pod
	for _, pod := range s.pods() {
		if pod.Labels[v1alpha1.LabelPodGang] == gang {
			own = append(own, pod)
		}
	}
	return own
}

// gangs are the PodGangs that exist, by name.
func (s *scenario) gangs() []*v1alpha1.PodGang {
	return observe.List[*v1alpha1.PodGang](s.c.recorder.State, s.ns)
}

// deletePod deletes a pod of the workload, as a person or an eviction would.
func (s *scenario) deletePod(pod *corev1.Pod) {
	s.t.Helper()
	s.must(s.c.Client.CoreV1().Pods(s.ns).Delete(s.ctx, pod.Name, metav1.DeleteOptions{}))
	s.until("pod "+pod.Name+" is being deleted", func() string {
		if now := observe.Get[*corev1.Pod](s.c.recorder.State, s.ns, pod.Name); now != nil && now.DeletionTimestamp == nil {
			return "it is not"
		}
		return ""
	})
}

// describe says how a pod is doing.
func describe(pod *corev1.Pod) string {
	text := fmt.Sprintf("%s is %s", pod.Name, pod.Status.Phase)
	if pod.Spec.NodeName != "" {
		text += " on " + pod.Spec.NodeName
	}
	if pod.DeletionTimestamp != nil {
		text += ", terminating"
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		text += ", gated"
	}
	if c := observe.Scheduled(pod); c != nil && c.Status != corev1.ConditionTrue {
		text += fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
	}
	return text
}
