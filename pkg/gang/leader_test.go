// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

const waitsForPlan = "waits for the plan of PodGang ns/g"

func TestOneLeaderOfAGang(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 2, "p", "q"), group("b", 0, "x")))
	p, q, x := pod("p"), pod("q"), pod("x")
	f.putAll(p, q, x)
	f.expectRole(q, RoleLeads, "")
	f.expectRole(p, RoleWaits, waitsForPlan)
	f.expectRole(q, RoleLeads, "")
	f.expectRole(x, RoleWaits, "waits until the floor of PodGang ns/g is bound")
	if role, _ := f.RoleOf(q); role != RoleLeads {
		t.Errorf("the elected leader has role %d in its cycle", role)
	}
}

func TestLeaderIsReplaced(t *testing.T) {
	for _, tc := range []struct {
		name string
		// end ends the leadership of p.
		end  func(f *fixture, p *v1.Pod) Effects
		want string
	}{
		{"when it is deleted", func(f *fixture, p *v1.Pod) Effects { return f.drop(p) }, "q"},
		{"when it is terminating", func(f *fixture, p *v1.Pod) Effects { return f.put(changed(p, terminating)) }, "q"},
		{"when somebody else binds it", func(f *fixture, p *v1.Pod) Effects { return f.put(changed(p, onNode("n"))) }, "r"},
		{"when it moves to another gang", func(f *fixture, p *v1.Pod) Effects { return f.put(changed(p, inGang("h"))) }, "q"},
		{
			"when its group has got its floor",
			func(f *fixture, _ *v1.Pod) Effects {
				return f.put(changed(f.store.get(testNamespace, "q"), onNode("n")))
			},
			"r",
		},
		{
			"when it is not listed any more",
			func(f *fixture, _ *v1.Pod) Effects {
				return f.SetGang(changedGang(podGang("g"), group("a", 1, "q", "s"), group("b", 1, "r")))
			},
			"q",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.SetGang(podGang("g", group("a", 1, "p", "q", "s"), group("b", 1, "r")))
			p := pod("p", inGang("g"))
			f.putAll(p, pod("q"), pod("r"))
			f.expectRole(p, RoleLeads, "")
			got := outcomeOf(tc.end(f, p)).Activate
			expectEqual(t, "activated", []string{tc.want}, got)
			f.expectRole(f.store.get(testNamespace, tc.want), RoleLeads, "")
		})
	}
}

func TestLeaderWaitsWithItsGang(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 2, "p", "q")))
	p, q := pod("p"), pod("q")
	f.putAll(p, q)
	f.expectRole(q, RoleLeads, "")
	f.drop(p)
	f.expectRole(q, RoleWaits, "PodGang ns/g waits for members: group a has 1 of 2 present")
	p = pod("p", uid("new"))
	expectEffects(t, "the member that was missing", f.put(p), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
	f.expectRole(p, RoleLeads, "")
	f.expectRole(q, RoleWaits, waitsForPlan)
}

// A leader that is still one is the one to be woken.
func TestChangeWakesTheLeader(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 1, "p", "q", "r")))
	q := pod("q")
	f.putAll(pod("p"), q)
	f.expectRole(q, RoleLeads, "")
	expectEffects(t, "another member", f.put(pod("r")), outcome{Activate: []string{"q"}, Changed: []string{"g"}})
}

// What the scheduler and the operator write to a PodGang is mostly its status.
func TestOnlyAChangeThatCouldHelpWakesTheLeader(t *testing.T) {
	waiting := podGang("g", group("a", 1, "p"))
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.PodGang)
		want   []string
	}{
		{"nothing", func(*v1alpha1.PodGang) {}, nil},
		{"the phase", func(pg *v1alpha1.PodGang) { pg.Status.Phase = v1alpha1.PodGangPhaseStarting }, nil},
		{"the condition, as good as none", initialized(metav1.ConditionTrue, "PodGangPodsCreated"), nil},
		{"an annotation", func(pg *v1alpha1.PodGang) { pg.Annotations = map[string]string{"example.com/note": "x"} }, nil},
		{"the topology", func(pg *v1alpha1.PodGang) {
			pg.Annotations = map[string]string{v1alpha1.AnnotationTopologyName: "h100"}
		}, []string{"p"}},
		{"the priority", func(pg *v1alpha1.PodGang) { pg.Spec.PriorityClassName = "high" }, []string{"p"}},
		{"the references", group("b", 0, "q"), []string{"p"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.SetGang(waiting)
			f.put(pod("p"))
			got := f.SetGang(changedGang(waiting, tc.change))
			expectEffects(t, "the update", got, outcome{Activate: tc.want, Changed: []string{"g"}})
		})
	}
}

func TestMembersOfASatisfiedGangJoin(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 1, "p", "q"), group("b", 0, "r")))
	p, q, r := pod("p", onNode("n")), pod("q"), pod("r")
	f.put(p)
	expectEffects(t, "a replacement", f.put(q), outcome{Activate: []string{"q"}, Changed: []string{"g"}})
	f.put(r)
	f.expectRole(q, RoleJoins, "")
	f.expectRole(r, RoleJoins, "")
	f.drop(p)
	f.expectRole(q, RoleLeads, "")
	f.expectRole(r, RoleWaits, "waits until the floor of PodGang ns/g is bound")
}

func TestSnapshot(t *testing.T) {
	g := inGang("g")
	type groupNames struct {
		Name                  string
		Floor                 int
		Bound, Floors, Extras []string
	}
	for _, tc := range []struct {
		name   string
		pods   []*v1.Pod
		floor  int32
		leader string
		want   []groupNames
	}{
		{
			name:  "the leader is in the floor of its group, the others follow by name",
			pods:  []*v1.Pod{pod("a3", g), pod("a1", g), pod("a2", g), pod("b1", g)},
			floor: 2, leader: "a3",
			want: []groupNames{{Name: "a", Floor: 2, Floors: []string{"a3", "a1"}, Extras: []string{"a2"}}, {Name: "b", Floor: 1, Floors: []string{"b1"}}},
		},
		{
			name:  "bound members count towards the floor",
			pods:  []*v1.Pod{pod("a1", g, onNode("n")), pod("a2", g), pod("a3", g), pod("b1", g, onNode("n"), forAnotherScheduler), pod("b2", g)},
			floor: 2, leader: "a3",
			want: []groupNames{
				{Name: "a", Floor: 2, Bound: []string{"a1"}, Floors: []string{"a3"}, Extras: []string{"a2"}},
				{Name: "b", Floor: 1, Bound: []string{"b1"}, Extras: []string{"b2"}},
			},
		},
		{
			name:  "held, finished and unlisted members are left out",
			pods:  []*v1.Pod{pod("a1", g), pod("a2", g, gatedBy("x")), pod("a3", g, terminating), pod("b1", g), pod("b2", g, inPhase(v1.PodFailed)), pod("z", g)},
			floor: 1, leader: "a1",
			want: []groupNames{{Name: "a", Floor: 1, Floors: []string{"a1"}}, {Name: "b", Floor: 1, Floors: []string{"b1"}}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.SetGang(podGang("g", group("a", tc.floor, "a1", "a2", "a3"), group("b", 1, "b1", "b2")))
			f.putAll(tc.pods...)
			leader := f.store.get(testNamespace, tc.leader)
			f.expectRole(leader, RoleLeads, "")
			snapshot, ok := f.Snapshot(keyFor("g"), leader.UID)
			if !ok || snapshot.Key != keyFor("g") {
				t.Fatalf("got snapshot %+v, %v", snapshot, ok)
			}
			var got []groupNames
			for _, group := range snapshot.Groups {
				got = append(got, groupNames{group.Name, group.Floor, boundNames(group.Bound), names(group.Floors), names(group.Extras)})
			}
			expectEqual(t, "snapshot", tc.want, got)
		})
	}
}

func TestNoSnapshot(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(f *fixture, leader *v1.Pod)
	}{
		{"of a gang that is not known", func(f *fixture, _ *v1.Pod) { f.DeleteGang(podGang("g")) }},
		{"of a gang that lacks members", func(f *fixture, _ *v1.Pod) { f.drop(pod("q")) }},
		{"for a leader that is gone", func(f *fixture, leader *v1.Pod) { f.drop(leader) }},
		{"for a leader that is terminating", func(f *fixture, leader *v1.Pod) { f.put(changed(leader, terminating)) }},
		{"for a leader whose group has its floor", func(f *fixture, _ *v1.Pod) {
			f.SetGang(changedGang(podGang("g"), group("a", 0, "p"), group("b", 1, "q")))
		}},
		{"during an attempt", func(f *fixture, leader *v1.Pod) { f.begin(leader) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.SetGang(podGang("g", group("a", 2, "p", "q", "r")))
			p := pod("p")
			f.putAll(p, pod("q"))
			tc.prepare(f, p)
			if snapshot, ok := f.Snapshot(keyFor("g"), p.UID); ok {
				t.Errorf("got %+v", snapshot)
			}
		})
	}
}

// The scheduling queue does not ask again about a pod that is queued already: its
// cycle is where it must learn that it leads now.
func TestQueuedPodLeadsInItsOwnCycle(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 1, "p", "q")))
	p, q := pod("p", onNode("n")), pod("q")
	f.putAll(p, q)
	f.expectRole(q, RoleJoins, "")
	expectEffects(t, "the loss of the floor", f.drop(p), outcome{Activate: []string{"q"}, Changed: []string{"g"}})
	if role, reason := f.RoleOf(q); role != RoleLeads {
		t.Errorf("in its cycle, the only member has role %d, reason %q; nobody else will wake it", role, reason)
	}
}

// While claims of a gang are cleared, none of its members is placed: no leader plans,
// and no member beyond the floor joins.
func TestNobodyIsPlacedWhileTheGangIsHeld(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 1, "p", "q")))
	p, q := pod("p"), pod("q")
	f.putAll(changed(p, onNode("n")), q)
	f.expectRole(q, RoleJoins, "")
	if !f.Hold(keyFor("g")) {
		t.Fatal("the gang cannot be held")
	}
	f.expectRole(q, RoleWaits, "claims of PodGang ns/g are being cleared")
	expectEqual(t, "activated", []string{"q"}, outcomeOf(f.Unhold(keyFor("g"))).Activate)
	f.expectRole(q, RoleJoins, "")
}
