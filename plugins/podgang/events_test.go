// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// completeProfile is the default profile with the plugins of this repository in their
// places.
type completeProfile struct {
	profile
	resources *gangresources.Plugin
}

func (p completeProfile) EnqueueExtensions() []fwk.EnqueueExtensions {
	return append(p.profile.EnqueueExtensions(), p.resources)
}

func (p completeProfile) ListPlugins() *schedulerconfig.Plugins {
	set := func(names ...string) (set schedulerconfig.PluginSet) {
		for _, name := range names {
			set.Enabled = append(set.Enabled, schedulerconfig.Plugin{Name: name})
		}
		return set
	}
	return &schedulerconfig.Plugins{
		PreEnqueue: set(GateName), PreFilter: set(Name, gangresources.Name), PostFilter: set(Name), Bind: set(Name),
	}
}

// waitingGang is a gang g of p0 and p1 that has been refused, and the events that the
// plugin has registered.
type waitingGang struct {
	pl     *Plugin
	events []fwk.ClusterEventWithHint
	leader *v1.Pod
}

func newWaitingGang(t *testing.T, load benchLoad) *waitingGang {
	t.Helper()
	ctx, pl, snapshot := benchPlanner(t, load)
	pl.waits, pl.joins, pl.turns = newWaitBook(), newWaitBook(), newTurnBook()
	resources := pl.resources
	pl.handle = completeProfile{pl.handle.(profile), resources}
	pl.findResources = func() (*gangresources.Plugin, error) { return resources, nil }
	events, err := pl.EventsToRegister(ctx)
	must(t, err)
	_, refusal, err := pl.plan(ctx, snapshot)
	must(t, err)
	if refusal == nil {
		t.Fatal("the gang has a plan")
	}
	g := &waitingGang{pl: pl, events: events, leader: snapshot.Groups[0].Floors[0]}
	pl.waits.set(snapshot.Key, g.leader, refusal.blockers)
	return g
}

// change is something that happens in the cluster, as the scheduler's event handlers
// tell it to the queue.
type change struct {
	events         []fwk.ClusterEvent
	oldObj, newObj any
}

// retried reports whether the queue would try the pod again, as it does if a hint for one
// of the events says so.
func (g *waitingGang) retried(t *testing.T, pod *v1.Pod, c change) bool {
	t.Helper()
	retried := false
	for _, event := range c.events {
		for _, registered := range g.events {
			if !framework.MatchClusterEvents(registered.Event, event) {
				continue
			}
			hint, err := registered.QueueingHintFn(klog.Background(), pod, c.oldObj, c.newObj)
			must(t, err)
			retried = retried || hint == fwk.Queue
		}
	}
	return retried
}

func added(resource fwk.EventResource, object any) change {
	return change{[]fwk.ClusterEvent{{Resource: resource, ActionType: fwk.Add}}, nil, object}
}

func removed(resource fwk.EventResource, object any) change {
	return change{[]fwk.ClusterEvent{{Resource: resource, ActionType: fwk.Delete}}, object, nil}
}

// updatedNode is the update of node n0 of the load.
func updatedNode(load benchLoad, update func(*v1.Node)) change {
	nodes, _, _ := load.objects()
	before, after := nodes[0], nodes[0].DeepCopy()
	update(after)
	return change{framework.NodeSchedulingPropertiesChange(after, before), before, after}
}

func updatedClaim(before *resourceapi.ResourceClaim, update func(*resourceapi.ResourceClaim)) change {
	after := before.DeepCopy()
	update(after)
	return change{[]fwk.ClusterEvent{{Resource: fwk.ResourceClaim, ActionType: fwk.Update}}, before, after}
}

// updatedPod is the update of a pod on node n0 that asks for 8 CPUs.
func updatedPod(update func(*v1.Pod)) change {
	before := testPod("other", onNodeNamed("n0"), requesting(0, map[v1.ResourceName]string{v1.ResourceCPU: "8"}))
	after := before.DeepCopy()
	update(after)
	return change{framework.PodSchedulingPropertiesChange(after, before, false), before, after}
}

func allocate(c *resourceapi.ResourceClaim)   { c.Status = takenClaim("n0", 1).Status }
func deallocate(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }
func finalize(c *resourceapi.ResourceClaim)   { c.Finalizers = []string{resourceapi.Finalizer} }

var (
	// lacksDevices is a gang that waits for a device, lacksCPU one that waits for CPU.
	lacksDevices = benchLoad{nodes: 1, devices: 2, taken: 1, pods: 2, each: 1, cpu: "1"}
	lacksCPU     = benchLoad{nodes: 1, pods: 2, cpu: "20"}
)

func TestWaitingGangIsRetriedForWhatCouldHelpIt(t *testing.T) {
	nodes, _, _ := benchLoad{nodes: 2, cpu: "1"}.objects()
	another := nodes[1]
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "more"}}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: benchClass}}
	for _, tc := range []struct {
		name   string
		change change
		// devices and cpu tell whether it helps a gang that waits for these.
		devices, cpu bool
	}{
		{"a node is added", added(fwk.Node, another), true, true},
		{"a node gets more CPU", updatedNode(lacksCPU, func(n *v1.Node) {
			n.Status.Allocatable = amounts("cpu", "64", "memory", "128Gi", "pods", "110")
		}), true, true}, // in-tree, any change of allocatable may help a claim
		{"a node gets a label", updatedNode(lacksCPU, func(n *v1.Node) { n.Labels = map[string]string{"rack": "a"} }), true, false},
		{"a node tells its heartbeat", updatedNode(lacksCPU, func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(start.Add(time.Minute))}}
		}), false, false},
		{"a node gets an annotation", updatedNode(lacksCPU, func(n *v1.Node) { n.Annotations = map[string]string{"seen": "now"} }), false, false},

		{"a claim of others is deallocated", updatedClaim(takenClaim("n0", 1), deallocate), true, false},
		{"a claim of others that is allocated is deleted", removed(fwk.ResourceClaim, takenClaim("n0", 1)), true, false},
		{"a claim of others that is not allocated is deleted", removed(fwk.ResourceClaim, benchClaim("other", 1)), false, false},
		{"a claim of others is created", added(fwk.ResourceClaim, benchClaim("other", 1)), false, false},
		{"a claim of others is allocated", updatedClaim(benchClaim("other", 1), allocate), false, false},
		{"a claim of others gets a finalizer", updatedClaim(benchClaim("other", 1), finalize), false, false},
		{"a claim of the gang is allocated", updatedClaim(benchClaim("p0", 1), allocate), true, false},
		{"a claim of the gang gets a finalizer", updatedClaim(benchClaim("p0", 1), finalize), false, false},
		{"a ResourceSlice is added", added(fwk.ResourceSlice, slice), true, false},
		{"a ResourceSlice is deleted", removed(fwk.ResourceSlice, slice), false, false},
		{"a DeviceClass is added", added(fwk.DeviceClass, class), true, false},

		// CPU that comes free may help any gang that has nodes to choose from.
		{"a pod on a node is deleted", removed(fwk.AssignedPod, testPod("other", onNodeNamed("n0"))), true, true},
		{"a pod on a node asks for less CPU", updatedPod(requesting(0, map[v1.ResourceName]string{v1.ResourceCPU: "1"})), true, true},
		{"a pod on a node asks for more CPU", updatedPod(requesting(0, map[v1.ResourceName]string{v1.ResourceCPU: "9"})), false, false},
		{"a pod on a node gets a label", updatedPod(func(p *v1.Pod) { p.Labels = map[string]string{"app": "other"} }), false, false},
		{"a pod on a node gets an annotation", updatedPod(func(p *v1.Pod) { p.Annotations = map[string]string{"seen": "now"} }), false, false},
		{"a pod on a node runs", updatedPod(func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }), false, false},
		{"a pod is bound", added(fwk.AssignedPod, testPod("other", onNodeNamed("n0"))), false, false},
		{"a pod is created", added(fwk.UnscheduledPod, testPod("other")), false, false},
		{"a pod that waits is deleted", removed(fwk.UnscheduledPod, testPod("other")), false, false},
	} {
		for kind, want := range map[string]bool{"devices": tc.devices, "cpu": tc.cpu} {
			t.Run(tc.name+"/for a gang that lacks "+kind, func(t *testing.T) {
				g := newWaitingGang(t, map[string]benchLoad{"devices": lacksDevices, "cpu": lacksCPU}[kind])
				if got := g.retried(t, g.leader, tc.change); got != want {
					t.Errorf("retried %t, want %t", got, want)
				}
				// A gang that is woken has its turn before pods behind it.
				if _, due := g.pl.turns.due[gang.Key{Namespace: "ns", Name: "g"}]; due != want {
					t.Errorf("the gang is due for a turn: %t, want %t", due, want)
				}
			})
		}
	}
}

// What wakes the leader is what would help any member.
func TestGangIsRetriedForAClaimOfAnyMember(t *testing.T) {
	g := newWaitingGang(t, lacksDevices)
	refused := g.pl.waits.blockedBy(gang.Key{Namespace: "ns", Name: "g"}, g.leader.UID, gangresources.Name)
	if len(refused) == 0 {
		t.Fatal("no member was refused for its devices")
	}
	g.pl.waits.set(gang.Key{Namespace: "ns", Name: "g"}, g.leader, blockers{gangresources.Name: {memberNamed(t, g, "p1")}})
	if !g.retried(t, g.leader, updatedClaim(benchClaim("p1", 1), allocate)) {
		t.Error("not retried for the claim of a member that was refused")
	}
	if g.retried(t, g.leader, updatedClaim(benchClaim("p0", 1), allocate)) {
		t.Error("retried for the claim of a member that was not refused")
	}
}

// memberNamed is a member of the gang as the index knows it.
func memberNamed(t *testing.T, g *waitingGang, name string) *v1.Pod {
	t.Helper()
	view, _ := g.pl.index.View(gang.Key{Namespace: "ns", Name: "g"})
	for _, waiting := range view.Waiting {
		if waiting.Pod.Name == name {
			return waiting.Pod
		}
	}
	t.Fatalf("the gang has no member %s that waits", name)
	return nil
}

func TestOnlyTheLeaderOfAGangThatWaitsIsRetried(t *testing.T) {
	nodes, _, _ := benchLoad{nodes: 2, cpu: "1"}.objects()
	node := added(fwk.Node, nodes[1])
	for _, tc := range []struct {
		name string
		// pod is asked for after prepare.
		pod     func(t *testing.T, g *waitingGang) *v1.Pod
		prepare func(g *waitingGang)
		// retried is what the hint says; due, that the gang gets a turn before others.
		retried, due bool
	}{
		{"the leader", func(_ *testing.T, g *waitingGang) *v1.Pod { return g.leader }, nil, true, true},
		{"another member", func(t *testing.T, g *waitingGang) *v1.Pod { return memberNamed(t, g, "p1") }, nil, false, false},
		{"a pod in no gang", func(*testing.T, *waitingGang) *v1.Pod { return testPod("other", forScheduler) }, nil, false, false},
		{
			"the leader of a gang that has a place now", func(_ *testing.T, g *waitingGang) *v1.Pod { return g.leader },
			func(g *waitingGang) { g.pl.waits.clear(gang.Key{Namespace: "ns", Name: "g"}) }, false, false,
		},
		{
			"a member that joins its gang alone and was refused", func(t *testing.T, g *waitingGang) *v1.Pod { return memberNamed(t, g, "p1") },
			func(g *waitingGang) {
				g.pl.waits.clear(gang.Key{Namespace: "ns", Name: "g"})
				g.pl.joins.set(gang.Key{Namespace: "ns", Name: "p1"}, testPod("p1"), blockers{gangresources.Name: {testPod("p1")}})
			}, true, false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newWaitingGang(t, lacksDevices)
			if tc.prepare != nil {
				tc.prepare(g)
			}
			if got := g.retried(t, tc.pod(t, g), node); got != tc.retried {
				t.Errorf("retried %t, want %t", got, tc.retried)
			}
			if _, due := g.pl.turns.due[gang.Key{Namespace: "ns", Name: "g"}]; due != tc.due {
				t.Errorf("the gang is due for a turn: %t, want %t", due, tc.due)
			}
		})
	}
}

// With the feature gate SchedulerPreQueueingHints the queue asks only the pods that use a
// claim which has changed. The leader waits for all members.
func TestEventsOfClaimsReachTheLeaderWhoseverTheyAre(t *testing.T) {
	g := newWaitingGang(t, lacksDevices)
	_, pods, _ := lacksDevices.objects()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, pod := range pods {
		must(t, store.Add(pod))
	}
	g.pl.pods = corelisters.NewPodLister(store)
	name := func(pod string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: pod} }
	for _, tc := range []struct {
		name   string
		theirs fwk.PreQueueingHintResult
		err    error
		want   []types.NamespacedName
		all    bool
	}{
		{name: "another member's", theirs: fwk.PreQueueingHintResult{Pods: []types.NamespacedName{name("p1")}}, want: []types.NamespacedName{name("p1"), name("p0")}},
		{name: "a pod that is gone", theirs: fwk.PreQueueingHintResult{Pods: []types.NamespacedName{name("gone")}}, want: []types.NamespacedName{name("gone")}},
		{name: "nobody's", theirs: fwk.PreQueueingHintResult{}},
		{name: "devices come free", theirs: fwk.PreQueueingHintResult{AllPods: true}, all: true},
		{name: "an error", err: errors.New("no index"), want: nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := g.pl.withLeaders(func(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) { return tc.theirs, tc.err })(klog.Background(), nil, benchClaim("p1", 1))
			if !errors.Is(err, tc.err) || got.AllPods != tc.all || !slices.Equal(got.Pods, tc.want) {
				t.Errorf("got %+v (%v), want pods %v, all %t (%v)", got, err, tc.want, tc.all, tc.err)
			}
		})
	}
}

func TestEventsOfClaimsAreNarrowed(t *testing.T) {
	g := newWaitingGang(t, lacksDevices)
	narrowed := slices.ContainsFunc(g.events, func(e fwk.ClusterEventWithHint) bool {
		return e.Event.Resource == fwk.ResourceClaim && e.PreQueueingHintFn != nil
	})
	if !narrowed {
		t.Error("every pod that waits is asked about every claim that is written")
	}
}
