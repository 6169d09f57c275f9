// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

const (
	testScheduler = "podgang-scheduler"
	testNamespace = "ns"
)

// epoch is when the objects of these tests were created.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func keyFor(name string) Key { return Key{Namespace: testNamespace, Name: name} }

// podStore is the informer's store of pods.
type podStore struct {
	mu   sync.Mutex
	pods map[string]*v1.Pod
}

func newPodStore() *podStore { return &podStore{pods: make(map[string]*v1.Pod)} }

func (s *podStore) get(namespace, name string) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[name]; p != nil && p.Namespace == namespace {
		return p
	}
	return nil
}

func (s *podStore) set(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[pod.Name] = pod
}

func (s *podStore) remove(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, pod.Name)
}

// fixture is an Index whose events follow the store at once.
type fixture struct {
	*Index
	t     testing.TB
	store *podStore
	// released are the members whose reservation was given back.
	released []string
}

func newFixture(t testing.TB) *fixture {
	store := newPodStore()
	return &fixture{Index: NewIndex(testScheduler, store.get), t: t, store: store}
}

// put stores the pod and delivers its event.
func (f *fixture) put(pod *v1.Pod) Effects {
	f.store.set(pod)
	return f.SetPod(pod)
}

func (f *fixture) putAll(pods ...*v1.Pod) {
	for _, pod := range pods {
		f.put(pod)
	}
}

// drop deletes the pod from the store and delivers the event.
func (f *fixture) drop(pod *v1.Pod) Effects {
	f.store.remove(pod)
	return f.DeletePod(pod)
}

// expectRole checks the role at admission, and the reason.
func (f *fixture) expectRole(pod *v1.Pod, want Role, wantReason string) {
	f.t.Helper()
	role, reason := f.Admit(pod)
	if role != want || reason != wantReason {
		f.t.Errorf("pod %s: got role %d, reason %q; want role %d, reason %q", pod.Name, role, reason, want, wantReason)
	}
}

// expectGang checks to which gang the index files the pod, "" for none.
func (f *fixture) expectGang(pod *v1.Pod, want string) {
	f.t.Helper()
	key, member := f.GangOf(pod)
	if got := key.Name; got != want || member != (want != "") || f.IsMember(pod) != member {
		f.t.Errorf("pod %s: belongs to gang %q (%v), want %q", pod.Name, got, member, want)
	}
}

// begin starts an attempt of gang g that places what Snapshot gives, the extras
// included.
func (f *fixture) begin(leader *v1.Pod) (*Attempt, map[string]*Ticket) {
	f.t.Helper()
	snapshot, ok := f.Snapshot(keyFor("g"), leader.UID)
	if !ok {
		f.t.Fatalf("no snapshot of gang g for leader %s", leader.Name)
	}
	var placements []Placement
	for _, group := range snapshot.Groups {
		for _, pod := range group.Floors {
			placements = append(placements, Placement{Pod: pod, Node: "node-" + pod.Name, Floor: true})
		}
		for _, pod := range group.Extras {
			placements = append(placements, Placement{Pod: pod, Node: "node-" + pod.Name})
		}
	}
	for n := range placements {
		name := placements[n].Pod.Name
		placements[n].Release = func(context.Context) { f.released = append(f.released, name) }
	}
	attempt, err := f.Begin(keyFor("g"), placements)
	if err != nil {
		f.t.Fatalf("begin an attempt of gang g: %v", err)
	}
	tickets := make(map[string]*Ticket)
	for _, p := range placements {
		ticket := f.Ticket(p.Pod)
		if ticket == nil {
			f.t.Fatalf("pod %s has no ticket", p.Pod.Name)
		}
		if ticket.Node != p.Node || ticket.Floor != p.Floor {
			f.t.Errorf("ticket of pod %s: node %s, floor %v; want %s, %v", p.Pod.Name, ticket.Node, ticket.Floor, p.Node, p.Floor)
		}
		tickets[p.Pod.Name] = ticket
	}
	return attempt, tickets
}

func (f *fixture) enter(tickets ...*Ticket) {
	f.t.Helper()
	for _, ticket := range tickets {
		if err := f.Enter(ticket); err != nil {
			f.t.Fatalf("pod %s enters: %v", ticket.pod.Name, err)
		}
	}
}

// expectVerdict checks the verdict, and that it is open exactly as long as the
// channel is.
func (f *fixture) expectVerdict(ticket *Ticket, decided <-chan struct{}, want bool, wantReason string) {
	f.t.Helper()
	select {
	case <-decided:
	default:
		f.t.Errorf("pod %s: the verdict is still open", ticket.pod.Name)
	}
	if bind, reason := f.Verdict(ticket); bind != want || reason != wantReason {
		f.t.Errorf("pod %s: got verdict %v, reason %q; want %v, %q", ticket.pod.Name, bind, reason, want, wantReason)
	}
}

func expectOpen(t testing.TB, decided <-chan struct{}) {
	t.Helper()
	select {
	case <-decided:
		t.Error("the verdict has fallen, want it open")
	default:
	}
}

// outcome is Effects in a form that can be compared: names, sorted where the
// order is that of a map, each gang that changed once.
type outcome struct {
	Activate, Release, Changed []string
	Retry, Undo                []string
	Freed                      bool
}

func outcomeOf(e Effects) outcome {
	o := outcome{Freed: e.Freed}
	for _, pod := range e.Activate {
		o.Activate = append(o.Activate, pod.Name)
	}
	for _, leaver := range e.Release {
		o.Release = append(o.Release, leaver.Pod.Name)
	}
	for _, key := range e.Changed {
		o.Changed = append(o.Changed, key.Name)
	}
	for _, retry := range e.Retry {
		o.Retry = append(o.Retry, fmt.Sprintf("%s in %v", retry.Pod.Name, retry.Delay))
	}
	for _, undo := range e.Undo {
		var members []string
		for _, m := range undo.Members {
			name := m.Pod.Name
			if m.Entered {
				name += "(entered)"
			}
			members = append(members, name)
		}
		slices.Sort(members)
		o.Undo = append(o.Undo, fmt.Sprintf("%s %v: %s", undo.Key.Name, members, undo.Reason))
	}
	slices.Sort(o.Release)
	slices.Sort(o.Changed)
	o.Changed = slices.Compact(o.Changed)
	return o
}

func expectEffects(t testing.TB, what string, got Effects, want outcome) {
	t.Helper()
	if diff := cmp.Diff(want, outcomeOf(got)); diff != "" {
		t.Errorf("effects of %s (-want +got):\n%s", what, diff)
	}
}

// pod makes a pending pod for the scheduler of these tests.
func pod(name string, options ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(epoch),
		},
		Spec:   v1.PodSpec{SchedulerName: testScheduler},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

// changed returns a copy of the pod, one version later.
func changed(p *v1.Pod, options ...func(*v1.Pod)) *v1.Pod {
	p = p.DeepCopy()
	version, _ := strconv.Atoi(p.ResourceVersion)
	p.ResourceVersion = strconv.Itoa(version + 1)
	for _, option := range options {
		option(p)
	}
	return p
}

func inGang(name string) func(*v1.Pod) {
	return func(p *v1.Pod) { setLabel(p, v1alpha1.LabelPodGang, name) }
}

func scaledFromBase(p *v1.Pod) { setLabel(p, v1alpha1.LabelBasePodGang, "base") }

func setLabel(p *v1.Pod, label, value string) {
	if p.Labels == nil {
		p.Labels = make(map[string]string)
	}
	p.Labels[label] = value
	if value == "" {
		delete(p.Labels, label)
	}
}

func uid(uid string) func(*v1.Pod) { return func(p *v1.Pod) { p.UID = types.UID(uid) } }

func version(v string) func(*v1.Pod) { return func(p *v1.Pod) { p.ResourceVersion = v } }

func onNode(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

func gatedBy(gates ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.SchedulingGates = nil
		for _, gate := range gates {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: gate})
		}
	}
}

func forAnotherScheduler(p *v1.Pod) { p.Spec.SchedulerName = "other" }

func inPhase(phase v1.PodPhase) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.Phase = phase } }

func running(p *v1.Pod) {
	p.Spec.NodeName = "n"
	p.Status.Phase = v1.PodRunning
}

func terminating(p *v1.Pod) {
	now := metav1.NewTime(epoch.Add(time.Hour))
	p.DeletionTimestamp = &now
}

// claimingFrom has the pod wait for a claim that is made from a template.
func claimingFrom(template string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: &template})
	}
}

func claimMade(p *v1.Pod) {
	claim := p.Name + "-gpu-x"
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim}}
}

// podGang makes a PodGang; its options add groups first of all.
func podGang(name string, options ...func(*v1alpha1.PodGang)) *v1alpha1.PodGang {
	pg := &v1alpha1.PodGang{ObjectMeta: metav1.ObjectMeta{
		Namespace: testNamespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1",
		CreationTimestamp: metav1.NewTime(epoch),
	}}
	for _, option := range options {
		option(pg)
	}
	return pg
}

// changedGang returns a copy of the PodGang, one version later.
func changedGang(pg *v1alpha1.PodGang, options ...func(*v1alpha1.PodGang)) *v1alpha1.PodGang {
	pg = pg.DeepCopy()
	version, _ := strconv.Atoi(pg.ResourceVersion)
	pg.ResourceVersion = strconv.Itoa(version + 1)
	for _, option := range options {
		option(pg)
	}
	return pg
}

// group adds a group with its floor and references.
func group(name string, floor int32, pods ...string) func(*v1alpha1.PodGang) {
	return func(pg *v1alpha1.PodGang) {
		refs := make([]v1alpha1.NamespacedName, 0, len(pods))
		for _, pod := range pods {
			refs = append(refs, v1alpha1.NamespacedName{Namespace: pg.Namespace, Name: pod})
		}
		pg.Spec.PodGroups = append(pg.Spec.PodGroups, v1alpha1.PodGroup{Name: name, MinReplicas: floor, PodReferences: refs})
	}
}

// regrouped replaces the groups.
func regrouped(groups ...func(*v1alpha1.PodGang)) func(*v1alpha1.PodGang) {
	return func(pg *v1alpha1.PodGang) {
		pg.Spec.PodGroups = nil
		for _, g := range groups {
			g(pg)
		}
	}
}

func initialized(status metav1.ConditionStatus, reason string) func(*v1alpha1.PodGang) {
	return func(pg *v1alpha1.PodGang) {
		pg.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: status, Reason: reason}}
	}
}

func created(after time.Duration) func(*v1alpha1.PodGang) {
	return func(pg *v1alpha1.PodGang) { pg.CreationTimestamp = metav1.NewTime(epoch.Add(after)) }
}

func gangUID(uid string) func(*v1alpha1.PodGang) {
	return func(pg *v1alpha1.PodGang) { pg.UID = types.UID(uid) }
}

func expectEqual[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// names are the names of pods.
func names(pods []*v1.Pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}
