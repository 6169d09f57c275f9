// SPDX-License-Identifier: Apache-2.0

package e2e

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
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// scenario is one test in a namespace of its own.
type scenario struct {
	t   *testing.T
	c   *cluster
	ctx context.Context
	ns  string

	markers   int
	nodes     []string
	classes   []string         // DeviceClasses
	pclasses  []string         // PriorityClasses
	logFrom   map[string]int64 // size of the components' logs at the start, by name
	restarts  int
	rulesOpen []*rule
	// restore undoes what the test has changed of nodes that it has not made, the last first.
	restore []func(context.Context) error
	// foreignBinder says that the test itself binds a member, as another scheduler would.
	foreignBinder bool
	// outage says that the API server was killed. One that has just started forbids what it
	// does not know the rules of yet.
	outage bool
	// killed is how often the test has started the scheduler again.
	killed int
}

var scenarios atomic.Int32

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// newScenario makes a namespace in a lab. At the end of the test the common checks run,
// and what the scenario made is deleted, but for the empty namespace.
func newScenario(t *testing.T, source *labSource) *scenario {
	t.Helper()
	c := source.get(t)
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	s := &scenario{t: t, c: c, ctx: t.Context(), ns: fmt.Sprintf("t%d-%.40s", scenarios.Add(1), name)}
	s.ns = strings.Trim(s.ns, "-")
	s.restarts = s.scheduler().Restarts()
	if c.used { // the first scenario answers for the start too
		s.logFrom = s.logSizes()
	}
	c.used = true
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}
	_, err := c.client.CoreV1().Namespaces().Create(s.ctx, ns, metav1.CreateOptions{})
	s.must(err)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = c.client.CoreV1().ServiceAccounts(s.ns).Create(s.ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // a controller makes it too
		t.Fatal(err)
	}
	s.template(gpuTemplate, claimSpec(request("gpu", gpuClass, 1)))
	s.template(markerTemplate, claimSpec(request("mark", markerClass, 1)))
	t.Cleanup(s.finish)
	return s
}

// shared is a scenario in the lab that most tests share.
func shared(t *testing.T) *scenario {
	t.Helper()
	return newScenario(t, sharedLab)
}

func (s *scenario) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scenario) client() kubernetes.Interface { return s.c.client }

func (s *scenario) scheduler() *lab.Component { return s.c.Component(lab.PodGangScheduler) }

func (s *scenario) logSizes() map[string]int64 {
	sizes := map[string]int64{}
	for _, component := range s.c.Components() {
		if info, err := os.Stat(component.LogFile()); err == nil {
			sizes[component.Name()] = info.Size()
		}
	}
	return sizes
}

// until waits for a condition: a function that returns "" when it holds, and otherwise
// what is instead.
func (s *scenario) until(what string, condition func() (instead string)) {
	s.t.Helper()
	instead := ""
	err := s.c.history.wait(s.ctx, *patience, func() bool {
		instead = condition()
		return instead == ""
	})
	if err != nil {
		s.t.Fatalf("expected: %s; after %v: %s", what, *patience, instead)
	}
}

// seen waits until the history knows a version of an object that was just written.
func (s *scenario) seen(object metav1.Object) {
	s.t.Helper()
	key, uid, version := keyOf(object), object.GetUID(), object.GetResourceVersion()
	s.until("the watch shows "+key, func() string {
		if s.c.history.saw(object.GetNamespace(), func(r record) bool {
			return keyOf(r.object) == key && r.object.GetUID() == uid && r.object.GetResourceVersion() == version
		}) {
			return ""
		}
		return "it does not"
	})
}

// pod creates a pod.
func (s *scenario) pod(name string, opts ...podOption) *corev1.Pod {
	s.t.Helper()
	pod, err := s.client().CoreV1().Pods(s.ns).Create(s.ctx, newPod(name, opts...), metav1.CreateOptions{})
	s.must(err)
	s.seen(pod)
	return pod
}

// members creates n pods of a gang, named after it, and returns their names.
func (s *scenario) members(gang string, n int, opts ...podOption) []string {
	s.t.Helper()
	list := names(gang, n)
	for _, name := range list {
		s.pod(name, append([]podOption{of(gang)}, opts...)...)
	}
	return list
}

// plainPods creates pods in no gang and waits until they are bound.
func (s *scenario) plainPods(list []string, opts ...podOption) {
	s.t.Helper()
	for _, name := range list {
		s.pod(name, opts...)
	}
	s.bound(list...)
}

// takeGPU has a plain pod take one GPU.
func (s *scenario) takeGPU(name string) {
	s.t.Helper()
	s.plainPods([]string{name}, gpu)
}

// deletePods deletes pods and waits until they are gone.
func (s *scenario) deletePods(list ...string) {
	s.t.Helper()
	for _, name := range list {
		pod := s.getPod(name)
		if pod == nil {
			s.t.Fatalf("pod %s does not exist", name)
		}
		s.must(s.client().CoreV1().Pods(s.ns).Delete(s.ctx, name, metav1.DeleteOptions{}))
		s.until("pod "+name+" is gone", func() string {
			if now := s.getPod(name); now != nil && now.UID == pod.UID {
				return "it is there"
			}
			return ""
		})
	}
}

// gone deletes pods and their gang.
func (s *scenario) gone(gang string, pods ...string) {
	s.t.Helper()
	s.deletePods(pods...)
	s.deleteGang(gang)
}

// editPod changes a pod.
func (s *scenario) editPod(name string, change func(*corev1.Pod)) {
	s.t.Helper()
	pods := s.client().CoreV1().Pods(s.ns)
	s.retryConflict(func() error {
		pod, err := pods.Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(pod)
		pod, err = pods.Update(s.ctx, pod, metav1.UpdateOptions{})
		if err == nil {
			s.seen(pod)
		}
		return err
	})
}

// ungate takes the scheduling gate off pods.
func (s *scenario) ungate(list ...string) {
	s.t.Helper()
	for _, name := range list {
		s.editPod(name, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	}
}

// setPodPhase writes the phase of a pod, as its kubelet would.
func (s *scenario) setPodPhase(name string, phase corev1.PodPhase) {
	s.t.Helper()
	pods := s.client().CoreV1().Pods(s.ns)
	s.retryConflict(func() error {
		pod, err := pods.Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase = phase
		pod, err = pods.UpdateStatus(s.ctx, pod, metav1.UpdateOptions{})
		if err == nil {
			s.seen(pod)
		}
		return err
	})
}

func (s *scenario) retryConflict(write func() error) {
	s.t.Helper()
	for range 20 {
		err := write()
		if apierrors.IsConflict(err) {
			continue
		}
		s.must(err)
		return
	}
	s.t.Fatal("20 conflicts in a row")
}

// template creates a ResourceClaimTemplate.
func (s *scenario) template(name string, spec resourcev1.ResourceClaimSpec) {
	s.t.Helper()
	_, err := s.client().ResourceV1().ResourceClaimTemplates(s.ns).Create(s.ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: spec},
	}, metav1.CreateOptions{})
	s.must(err)
}

// claim creates a ResourceClaim.
func (s *scenario) claim(name string, spec resourcev1.ResourceClaimSpec) {
	s.t.Helper()
	c, err := s.client().ResourceV1().ResourceClaims(s.ns).Create(s.ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	s.must(err)
	s.seen(c)
}

// node adds a node, in a room of the scenario's name.
func (s *scenario) node(suffix string, opts ...nodeOption) string {
	s.t.Helper()
	name := s.ns + "-" + suffix
	s.nodes = append(s.nodes, name)
	s.must(s.c.ApplyShape(s.ctx, newNode(name, s.ns, opts...)))
	return name
}

// unattendedNode adds a node that kwok leaves alone: pods that are bound to it start
// when the test says so, and not before.
func (s *scenario) unattendedNode(suffix string, opts ...nodeOption) string {
	s.t.Helper()
	name := s.ns + "-" + suffix
	s.nodes = append(s.nodes, name)
	shape := newNode(name, s.ns, opts...)
	_, err := s.client().CoreV1().Nodes().Create(s.ctx, shape.Nodes[0], metav1.CreateOptions{})
	s.must(err)
	for _, slice := range shape.Slices {
		_, err := s.client().ResourceV1().ResourceSlices().Create(s.ctx, slice, metav1.CreateOptions{})
		s.must(err)
	}
	return name
}

// cordon keeps pods from nodes, or lets them on again.
func (s *scenario) cordon(unschedulable bool, list ...string) {
	s.t.Helper()
	nodes := s.client().CoreV1().Nodes()
	for _, name := range list {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable)
		_, err := nodes.Patch(s.ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		s.must(err)
	}
}

// setAllocatable changes what a node has of a resource, as its kubelet would.
func (s *scenario) setAllocatable(node string, resource corev1.ResourceName, quantity string) {
	s.t.Helper()
	nodes := s.client().CoreV1().Nodes()
	s.retryConflict(func() error {
		n, err := nodes.Get(s.ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		setResource(n, resource, quantity)
		_, err = nodes.UpdateStatus(s.ctx, n, metav1.UpdateOptions{})
		return err
	})
}

func (s *scenario) getPod(name string) *corev1.Pod {
	return get[*corev1.Pod](s.c.history, s.ns, name)
}

func (s *scenario) getGang(name string) *v1alpha1.PodGang {
	return get[*v1alpha1.PodGang](s.c.history, s.ns, name)
}

// claimsOf returns the claims of a pod that exist.
func (s *scenario) claimsOf(pod *corev1.Pod) []*resourcev1.ResourceClaim {
	var claims []*resourcev1.ResourceClaim
	for _, name := range observe.ClaimNames(pod) {
		if c := get[*resourcev1.ResourceClaim](s.c.history, pod.Namespace, name); c != nil {
			claims = append(claims, c)
		}
	}
	return claims
}

// running waits until the kubelet has started all pods.
func (s *scenario) running(list ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%v run", list), func() string {
		for _, name := range list {
			if pod := s.getPod(name); pod == nil || pod.Status.Phase != corev1.PodRunning {
				return s.describe(name)
			}
		}
		return ""
	})
}

// describe says how a pod is doing.
func (s *scenario) describe(name string) string {
	pod := s.getPod(name)
	if pod == nil {
		return name + " does not exist"
	}
	text := fmt.Sprintf("%s is %s", name, pod.Status.Phase)
	if pod.Spec.NodeName != "" {
		text += " on " + pod.Spec.NodeName
	}
	if c := observe.Scheduled(pod); c != nil && c.Status != corev1.ConditionTrue {
		text += fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
	}
	return text
}

// waits waits until every pod says that it cannot be scheduled, in the given words.
func (s *scenario) waits(list []string, words ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%v have PodScheduled=False with the words %q", list, words), func() string {
		var missing []string
		for _, name := range list {
			pod := s.getPod(name)
			if pod == nil || pod.Spec.NodeName != "" {
				missing = append(missing, s.describe(name))
				continue
			}
			if c := observe.Scheduled(pod); c == nil || c.Status != corev1.ConditionFalse || !hasWords(c.Message, words) {
				missing = append(missing, s.describe(name))
			}
		}
		return strings.Join(missing, "; ")
	})
}

// unschedulable is waits for the reason that cluster autoscalers act on.
func (s *scenario) unschedulable(list []string, words ...string) {
	s.t.Helper()
	s.waits(list, words...)
	for _, name := range list {
		if c := observe.Scheduled(s.getPod(name)); c.Reason != corev1.PodReasonUnschedulable {
			s.t.Errorf("pod %s has reason %s, want %s: %s", name, c.Reason, corev1.PodReasonUnschedulable, c.Message)
		}
	}
}

func hasWords(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// tells waits for an event on the gang with the words.
func (s *scenario) tells(gang string, words ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("an event on PodGang %s with the words %q", gang, words), func() string {
		notes := s.eventsOn(gang)
		for _, note := range notes {
			if hasWords(note, words) {
				return ""
			}
		}
		return fmt.Sprintf("the events are %q", notes)
	})
}

// eventsOn returns the events on a gang, "reason: note" each.
func (s *scenario) eventsOn(gang string) []string {
	var notes []string
	for _, r := range s.c.history.of(s.ns) {
		if e, ok := r.object.(*eventsv1.Event); ok && e.Regarding.Kind == "PodGang" && e.Regarding.Name == gang {
			notes = append(notes, e.Reason+": "+e.Note)
		}
	}
	return notes
}

// holdsNothing checks that the pods, as they are now, have never been bound and that no
// claim of theirs has ever been allocated, once the scheduler has served a pod that
// was created after this call.
func (s *scenario) holdsNothing(list ...string) {
	s.t.Helper()
	s.marker()
	for _, name := range list {
		pod := s.getPod(name)
		if pod == nil {
			continue
		}
		for _, r := range s.c.history.of(s.ns) {
			switch object := r.object.(type) {
			case *corev1.Pod:
				if object.UID == pod.UID && object.Spec.NodeName != "" {
					s.t.Fatalf("expected that pod %s is not bound; it was bound to %s", name, object.Spec.NodeName)
				}
			case *resourcev1.ResourceClaim:
				if object.Status.Allocation != nil && usedBy(object, pod) {
					s.t.Fatalf("expected that pod %s holds no device; its claim %s was allocated", name, object.Name)
				}
			}
		}
	}
}

// usedBy reports whether the claim was made for the pod or is reserved for it.
func usedBy(c *resourcev1.ResourceClaim, pod *corev1.Pod) bool {
	for _, owner := range c.OwnerReferences {
		if owner.UID == pod.UID {
			return true
		}
	}
	return reservedFor(c, pod)
}

func reservedFor(c *resourcev1.ResourceClaim, pod *corev1.Pod) bool {
	for _, consumer := range c.Status.ReservedFor {
		if consumer.UID == pod.UID {
			return true
		}
	}
	return false
}

// marker has an unrelated pod scheduled, with a claim so that it takes as long as a
// member of a gang: the scheduler has then seen what was there before, looked at what it
// had queued, and written what it had decided.
func (s *scenario) marker() {
	s.t.Helper()
	s.markers++
	name := fmt.Sprintf("marker-%d", s.markers)
	s.plainPods([]string{name}, fromTemplate("mark", markerTemplate))
	s.deletePods(name)
}

// gpusUsable checks that n GPUs can be had now: nothing is held for nobody.
func (s *scenario) gpusUsable(n int) {
	s.t.Helper()
	list := names("user", n)
	s.plainPods(list, gpu)
	s.deletePods(list...)
}

// eventually is until for the checks at the end, which must not end the test.
func (s *scenario) eventually(ctx context.Context, timeout time.Duration, condition func() (instead string)) string {
	instead := ""
	if err := s.c.history.wait(ctx, timeout, func() bool {
		instead = condition()
		return instead == ""
	}); err != nil {
		return instead
	}
	return ""
}
