// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMembership(t *testing.T) {
	t.Run("by label, before the gang exists and after", func(t *testing.T) {
		f := newFixture(t)
		p := pod("p", inGang("g"))
		expectEffects(t, "the pod", f.put(p), outcome{Changed: []string{"g"}})
		f.expectGang(p, "g")
		f.expectRole(p, RoleWaits, "PodGang ns/g does not exist")
		expectEffects(t, "the gang", f.SetGang(podGang("g", group("a", 1, "p"))), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
		f.expectRole(p, RoleLeads, "")
	})
	t.Run("by reference, pod before gang", func(t *testing.T) {
		f := newFixture(t)
		p := pod("p")
		expectEffects(t, "the pod", f.put(p), outcome{})
		f.expectGang(p, "")
		f.expectRole(p, RoleNone, "")
		expectEffects(t, "the gang", f.SetGang(podGang("g", group("a", 1, "p"))), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
		f.expectGang(p, "g")
		f.expectRole(p, RoleLeads, "")
	})
	t.Run("by reference, gang before pod", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		p := pod("p")
		f.expectGang(p, "g")
		expectEffects(t, "the pod", f.put(p), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
		f.expectRole(p, RoleLeads, "")
	})
	t.Run("a reference reaches no pod of another namespace", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		p := pod("p")
		p.Namespace = "other"
		f.put(p)
		f.expectGang(p, "")
	})
	t.Run("the label wins over a reference", func(t *testing.T) {
		f := newFixture(t)
		p := pod("p", inGang("g"))
		f.put(p)
		f.SetGang(podGang("other", group("a", 1, "p")))
		f.SetGang(podGang("g", group("a", 1)))
		f.expectGang(p, "g")
		f.expectRole(p, RoleWaits, "PodGang ns/g waits for members: group a has 0 of 1 present (0 listed in podReferences)")
	})
	t.Run("of several gangs that list a pod, the first by name", func(t *testing.T) {
		f := newFixture(t)
		p := pod("p")
		f.put(p)
		b := podGang("b", group("a", 1, "p"))
		f.SetGang(b)
		f.expectGang(p, "b")
		a := podGang("a", group("a", 1, "p"))
		f.SetGang(a)
		f.expectGang(p, "a")
		expectEffects(t, "deleting a", f.DeleteGang(a), outcome{Activate: []string{"p"}, Changed: []string{"a", "b"}})
		f.expectGang(p, "b")
		f.expectRole(p, RoleLeads, "")
	})
	t.Run("names are not read", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "g-a-0")))
		p := pod("g-a-1")
		f.put(p)
		f.expectGang(p, "")
	})
	t.Run("relabelled, both gangs are told", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p", "q")))
		f.SetGang(podGang("h", group("a", 1, "p")))
		p, q := pod("p", inGang("g")), pod("q", inGang("g"))
		f.putAll(p, q)
		f.expectRole(p, RoleLeads, "")
		p = changed(p, inGang("h"))
		expectEffects(t, "the new label", f.put(p), outcome{Activate: []string{"q", "p"}, Changed: []string{"g", "h"}})
		f.expectGang(p, "h")
		f.expectRole(p, RoleLeads, "")
		f.expectRole(q, RoleLeads, "")
	})
	t.Run("unlabelled, a pod that nobody lists is free", func(t *testing.T) {
		f := newFixture(t)
		p := pod("p", inGang("g"))
		f.put(p)
		p = changed(p, inGang(""))
		expectEffects(t, "the label's removal", f.put(p), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
		f.expectGang(p, "")
		f.expectRole(p, RoleNone, "")
	})
	t.Run("a labelled pod that is not listed waits and counts for nothing", func(t *testing.T) {
		f := newFixture(t)
		pg := podGang("g", group("a", 1, "p"))
		f.SetGang(pg)
		p, q := pod("p", inGang("g")), pod("q", inGang("g"))
		f.putAll(p, q)
		f.expectRole(q, RoleWaits, "pod q is not listed in the podReferences of PodGang ns/g")
		snapshot, ok := f.Snapshot(keyFor("g"), q.UID)
		if ok {
			t.Errorf("the unlisted pod leads: %+v", snapshot)
		}
		f.put(changed(p, onNode("n")))
		f.expectRole(q, RoleWaits, "pod q is not listed in the podReferences of PodGang ns/g")
		expectEffects(t, "listing it", f.SetGang(changedGang(pg, regrouped(group("a", 1, "p", "q")))), outcome{Activate: []string{"q"}, Changed: []string{"g"}})
		f.expectRole(q, RoleJoins, "")
	})
	t.Run("a reference is removed", func(t *testing.T) {
		f := newFixture(t)
		pg := podGang("g", group("a", 1, "p", "q"))
		f.SetGang(pg)
		p, q := pod("p"), pod("q", inGang("g"))
		f.putAll(p, q)
		expectEffects(t, "the shorter list", f.SetGang(changedGang(pg, regrouped(group("a", 1)))), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
		f.expectGang(p, "")
		f.expectRole(p, RoleNone, "")
		f.expectGang(q, "g")
		f.expectRole(q, RoleWaits, "PodGang ns/g waits for members: group a has 0 of 1 present (0 listed in podReferences)")
	})
	t.Run("the gang is deleted: labelled pods wait, others are free", func(t *testing.T) {
		f := newFixture(t)
		pg := podGang("g", group("a", 2, "p", "q"))
		f.SetGang(pg)
		p, q := pod("p"), pod("q", inGang("g"))
		f.putAll(p, q)
		expectEffects(t, "deleting the gang", f.DeleteGang(pg), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
		f.expectGang(p, "")
		f.expectRole(p, RoleNone, "")
		f.expectRole(q, RoleWaits, "PodGang ns/g does not exist")
	})
}

func TestObjectsOfTheSameNameAreToldApart(t *testing.T) {
	t.Run("a pod that was made anew replaces the old one", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		old := pod("p", inGang("g"), onNode("n"))
		f.put(old)
		anew := pod("p", inGang("g"), uid("new"), version("2"))
		expectEffects(t, "the new pod", f.put(anew), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
		expectEffects(t, "the late deletion of the old one", f.DeletePod(old), outcome{})
		f.expectRole(anew, RoleLeads, "")
		f.expectRole(old, RoleNone, "")
	})
	t.Run("the new pod does not inherit the node of the old one", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		old := pod("p", inGang("g"))
		f.put(old)
		_, tickets := f.begin(old)
		f.enter(tickets["p"])
		f.Arrive(tickets["p"])
		f.Prepare(tickets["p"])
		f.Bound(tickets["p"])
		anew := pod("p", inGang("g"), uid("new"), version("2"))
		f.put(anew)
		f.expectRole(anew, RoleLeads, "")
	})
	t.Run("a late event of the old pod does not displace the new one", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		old := pod("p", inGang("g"))
		f.put(old)
		anew := pod("p", inGang("g"), uid("new"), version("9"))
		// The store, and with it the scheduling queue, is ahead of the events.
		f.store.set(anew)
		f.expectRole(anew, RoleLeads, "")
		f.SetPod(changed(old, terminating))
		if role, _ := f.RoleOf(anew); role == RoleNone {
			t.Error("the new pod counts as a pod in no gang")
		}
	})
	t.Run("an older version is ignored", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		f.put(pod("p", inGang("g"), version("10"), onNode("n")))
		expectEffects(t, "the older version", f.SetPod(pod("p", inGang("g"), version("9"))), outcome{})
		view, _ := f.View(keyFor("g"))
		if !view.Satisfied {
			t.Error("the older version has taken the place of the newer")
		}
	})
	t.Run("versions that are no numbers are taken as newer", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		f.put(pod("p", inGang("g"), version("x")))
		f.put(pod("p", inGang("g"), version("a"), onNode("n")))
		if view, _ := f.View(keyFor("g")); !view.Satisfied {
			t.Error("the update was lost")
		}
	})
	t.Run("a gang that was made anew replaces the old one", func(t *testing.T) {
		f := newFixture(t)
		old := podGang("g", group("a", 2, "p"))
		f.SetGang(old)
		p := pod("p")
		f.put(p)
		anew := podGang("g", gangUID("new"), group("a", 1, "p"))
		expectEffects(t, "the new gang", f.SetGang(anew), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
		expectEffects(t, "the late deletion of the old one", f.DeleteGang(old), outcome{})
		f.expectRole(p, RoleLeads, "")
	})
	t.Run("an older version of a gang is ignored", func(t *testing.T) {
		f := newFixture(t)
		old := podGang("g", group("a", 2, "p"))
		f.SetGang(changedGang(old, regrouped(group("a", 1, "p"))))
		expectEffects(t, "the older version", f.SetGang(old), outcome{})
		p := pod("p")
		f.put(p)
		f.expectRole(p, RoleLeads, "")
	})
	t.Run("a deleted pod is no business of a gang", func(t *testing.T) {
		f := newFixture(t)
		p := pod("p", inGang("g"))
		f.expectRole(p, RoleNone, "")
		f.store.set(pod("p", inGang("g"), uid("new")))
		f.expectRole(p, RoleNone, "")
	})
}

// The scheduling queue hears of a pod before the index does. What the index
// learns from the store then must not be lost.
func TestAdmitAheadOfEvents(t *testing.T) {
	t.Run("a pod that is news to the index leads at once", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		p := pod("p")
		f.store.set(p)
		f.expectRole(p, RoleLeads, "")
		expectEffects(t, "the pod's own event", f.SetPod(p), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
	})
	t.Run("a pod that leaves its gang is activated with its own event", func(t *testing.T) {
		f := newFixture(t)
		p := pod("p", inGang("g"))
		f.put(p)
		p = changed(p, inGang(""))
		f.store.set(p)
		f.expectRole(p, RoleNone, "")
		if activate := outcomeOf(f.SetPod(p)).Activate; !slices.Equal(activate, []string{"p"}) {
			t.Errorf("activated are %v, want pod p", activate)
		}
		if keys := f.Keys(); len(keys) > 0 {
			t.Errorf("gangs %v are left without object and members", keys)
		}
	})
	for _, tc := range []struct {
		name string
		move func(p *v1.Pod) *v1.Pod
		// events of the old and the new pod that come later.
		events func(f *fixture, before, after *v1.Pod) []Effects
	}{
		{
			name:   "relabelled into another gang",
			move:   func(p *v1.Pod) *v1.Pod { return changed(p, inGang("h")) },
			events: func(f *fixture, _, after *v1.Pod) []Effects { return []Effects{f.SetPod(after)} },
		},
		{
			name: "made anew in another gang",
			move: func(p *v1.Pod) *v1.Pod { return changed(p, inGang("h"), uid("new")) },
			events: func(f *fixture, before, after *v1.Pod) []Effects {
				return []Effects{f.DeletePod(before), f.SetPod(after)}
			},
		},
	} {
		t.Run("a leader is "+tc.name+": its old gang gets another", func(t *testing.T) {
			f := newFixture(t)
			f.SetGang(podGang("g", group("a", 1, "p", "q")))
			f.SetGang(podGang("h", group("a", 1, "p")))
			p, q := pod("p", inGang("g")), pod("q", inGang("g"))
			f.putAll(p, q)
			f.expectRole(p, RoleLeads, "")
			after := tc.move(p)
			f.store.set(after)
			f.Admit(after)
			activated := make(map[types.UID]bool)
			for _, effects := range tc.events(f, p, after) {
				for _, pod := range effects.Activate {
					activated[pod.UID] = true
				}
			}
			if !activated[q.UID] {
				t.Error("pod q, which could lead now, is not activated")
			}
			if !activated[after.UID] {
				t.Error("pod p is not activated")
			}
		})
	}
}

func TestKeysListsEveryGang(t *testing.T) {
	f := newFixture(t)
	pg := podGang("g")
	f.SetGang(pg)
	p := pod("p", inGang("h"))
	f.put(p)
	got := make(map[Key]bool)
	for _, key := range f.Keys() {
		got[key] = true
	}
	if diff := cmp.Diff(map[Key]bool{keyFor("g"): true, keyFor("h"): true}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	f.DeleteGang(pg)
	f.drop(p)
	if keys := f.Keys(); len(keys) > 0 {
		t.Errorf("keys %v are left after everything was deleted", keys)
	}
}

func TestUnreadableGangKeepsItsMembers(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 2, "p", "q")))
	f.put(pod("p"))
	f.put(pod("q"))
	broken := podGang("g")
	effects := f.SetUnreadable(broken, "it cannot be read: spec.podgroups is a number")
	if len(effects.Activate) > 0 {
		t.Errorf("pods %v are set free, want them to stay members", effects.Activate)
	}
	if role, reason := f.RoleOf(f.get("p")); role != RoleWaits || !strings.Contains(reason, "cannot be read") {
		t.Errorf("p has role %v because %q, want it to wait for the gang to be readable", role, reason)
	}
	effects = f.SetGang(podGang("g", group("a", 2, "p", "q")))
	if len(effects.Activate) != 1 {
		t.Errorf("activated are %v, want the leader", effects.Activate)
	}
}

// A reason that somebody has written on a member is looked at, and wakes nobody.
func TestAnotherReasonOnAMemberIsReportedOn(t *testing.T) {
	f := newFixture(t)
	p := pod("p", inGang("g"))
	f.putAll(p)
	p = changed(p, saying("PodGang g does not exist"))
	expectEffects(t, "a reason", f.put(p), outcome{Changed: []string{"g"}})
	p = changed(p, saying("the attempt was undone"))
	expectEffects(t, "another reason", f.put(p), outcome{Changed: []string{"g"}})
	expectEffects(t, "the same reason", f.put(changed(p)), outcome{})
}
