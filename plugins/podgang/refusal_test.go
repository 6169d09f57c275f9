// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/placement"
)

// fakeHandle knows resource claims and nothing else.
type fakeHandle struct {
	fwk.Handle
	fakeManager
}

func (h fakeHandle) SharedDRAManager() fwk.SharedDRAManager { return h.fakeManager }

type fakeManager struct {
	fwk.SharedDRAManager
	fakeClaims
}

func (m fakeManager) ResourceClaims() fwk.ResourceClaimTracker { return m.fakeClaims }

// fakeClaims holds claims by name.
type fakeClaims struct {
	fwk.ResourceClaimTracker
	claims map[string]*resourceapi.ResourceClaim
}

func (c fakeClaims) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	if claim := c.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, errors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
}

// testWorld is a world of nodes, in which no member has been placed.
func testWorld(nodes int, claims map[string]*resourceapi.ResourceClaim) *world {
	handle := fakeHandle{fakeManager: fakeManager{fakeClaims: fakeClaims{claims: claims}}}
	w := &world{
		pl:      &Plugin{handle: handle, keys: newKeyBook()},
		classOf: make(map[string]*class), named: make(map[string]bool), texts: make(map[shortfall]string),
	}
	for range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		w.nodes = append(w.nodes, info)
	}
	return w
}

func TestNeedsOf(t *testing.T) {
	all := exactly(0, "gpu.nvidia.com")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	either := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		FirstAvailable: []resourceapi.DeviceSubRequest{{DeviceClassName: "big.example.com"}, {DeviceClassName: "small.example.com", Count: 4}},
	}}}}}
	constrained := exactly(2, "gpu.nvidia.com")
	root, rail := resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot"), resourceapi.FullyQualifiedName("example.com/rail")
	constrained.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &root}, {DistinctAttribute: &rail}}
	w := testWorld(0, map[string]*resourceapi.ResourceClaim{
		"p-constrained": constrained,
		"p-four":        exactly(4, "gpu.nvidia.com"), "p-all": all, "p-either": either, "by-name-claim": exactly(1, "imex.nvidia.com"),
	})
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want string
	}{
		{"nothing", testPod("p"), "no requests"},
		{"resources, by name", testPod("p", requesting(0, map[v1.ResourceName]string{"nvidia.com/gpu": "4", "cpu": "2", "memory": "1Gi"})), "2 cpu, 1Gi memory, 4 nvidia.com/gpu"},
		{"resources of several containers", testPod("p", requesting(0, map[v1.ResourceName]string{"cpu": "2"}), requesting(1, map[v1.ResourceName]string{"cpu": "500m"})), "2+500m cpu"},
		{"devices", testPod("p", claimingFrom("four")), "4× gpu.nvidia.com"},
		{"all devices", testPod("p", claimingFrom("all")), "all gpu.nvidia.com"},
		{"alternatives", testPod("p", claimingFrom("either")), "1× big.example.com or an alternative"},
		{
			"devices under constraints", testPod("p", claimingFrom("constrained")),
			"2× gpu.nvidia.com, with equal resource.kubernetes.io/pcieRoot, with different example.com/rail",
		},
		{"a claim by name", testPod("p", claiming("by-name-claim")), "1× imex.nvidia.com"},
		{"a claim that does not exist", testPod("p", claiming("nowhere")), "claim by-name"},
		{"a claim that is not made yet", testPod("p", func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("t")}}
		}), "claim gpu"},
		{"devices and resources", testPod("p", claimingFrom("four"), requesting(0, map[v1.ResourceName]string{"cpu": "1"})), "4× gpu.nvidia.com, 1 cpu"},
	} {
		if got := w.needsOf(&class{pod: tc.pod}); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestDeviceCounts(t *testing.T) {
	all := exactly(0, "gpu.nvidia.com")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	constrained := exactly(2, "gpu.nvidia.com")
	root, rail := resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot"), resourceapi.FullyQualifiedName("example.com/rail")
	constrained.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &root}, {DistinctAttribute: &rail}}
	w := testWorld(0, map[string]*resourceapi.ResourceClaim{
		"p-constrained": constrained,
		"p-four":        exactly(4, "gpu.nvidia.com"), "p-two": exactly(2, "gpu.nvidia.com"), "p-nic": exactly(1, "nic.example.com"), "p-all": all, "shared": exactly(1, "imex.nvidia.com"),
	})
	got := w.deviceCounts(testPod("p", claimingFrom("four"), claimingFrom("two"), claimingFrom("nic"), claimingFrom("all"), claiming("shared")))
	if diff := cmp.Diff(map[string]int{"gpu.nvidia.com": 6, "nic.example.com": 1}, got); diff != "" {
		t.Errorf("devices that one pod takes for itself (-want +got):\n%s", diff)
	}
}

// answers are those of filters that refuse some of the nodes.
func answers(nodes int, refusals map[int]nodeRefusal) []*fwk.Status {
	statuses := make([]*fwk.Status, nodes)
	for n, refusal := range refusals {
		statuses[n] = fwk.NewStatus(fwk.Unschedulable, refusal.reason).WithPlugin(refusal.plugin)
	}
	return statuses
}

func TestReasonsAddUpToTheCluster(t *testing.T) {
	for _, tc := range []struct {
		name           string
		nodes          int
		filtered, full map[int]nodeRefusal
		want           string
	}{
		{"no nodes", 0, nil, nil, "the cluster has no nodes"},
		{"one node", 1, map[int]nodeRefusal{0: {"TaintToleration", "taint maintenance"}}, nil, "1 node: taint maintenance"},
		{
			"the most frequent first, then by name; what was refused before placing counts", 7,
			map[int]nodeRefusal{0: {"X", "zebra"}, 1: {"X", "apple"}, 2: {"X", "common"}},
			map[int]nodeRefusal{2: {"Y", "not this"}, 3: {"Y", "common"}, 4: {"Y", "common"}},
			"3 nodes: common; 2 nodes: has room, and more is needed; 1 node: apple; 1 node: zebra",
		},
	} {
		w := testWorld(tc.nodes, nil)
		if got := w.reasons(&class{answers: answers(tc.nodes, tc.filtered), full: tc.full}); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	key := gang.Key{Namespace: "ns", Name: "g"}
	newWorld := func() *world {
		w := testWorld(3, nil)
		for _, p := range []*v1.Pod{testPod("p", requesting(0, map[v1.ResourceName]string{"cpu": "8"})), testPod("q")} {
			if err := w.addMember("w", p, true); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range w.classes {
			c.screened, c.nodes = true, []int{1, 2}
		}
		w.classes[0].answers = answers(3, map[int]nodeRefusal{0: {"TaintToleration", "taint maintenance"}})
		w.classes[0].full[1] = nodeRefusal{"NodeResourcesFit", "Insufficient cpu"}
		w.classes[1].full[1] = nodeRefusal{"NodeResourcesFit,NodePorts", "Too many pods"}
		return w
	}
	const reasons = "1 node: Insufficient cpu; 1 node: has room, and more is needed; 1 node: taint maintenance"
	for _, tc := range []struct {
		name     string
		shortage placement.Shortage
		want     string
	}{
		{"alone", placement.Shortage{Scope: -1, Placed: 1, Wanted: 2, Alone: true}, "PodGang ns/g: group w needs 2 pods (8 cpu), there is room for 1: " + reasons},
		{"one pod and no room", placement.Shortage{Scope: -1, Wanted: 1, Alone: true}, "PodGang ns/g: group w needs 1 pod (8 cpu), there is room for none: " + reasons},
		{"together", placement.Shortage{Scope: -1, Placed: 1, Wanted: 2}, "PodGang ns/g: group w needs 2 pods (8 cpu), there is room for 1 beside the rest of the gang: " + reasons},
		{
			"cut short", placement.Shortage{Scope: -1, Placed: 1, Wanted: 2, Exhausted: true, Tried: 77},
			"PodGang ns/g: group w needs 2 pods (8 cpu), there is room for 1 beside the rest of the gang: " + reasons + "; the search was cut short after 77 placements",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newWorld().refusal(key, &tc.shortage)
			if r.message != tc.want {
				t.Errorf("got  %q\nwant %q", r.message, tc.want)
			}
			if got, want := r.podMessage(testPod("p")), "0/3 nodes are available: "+tc.want+"."; got != want {
				t.Errorf("on the pods: got  %q\nwant %q", got, want)
			}
			got := make(map[string][]string)
			for plugin, pods := range r.blockers {
				got[plugin] = podNames(pods)
			}
			want := map[string][]string{"TaintToleration": {"p"}, "NodeResourcesFit": {"p", "q"}, "NodePorts": {"q"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("blockers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedClass(t *testing.T) {
	key := gang.Key{Namespace: "ns", Name: "g"}
	w := testWorld(2, nil)
	for _, p := range []*v1.Pod{testPod("p"), testPod("q", labelled("a", "b"))} {
		if err := w.addMember("w", p, true); err != nil {
			t.Fatal(err)
		}
	}
	if r := w.refusedClass(key, 2); r != nil {
		t.Errorf("nobody was refused: got %+v", r)
	}
	w.classes[1].refused = &nodeRefusal{"VolumeBinding", `persistentvolumeclaim "c" not found`}
	if r := w.refusedClass(key, 1); r != nil {
		t.Errorf("a member beyond the floor holds the gang back: %+v", r)
	}
	r := w.refusedClass(key, 2)
	if r == nil {
		t.Fatal("no refusal")
	}
	if want := `PodGang ns/g: pod q of group w: persistentvolumeclaim "c" not found`; r.message != want || r.nodes != 2 {
		t.Errorf("got %q of %d nodes, want %q of 2", r.message, r.nodes, want)
	}
	if diff := cmp.Diff([]string{"q"}, podNames(r.blockers["VolumeBinding"])); diff != "" {
		t.Errorf("blockers (-want +got):\n%s", diff)
	}
}

func TestMembersWithEqualNeedsAreOneClass(t *testing.T) {
	w := testWorld(0, nil)
	spread := testPod("s", func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1}} })
	for _, m := range []struct {
		group string
		pod   *v1.Pod
	}{{"a", testPod("p")}, {"a", testPod("q")}, {"b", testPod("r")}} {
		if err := w.addMember(m.group, m.pod, true); err != nil {
			t.Fatal(err)
		}
	}
	if w.interacts {
		t.Error("members interact, and none has affinity or spreading")
	}
	if err := w.addMember("b", spread, false); err != nil {
		t.Fatal(err)
	}
	if !w.interacts {
		t.Error("members do not interact, and one spreads")
	}
	w.classes[2].nodes = []int{1, 0}
	w.pl.args = &config.PodGangArgs{SearchBudget: 77}
	p := w.problem()
	if diff := cmp.Diff([]int{0, 0, 1, 2}, p.Pods); diff != "" {
		t.Errorf("classes of the pods (-want +got):\n%s", diff)
	}
	if len(p.Classes) != 3 || !p.Interacts || p.Budget != 77 || !cmp.Equal([]int{1, 0}, p.Classes[2].Nodes) {
		t.Errorf("problem %+v", p)
	}
}
