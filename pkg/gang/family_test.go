// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// boundNames are the names of bound members.
func boundNames(bound []Bound) []string {
	var list []string
	for _, b := range bound {
		list = append(list, b.Pod.Name)
	}
	return list
}

// replica labels a pod as of a replica of PodCliqueSet s.
func replica(index string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		setLabel(p, v1alpha1.LabelPartOf, "s")
		setLabel(p, v1alpha1.LabelPodCliqueSetReplicaIndex, index)
	}
}

func TestSiblingsAreTheGangsOfOneReplica(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"base", "scaled", "elsewhere", "alone"} {
		f.SetGang(podGang(name, group("a", 1, name+"-1", name+"-2", name+"-3")))
	}
	f.putAll(
		pod("base-1", inGang("base"), replica("0")),
		pod("scaled-1", inGang("scaled"), replica("0"), onNode("n")),
		pod("scaled-2", inGang("scaled"), replica("0"), gatedBy("x")),
		pod("scaled-3", inGang("scaled"), replica("0"), terminating),
		pod("elsewhere-1", inGang("elsewhere"), replica("1")),
		pod("alone-1", inGang("alone")),
	)
	siblings := f.Siblings(keyFor("base"))
	if len(siblings) != 1 || siblings[0].Key != keyFor("scaled") {
		t.Fatalf("got %+v, want gang scaled alone", siblings)
	}
	expectEqual(t, "bound", []string{"scaled-1"}, boundNames(siblings[0].Bound))
	expectEqual(t, "waiting", []string{"scaled-2"}, names(siblings[0].Waiting))
	for _, name := range []string{"elsewhere", "alone", "unknown"} {
		if got := f.Siblings(keyFor(name)); len(got) > 0 {
			t.Errorf("gang %s has siblings %+v", name, got)
		}
	}
}

func TestFamiliesOfGangsThatAreGoneAreForgotten(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 1, "p")))
	p := pod("p", inGang("g"), replica("0"))
	f.put(p)
	if len(f.families) != 1 {
		t.Fatalf("families %v, want one", f.families)
	}
	f.drop(p)
	f.DeleteGang(podGang("g"))
	if len(f.families) != 0 {
		t.Errorf("families %v are left", f.families)
	}
}

func TestPlacesOfAnAttemptCountForSiblings(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 1, "p")))
	f.SetGang(podGang("other", group("a", 1, "q")))
	p := pod("p", inGang("g"), replica("0"))
	f.putAll(p, pod("q", inGang("other"), replica("0")))
	f.expectRole(p, RoleLeads, "")
	f.begin(p)
	siblings := f.Siblings(keyFor("other"))
	if len(siblings) != 1 || len(siblings[0].Bound) != 1 || siblings[0].Bound[0].Node == "" || len(siblings[0].Waiting) != 0 {
		t.Errorf("got %+v, want p in its planned place", siblings)
	}
}

func TestJoinSnapshot(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 1, "a1", "a2", "a3"), group("b", 1, "b1")))
	joining := pod("a2", inGang("g"))
	f.putAll(pod("a1", inGang("g"), onNode("n")), joining, pod("a3", inGang("g")))
	if snapshot, ok := f.JoinSnapshot(joining); ok {
		t.Errorf("joins a gang that lacks members: %+v", snapshot)
	}
	f.put(pod("b1", inGang("g")))
	if snapshot, ok := f.JoinSnapshot(joining); ok {
		t.Errorf("joins a gang that lacks its floor: %+v", snapshot)
	}
	f.Assume(f.store.get(testNamespace, "b1"), "m")
	snapshot, ok := f.JoinSnapshot(joining)
	if !ok || snapshot.Object == nil {
		t.Fatalf("got %+v, %v", snapshot, ok)
	}
	expectEqual(t, "bound in a", []string{"a1"}, boundNames(snapshot.Groups[0].Bound))
	expectEqual(t, "the one that joins", []string{"a2"}, names(snapshot.Groups[0].Extras))
	if b := snapshot.Groups[1].Bound; len(b) != 1 || b[0].Node != "m" {
		t.Errorf("bound in b: %+v, want b1 on the node on its way to which it is", b)
	}
	if snapshot, ok := f.JoinSnapshot(changed(joining, uid("another"))); ok {
		t.Errorf("another pod of the name joins: %+v", snapshot)
	}
}
