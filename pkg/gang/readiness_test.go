// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

func TestReadiness(t *testing.T) {
	g := inGang("g")
	for _, tc := range []struct {
		name string
		gang *v1alpha1.PodGang
		pods []*v1.Pod
		// blocked is why the gang is not ready, "" if it is.
		blocked string
	}{
		{
			name: "pending members reach the floor",
			gang: podGang("g", group("a", 2, "p", "q")),
			pods: []*v1.Pod{pod("p", g), pod("q", g)},
		},
		{
			name: "bound members count, whichever scheduler bound them",
			gang: podGang("g", group("a", 2, "p", "q")),
			pods: []*v1.Pod{pod("p", g, onNode("n"), forAnotherScheduler), pod("q", g)},
		},
		{
			name: "more members than the floor are no obstacle",
			gang: podGang("g", group("a", 1, "p", "q")),
			pods: []*v1.Pod{pod("p", g), pod("q", g, gatedBy("wait"))},
		},
		{
			name: "a floor of 0 needs nobody",
			gang: podGang("g", group("a", 0, "p"), group("b", 1, "q")),
			pods: []*v1.Pod{pod("q", g)},
		},
		{
			name:    "a group without members",
			gang:    podGang("g", group("a", 2, "p", "q")),
			blocked: "PodGang ns/g waits for members: group a has 0 of 2 present",
		},
		{
			name:    "fewer references than the floor",
			gang:    podGang("g", group("a", 3, "p", "q")),
			pods:    []*v1.Pod{pod("p", g), pod("q", g)},
			blocked: "PodGang ns/g waits for members: group a has 2 of 3 present (2 listed in podReferences)",
		},
		{
			name:    "every group that lacks members is named, in the order of the PodGang",
			gang:    podGang("g", group("z", 1, "p"), group("b", 1, "q"), group("a", 2, "r", "s")),
			pods:    []*v1.Pod{pod("q", g), pod("r", g)},
			blocked: "PodGang ns/g waits for members: group z has 0 of 1 present; group a has 1 of 2 present",
		},
		{
			name:    "a gated member is named with its gate",
			gang:    podGang("g", group("a", 2, "p", "q")),
			pods:    []*v1.Pod{pod("p", g), pod("q", g, gatedBy("example.com/quota", "other"))},
			blocked: "PodGang ns/g waits for members: group a has 1 of 2 present (pod q has scheduling gate example.com/quota)",
		},
		{
			name:    "of several held members, the first by name gives the reason",
			gang:    podGang("g", group("a", 3, "q", "p", "r")),
			pods:    []*v1.Pod{pod("r", g, gatedBy("r-gate")), pod("q", g, gatedBy("q-gate")), pod("p", g)},
			blocked: "PodGang ns/g waits for members: group a has 1 of 3 present (2 held, the first because pod q has scheduling gate q-gate)",
		},
		{
			name:    "a member for another scheduler",
			gang:    podGang("g", group("a", 1, "p")),
			pods:    []*v1.Pod{pod("p", g, forAnotherScheduler)},
			blocked: "PodGang ns/g waits for members: group a has 0 of 1 present (pod p is for scheduler other)",
		},
		{
			name:    "a member whose claim is not made yet",
			gang:    podGang("g", group("a", 1, "p")),
			pods:    []*v1.Pod{pod("p", g, claimingFrom("four-gpus"))},
			blocked: "PodGang ns/g waits for members: group a has 0 of 1 present (pod p has no claim gpu yet (ResourceClaimTemplate four-gpus))",
		},
		{
			name: "a member whose claim is made",
			gang: podGang("g", group("a", 1, "p")),
			pods: []*v1.Pod{pod("p", g, claimingFrom("four-gpus"), claimMade)},
		},
		{
			name: "finished and terminating members never count",
			gang: podGang("g", group("a", 1, "p", "q", "r", "s")),
			pods: []*v1.Pod{
				pod("p", g, onNode("n"), inPhase(v1.PodFailed)),
				pod("q", g, onNode("n"), inPhase(v1.PodSucceeded)),
				pod("r", g, onNode("n"), inPhase(v1.PodRunning), terminating),
				pod("s", g, terminating),
			},
			blocked: "PodGang ns/g waits for members: group a has 0 of 1 present",
		},
		{
			name:    "not initialized",
			gang:    podGang("g", group("a", 1, "p"), initialized(metav1.ConditionFalse, v1alpha1.ReasonPodsCreationPending)),
			pods:    []*v1.Pod{pod("p", g)},
			blocked: "PodGang ns/g is not initialized yet: condition Initialized is False (PodGangPodsCreationPending)",
		},
		{
			name:    "initialized unknown",
			gang:    podGang("g", group("a", 1, "p"), initialized(metav1.ConditionUnknown, "Why")),
			pods:    []*v1.Pod{pod("p", g)},
			blocked: "PodGang ns/g is not initialized yet: condition Initialized is Unknown (Why)",
		},
		{
			name: "initialized",
			gang: podGang("g", group("a", 1, "p"), initialized(metav1.ConditionTrue, v1alpha1.ReasonPodsCreated)),
			pods: []*v1.Pod{pod("p", g)},
		},
		{
			name:    "faults come first",
			gang:    podGang("g", group("a", -1, "p"), group("b", 1, "p"), initialized(metav1.ConditionFalse, "Why")),
			blocked: "PodGang ns/g is wrong: group a has minReplicas -1, which must not be negative; pod p is listed in groups a and b",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.SetGang(tc.gang)
			f.putAll(tc.pods...)
			view, ok := f.View(keyFor("g"))
			if !ok {
				t.Fatal("no view of the gang")
			}
			if view.Blocked != tc.blocked {
				t.Errorf("got reason %q\n        want %q", view.Blocked, tc.blocked)
			}
			for _, p := range tc.pods {
				if tc.blocked == "" {
					break
				}
				f.expectRole(p, RoleWaits, tc.blocked)
			}
		})
	}
}

func TestFaultsThatTheCallerFound(t *testing.T) {
	f := newFixture(t)
	p := pod("p", inGang("g"))
	f.put(p)
	pg := podGang("g", group("a", 1, "p"))
	f.SetUnreadable(pg, "it cannot be read: no")
	f.expectRole(p, RoleWaits, "PodGang ns/g is wrong: it cannot be read: no")
	expectEffects(t, "the repaired gang", f.SetGang(changedGang(pg)), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
	f.expectRole(p, RoleLeads, "")
}

// A reason says what keeps a gang now, not what kept it before.
func TestReasonFollowsTheMember(t *testing.T) {
	f := newFixture(t)
	p := pod("p", inGang("g"), gatedBy("first", "second"), claimingFrom("four-gpus"))
	f.SetGang(podGang("g", group("a", 1, "p")))
	const short = "PodGang ns/g waits for members: group a has 0 of 1 present "
	for _, step := range []struct {
		change func(*v1.Pod)
		want   string
	}{
		{func(*v1.Pod) {}, short + "(pod p has scheduling gate first)"},
		{gatedBy("second"), short + "(pod p has scheduling gate second)"},
		{gatedBy(), short + "(pod p has no claim gpu yet (ResourceClaimTemplate four-gpus))"},
		{claimMade, ""},
	} {
		p = changed(p, step.change)
		f.put(p)
		if view, _ := f.View(keyFor("g")); view.Blocked != step.want {
			t.Errorf("got reason %q\n        want %q", view.Blocked, step.want)
		}
	}
	f.expectRole(p, RoleLeads, "")
}

func TestGangBecomesReady(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 2, "p", "q"), group("b", 1, "r")))
	p, q, r := pod("p", inGang("g")), pod("q", inGang("g"), gatedBy("wait")), pod("r", inGang("g"))
	expectEffects(t, "the first member", f.put(p), outcome{Changed: []string{"g"}})
	expectEffects(t, "the second, gated", f.put(q), outcome{Changed: []string{"g"}})
	expectEffects(t, "the third", f.put(r), outcome{Changed: []string{"g"}})
	expectEffects(t, "the end of the gate", f.put(changed(q, gatedBy())), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
	expectEffects(t, "an update that changes nothing", f.put(changed(p)), outcome{})
}

func TestResyncWakesEveryGangThatCouldProceed(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 2, "p", "q")))
	f.SetGang(podGang("h", group("a", 2, "r")))
	f.SetGang(podGang("i", group("a", 1, "s", "t")))
	f.putAll(pod("q"), pod("p"), pod("r"), pod("s", onNode("n")), pod("t"))
	got := outcomeOf(f.Resync())
	activated := map[string]bool{}
	for _, name := range got.Activate {
		activated[name] = true
	}
	if len(got.Activate) != 2 || !activated["p"] || !activated["t"] {
		t.Errorf("activated are %v, want p, the leader of g, and t, which joins i", got.Activate)
	}
	if len(got.Changed) != 3 {
		t.Errorf("reported are %v, want all three gangs", got.Changed)
	}
}
