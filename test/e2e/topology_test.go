// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Levels of the nodes that these scenarios add.
const (
	rackKey  = "topology.kubernetes.io/rack"
	blockKey = "topology.kubernetes.io/block"
)

// slot is what a pod of these scenarios asks for. A node has room for one.
var slot = cpu("1")

// rack adds n nodes of one slot each to a rack, and returns their names.
func (s *scenario) rack(name string, n int, opts ...nodeOption) []string {
	s.t.Helper()
	var list []string
	for i := range n {
		list = append(list, s.node(fmt.Sprintf("%s-%d", name, i), append([]nodeOption{limitedCPU("1"), labelled(rackKey, name)}, opts...)...))
	}
	return list
}

// inRack waits until the pods are bound, and checks that all are in this rack.
func (s *scenario) inRack(want string, pods ...string) {
	s.t.Helper()
	s.bound(pods...)
	for name, got := range s.valuesOf(rackKey, pods...) {
		if got != want {
			s.t.Errorf("pod %s is in rack %q, want %s", name, got, want)
		}
	}
}

// apart keeps the pods of a gang on nodes of their own.
func apart(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:   corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPodGang: p.Labels[v1alpha1.LabelPodGang]}},
		}},
	}}
}

// A constraint on one group of two, or on a set with that group alone, is no constraint
// on the other, and holds: volcano-sh/volcano#5189.
func TestConstraintBelowTheTop(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.PodGangSpec)
	}{
		{"set of one group", func(spec *v1alpha1.PodGangSpec) {
			spec.TopologyConstraintGroupConfigs = []v1alpha1.TopologyConstraintGroupConfig{
				{Name: "set", PodGroupNames: []string{"a"}, TopologyConstraint: packed(rackKey, "")},
			}
		}},
		{"group", func(spec *v1alpha1.PodGangSpec) { spec.PodGroups[0].TopologyConstraint = packed(rackKey, "") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			s.rack("r1", 2)
			s.rack("r2", 4)
			s.rack("r3", 2)
			a, b := names("a", 4), names("b", 4)
			s.gangWith("g", func(pg *v1alpha1.PodGang) { tc.change(&pg.Spec) }, group("a", 4, a...), group("b", 4, b...))
			s.manyPods(append(b, a...), of("g"), inRoom(s.ns), slot)
			s.inRack("r2", a...)
			s.lies(rackKey, "2+2", b...)
		})
	}
}

// All three levels hold at once: the gang in one block, each set in a rack, a group on a
// node. Blocks and racks do not nest, and each is its label's value alone.
func TestConstraintsOfAllLevelsHoldTogether(t *testing.T) {
	s := shared(t)
	for _, n := range []struct{ name, block, rack, cpu string }{
		{"a", "b1", "r1", "2"}, {"b", "b1", "r1", "2"}, {"c", "b1", "r2", "2"}, {"d", "b1", "r2", "1"},
		{"e", "b2", "r2", "2"}, {"f", "b2", "r2", "2"}, {"g", "b2", "r3", "3"},
	} {
		s.node(n.name, limitedCPU(n.cpu), labelled(blockKey, n.block), labelled(rackKey, n.rack))
	}
	// Each set is a pair on one node and a single pod: three slots of one rack. In either
	// block two racks have room for a set each; rack r2 has most, and is not in one block.
	x, y := names("x", 2), names("y", 2)
	s.gangWith("g", func(pg *v1alpha1.PodGang) {
		pg.Spec.TopologyConstraint = packed(blockKey, "")
		pg.Spec.TopologyConstraintGroupConfigs = []v1alpha1.TopologyConstraintGroupConfig{
			{Name: "set-x", PodGroupNames: []string{"x", "x1"}, TopologyConstraint: packed(rackKey, "")},
			{Name: "set-y", PodGroupNames: []string{"y", "y1"}, TopologyConstraint: packed(rackKey, "")},
		}
		pg.Spec.PodGroups[0].TopologyConstraint = packed(corev1.LabelHostname, "")
		pg.Spec.PodGroups[2].TopologyConstraint = packed(corev1.LabelHostname, "")
	}, group("x", 2, x...), group("x1", 1, "x1"), group("y", 2, y...), group("y1", 1, "y1"))
	s.manyPods(append(append(x, y...), "x1", "y1"), of("g"), inRoom(s.ns), slot)
	s.lies(blockKey, "6", "x-0", "x-1", "x1", "y-0", "y-1", "y1")
	s.lies(rackKey, "3", "x-0", "x-1", "x1")
	s.lies(rackKey, "3", "y-0", "y-1", "y1")
	s.lies(corev1.LabelHostname, "2", x...)
	s.lies(corev1.LabelHostname, "2", y...)
}

// A rack with room for the pair is chosen before racks with room for one pod each:
// volcano-sh/volcano#4343.
func TestPreferredRackWithRoomIsChosen(t *testing.T) {
	s := shared(t)
	for _, rack := range []string{"r1", "r2"} {
		full := s.rack(rack, 2)[1]
		s.plainPods([]string{"full-" + rack}, slot, onHost(full))
	}
	s.rack("r3", 2)
	pods := s.packedGang("g", 2, "", rackKey, inRoom(s.ns), slot, apart)
	s.inRack("r3", pods...)
	s.lies(corev1.LabelHostname, "1+1", pods...)
}

// What does not fit in one preferred rack is in as few as possible: volcano-sh/volcano#5205.
func TestPreferredRacksAreFew(t *testing.T) {
	s := shared(t)
	for n := range 6 {
		s.node(fmt.Sprintf("n%d", n), limitedCPU("1"), labelled(rackKey, fmt.Sprintf("r%d", n%3)))
	}
	s.lies(rackKey, "2+2", s.packedGang("g", 4, "", rackKey, inRoom(s.ns), slot, apart)...)
}

// The rack of the members that are bound is the gang's, whatever is free elsewhere, and
// for a scheduler that was started meanwhile too: volcano-sh/volcano#3877.
func TestReplacementWaitsForItsDomain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			s := newScenario(t, gatedLab)
			s.rack("r1", 3)
			pods := s.packedGang("g", 3, rackKey, "", inRoom(s.ns), slot)
			s.inRack("r1", pods...)
			s.rack("r2", 3)
			node := s.getPod("g-0").Spec.NodeName
			s.deletePods("g-0")
			s.plainPods([]string{"other"}, slot, onHost(node))
			if restart {
				s.kill()
				s.restart()
			}
			s.pod("g-0", of("g"), inRoom(s.ns), slot)
			s.unschedulable([]string{"g-0"}, rackKey, "r1")
			s.holdsNothing("g-0")
			s.deletePods("other")
			s.inRack("r1", pods...)
		})
	}
}

// Members beyond the floor obey the constraint too.
func TestExtrasStayInTheDomain(t *testing.T) {
	s := shared(t)
	s.rack("r1", 3)
	s.rack("r2", 1)
	pods := names("g", 4)
	s.gangWith("g", func(pg *v1alpha1.PodGang) { pg.Spec.TopologyConstraint = packed(rackKey, "") }, group("w", 2, pods...))
	s.manyPods(pods, of("g"), inRoom(s.ns), slot)
	s.boundOf(3, pods...)
	s.marker()
	s.boundOf(3, pods...)
	var bound []string
	for _, name := range pods {
		if s.getPod(name).Spec.NodeName != "" {
			bound = append(bound, name)
		} else {
			s.waits([]string{name}, rackKey)
		}
	}
	s.inRack("r1", bound...)
}

// A replacement of one gang and a new gang want the same node: while the first is being
// bound the second is refused, and then takes any other: kubernetes-sigs/kueue#14570.
func TestNodeOfAReplacementIsTaken(t *testing.T) {
	s := newScenario(t, gatedLab)
	s.rack("r1", 3)
	pods := s.packedGang("a", 3, rackKey, "", inRoom(s.ns), slot)
	s.bound(pods...)
	s.deletePods("a-0")
	binding := s.hold(bindingOf(s.ns, "a-0"))
	s.pod("a-0", of("a"), inRoom(s.ns), slot)
	s.waitMet(binding, 1)
	s.packedGang("b", 1, rackKey, "", inRoom(s.ns), slot)
	s.unschedulable([]string{"b-0"}, "cpu")
	binding.release()
	s.bound("a-0")
	s.neverBound("b-0")
	other := s.rack("r2", 1)[0]
	s.bound("b-0")
	s.onNode(other, "b-0")
}

// A preferred level beside a required one, above it, below it or the same, is no error:
// kai-scheduler/KAI-Scheduler#834.
func TestRequiredAndPreferredTogether(t *testing.T) {
	for _, tc := range []struct {
		name                string
		required, preferred string
		// how three pods lie by block and rack; "" if they wait.
		block, rack string
	}{
		{"the same", rackKey, rackKey, "", ""},
		{"rack preferred in a block", blockKey, rackKey, "3", "2+1"},
		{"block preferred, rack required", rackKey, blockKey, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			// Four slots in block b1, two in b2; no rack has three.
			s.rack("r1", 2, labelled(blockKey, "b1"))
			s.rack("r2", 2, labelled(blockKey, "b1"))
			s.rack("r3", 2, labelled(blockKey, "b2"))
			three := s.packedGang("three", 3, tc.required, tc.preferred, inRoom(s.ns), slot)
			if tc.block == "" {
				s.unschedulable(three, rackKey, "needs 3")
				s.holdsNothing(three...)
			} else {
				s.lies(blockKey, tc.block, three...)
				s.lies(rackKey, tc.rack, three...)
			}
			two := s.packedGang("two", 2, tc.required, tc.preferred, inRoom(s.ns), slot)
			s.lies(rackKey, "2", two...)
			s.lies(blockKey, "2", two...)
		})
	}
}

// A node without the label is in no domain: it is not used where one is required, also
// when it is the only one.
func TestNodeWithoutTheLabelIsInNoDomain(t *testing.T) {
	s := shared(t)
	bare := s.node("bare", limitedCPU("1"))
	pods := s.packedGang("g", 1, rackKey, "", inRoom(s.ns), slot)
	s.unschedulable(pods, rackKey)
	s.holdsNothing(pods...)
	wish := s.packedGang("wish", 1, "", rackKey, inRoom(s.ns), slot)
	s.bound(wish...)
	s.onNode(bare, wish...)
	s.gone("wish", wish...)
	s.setNodeLabel(bare, rackKey, "r1")
	s.bound(pods...)
}
