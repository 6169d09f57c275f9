// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// trio is a gang of a floor of two in group a, one in group b, and an extra x of
// group b, with p elected.
func trio(t *testing.T) (f *fixture, attempt *Attempt, tickets map[string]*Ticket) {
	t.Helper()
	f = newFixture(t)
	f.SetGang(podGang("g", group("a", 2, "p", "q"), group("b", 1, "r", "x")))
	f.putAll(pod("p"), pod("q"), pod("r"), pod("x"))
	p := f.get("p")
	f.expectRole(p, RoleLeads, "")
	attempt, tickets = f.begin(p)
	return f, attempt, tickets
}

func (f *fixture) get(name string) *v1.Pod { return f.store.get(testNamespace, name) }

// arrived brings the members named to Permit.
func (f *fixture) arrived(tickets map[string]*Ticket, names ...string) Arrival {
	f.t.Helper()
	var last Arrival
	for _, name := range names {
		f.enter(tickets[name])
		last = f.Arrive(tickets[name])
	}
	return last
}

func (f *fixture) expectArrival(name string, got, want Arrival) {
	f.t.Helper()
	slices.Sort(got.Release)
	expectEqual(f.t, "arrival of "+name, want, got)
}

func TestAttemptFromPlanToBound(t *testing.T) {
	f, _, tickets := trio(t)
	for _, name := range []string{"p", "q", "r", "x"} {
		f.expectRole(f.get(name), RolePlanned, "")
	}
	f.enter(tickets["q"], tickets["x"], tickets["p"], tickets["r"])
	f.expectArrival("q", f.Arrive(tickets["q"]), Arrival{Wait: true})
	f.expectArrival("x, an extra", f.Arrive(tickets["x"]), Arrival{Wait: true})
	f.expectArrival("p", f.Arrive(tickets["p"]), Arrival{Wait: true})
	f.expectArrival("p once more", f.Arrive(tickets["p"]), Arrival{Wait: true})
	f.expectArrival("r, the last of the floor", f.Arrive(tickets["r"]), Arrival{Proceed: true, Release: []types.UID{"uid-p", "uid-q", "uid-x"}})

	decided := f.Prepare(tickets["x"])
	expectOpen(t, decided)
	f.Prepare(tickets["p"])
	f.Prepare(tickets["q"])
	expectOpen(t, decided)
	if bind, _ := f.Verdict(tickets["p"]); bind {
		t.Error("a member may bind before the whole floor is prepared")
	}
	f.expectVerdict(tickets["r"], f.Prepare(tickets["r"]), true, "")
	f.expectVerdict(tickets["x"], decided, true, "")

	expectEffects(t, "binding p", f.Bound(tickets["p"]), outcome{Changed: []string{"g"}})
	expectEffects(t, "binding q", f.Bound(tickets["q"]), outcome{Changed: []string{"g"}})
	expectEffects(t, "binding r", f.Bound(tickets["r"]), outcome{Changed: []string{"g"}})
	if f.Ticket(f.get("r")) != nil {
		t.Error("a bound member still has a place")
	}
	expectEffects(t, "binding x, the last", f.Bound(tickets["x"]), outcome{Changed: []string{"g"}})
	view, _ := f.View(keyFor("g"))
	if !view.Satisfied || len(view.Waiting) != 0 {
		t.Errorf("after the attempt: %+v", view)
	}
	// The informer is late: the gang counts what the scheduler has bound itself.
	next := pod("y", inGang("g"))
	f.put(next)
	f.SetGang(changedGang(podGang("g"), group("a", 2, "p", "q"), group("b", 1, "r", "x", "y")))
	f.expectRole(next, RoleJoins, "")
	expectEffects(t, "the informer's news of p", f.put(changed(f.get("p"), onNode("node-p"))), outcome{})
}

func TestLastArrivalReleasesOnlyThoseThatWait(t *testing.T) {
	f, _, tickets := trio(t)
	f.arrived(tickets, "x", "p")
	f.Leave(tickets["x"], CauseRefused, "gave up")
	f.arrived(tickets, "q")
	f.expectArrival("r", f.arrived(tickets, "r"), Arrival{Proceed: true, Release: []types.UID{"uid-p", "uid-q"}})
}

func TestLateExtraProceedsAtOnce(t *testing.T) {
	f, _, tickets := trio(t)
	f.arrived(tickets, "p", "q", "r")
	f.expectArrival("x while the floor prepares", f.arrived(tickets, "x"), Arrival{Proceed: true})
	for _, name := range []string{"p", "q", "r"} {
		f.Prepare(tickets[name])
	}
	f.expectVerdict(tickets["x"], f.Prepare(tickets["x"]), true, "")
}

func TestPreparedExtrasDoNotStandInForTheFloor(t *testing.T) {
	f, _, tickets := trio(t)
	f.arrived(tickets, "p", "q", "r", "x")
	f.Prepare(tickets["p"])
	f.Prepare(tickets["q"])
	expectOpen(t, f.Prepare(tickets["x"]))
}

func TestLeaveBeforeBindingUndoesTheAttempt(t *testing.T) {
	t.Run("a floor member that never entered", func(t *testing.T) {
		f, attempt, tickets := trio(t)
		expectEffects(t, "q's refusal", f.Leave(tickets["q"], CauseRefused, "q does not fit"), outcome{
			Undo: []string{"g [p q r x]: q does not fit"}, Activate: []string{"p"}, Freed: true, Changed: []string{"g"},
		})
		if f.Draining(attempt) {
			t.Error("the attempt drains, and nobody was on the way")
		}
		f.expectRole(f.get("p"), RoleLeads, "")
		f.begin(f.get("p"))
	})
	t.Run("while members wait at Permit", func(t *testing.T) {
		f, attempt, tickets := trio(t)
		f.arrived(tickets, "p", "q", "x")
		f.enter(tickets["r"])
		expectEffects(t, "r's failure", f.Leave(tickets["r"], CauseRefused, "r failed"), outcome{
			Undo: []string{"g [p(entered) q(entered) r(entered) x(entered)]: r failed"}, Changed: []string{"g"},
		})
		if !f.Draining(attempt) {
			t.Error("the attempt does not drain, and three are still to leave")
		}
		f.expectArrival("a member that comes too late", f.Arrive(tickets["p"]), Arrival{Reason: "r failed"})
		if err := f.Enter(tickets["x"]); err == nil || !strings.Contains(err.Error(), "the plan of PodGang ns/g was undone: r failed") {
			t.Errorf("entering an undone attempt: %v", err)
		}
		if _, ok := f.Snapshot(keyFor("g"), f.get("p").UID); ok {
			t.Error("a new attempt could begin while members of the last are still on their way out")
		}
		if _, err := f.Begin(keyFor("g"), []Placement{{Pod: f.get("p"), Node: "n", Floor: true}}); err == nil || err.Error() != "PodGang ns/g has an attempt under way" {
			t.Errorf("a new attempt while the last drains: %v", err)
		}
		if f.Ticket(f.get("p")) != nil {
			t.Error("an undone attempt gives tickets")
		}
		if role, _ := f.Admit(f.get("p")); role != RoleWaits {
			t.Errorf("the leader has role %d while the attempt drains", role)
		}
		expectEffects(t, "p's end", f.Leave(tickets["p"], CauseRefused, "rejected"), outcome{Changed: []string{"g"}})
		expectEffects(t, "q's end", f.Leave(tickets["q"], CauseRefused, "rejected"), outcome{Changed: []string{"g"}})
		expectEffects(t, "x's end, the last", f.Leave(tickets["x"], CauseRefused, "rejected"), outcome{Activate: []string{"p"}, Freed: true, Changed: []string{"g"}})
		if f.Draining(attempt) {
			t.Error("the attempt still drains")
		}
		f.expectRole(f.get("p"), RoleLeads, "")
	})
	t.Run("while members prepare", func(t *testing.T) {
		f, _, tickets := trio(t)
		f.arrived(tickets, "p", "q", "r")
		decided := f.Prepare(tickets["p"])
		expectEffects(t, "q's failure", f.Leave(tickets["q"], CauseRefused, "no claim"), outcome{
			Undo: []string{"g [p(entered) q(entered) r(entered) x]: no claim"}, Changed: []string{"g"},
		})
		f.expectVerdict(tickets["p"], decided, false, "no claim")
		// r is prepared when it is too late.
		f.expectVerdict(tickets["r"], f.Prepare(tickets["r"]), false, "no claim")
		f.Leave(tickets["p"], CauseRefused, "undone")
		expectEffects(t, "the last to leave", f.Leave(tickets["r"], CauseRefused, "undone"), outcome{Activate: []string{"p"}, Freed: true, Changed: []string{"g"}})
	})
}

func TestRollbackNamesItsCause(t *testing.T) {
	for _, tc := range []struct {
		name string
		undo func(f *fixture, attempt *Attempt, tickets map[string]*Ticket) Effects
		want Cause
	}{
		{"the one that the member gives", func(f *fixture, _ *Attempt, tickets map[string]*Ticket) Effects {
			return f.Leave(tickets["p"], CauseUnprepared, "no")
		}, CauseUnprepared},
		{"expiry", func(f *fixture, attempt *Attempt, _ map[string]*Ticket) Effects { return f.Expire(attempt, "late") }, CauseTimeout},
		{"an event", func(f *fixture, _ *Attempt, _ map[string]*Ticket) Effects { return f.drop(f.get("p")) }, CauseChanged},
	} {
		f, attempt, tickets := trio(t)
		effects := tc.undo(f, attempt, tickets)
		if len(effects.Undo) != 1 || effects.Undo[0].Cause != tc.want || effects.Undo[0].Attempt != attempt {
			t.Errorf("%s: got %+v, want one roll-back of the attempt with cause %q", tc.name, effects.Undo, tc.want)
		}
	}
}

func TestLeaveOfAnExtra(t *testing.T) {
	t.Run("that has entered holds nobody back", func(t *testing.T) {
		f, _, tickets := trio(t)
		f.arrived(tickets, "x", "p", "q")
		expectEffects(t, "x's failure", f.Leave(tickets["x"], CauseRefused, "x failed"), outcome{Changed: []string{"g"}})
		f.expectRole(f.get("x"), RoleWaits, "waits until the floor of PodGang ns/g is bound")
		f.arrived(tickets, "r")
		for _, name := range []string{"p", "q", "r"} {
			f.Prepare(tickets[name])
		}
		f.Bound(tickets["p"])
		f.Bound(tickets["q"])
		expectEffects(t, "binding the floor", f.Bound(tickets["r"]), outcome{Activate: []string{"x"}, Changed: []string{"g"}})
		f.expectRole(f.get("x"), RoleJoins, "")
	})
	t.Run("that has not entered gives back what is reserved for it", func(t *testing.T) {
		f, _, tickets := trio(t)
		effects := f.Leave(tickets["x"], CauseRefused, "x does not fit")
		expectEffects(t, "x's refusal", effects, outcome{Release: []string{"x"}, Changed: []string{"g"}})
		for _, leaver := range effects.Release {
			leaver.Release(t.Context())
		}
		expectEqual(t, "given back", []string{"x"}, f.released)
		expectEffects(t, "x's refusal once more", f.Leave(tickets["x"], CauseRefused, "again"), outcome{Changed: []string{"g"}})
	})
}

func TestLeaveOnceMembersAreBound(t *testing.T) {
	f, _, tickets := trio(t)
	f.arrived(tickets, "p", "q", "r", "x")
	for _, name := range []string{"p", "q", "r"} {
		f.Prepare(tickets[name])
	}
	f.Prepare(tickets["x"])
	f.Bound(tickets["p"])
	expectEffects(t, "q's failed Bind", f.Leave(tickets["q"], CauseRefused, "bind failed"), outcome{Changed: []string{"g"}})
	if bind, _ := f.Verdict(tickets["r"]); !bind {
		t.Error("a failed Bind has undone the verdict")
	}
	f.expectRole(f.get("q"), RoleWaits, "waits until the floor of PodGang ns/g is bound")
	f.Bound(tickets["r"])
	expectEffects(t, "the last end", f.Bound(tickets["x"]), outcome{Activate: []string{"q"}, Changed: []string{"g"}})
	f.expectRole(f.get("q"), RoleLeads, "")
	if key, _ := f.SortKey(f.get("q")); key.Rank != RankTopUp {
		t.Errorf("what is left of a gang that is bound in part has rank %d, want %d", key.Rank, RankTopUp)
	}
	// Only the one that is missing is planned again.
	_, tickets = f.begin(f.get("q"))
	if len(tickets) != 1 {
		t.Errorf("planned again are %d members, want q alone", len(tickets))
	}
	f.arrived(tickets, "q")
	f.expectVerdict(tickets["q"], f.Prepare(tickets["q"]), true, "")
}

func TestEventsDuringAnAttempt(t *testing.T) {
	const undone = "g [p q r x]: "
	for _, tc := range []struct {
		name  string
		event func(f *fixture) Effects
		want  outcome
	}{
		{
			"a floor member is deleted",
			func(f *fixture) Effects { return f.drop(f.get("q")) },
			outcome{Undo: []string{undone + "member q was deleted"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"a floor member is made anew",
			func(f *fixture) Effects { return f.put(changed(f.get("q"), uid("new"))) },
			outcome{Undo: []string{undone + "member q was deleted"}, Activate: []string{"p"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"a floor member is terminating",
			func(f *fixture) Effects { return f.put(changed(f.get("r"), terminating)) },
			outcome{Undo: []string{undone + "member r is finished or being deleted"}, Activate: []string{"p"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"a floor member has failed",
			func(f *fixture) Effects { return f.put(changed(f.get("q"), inPhase(v1.PodFailed))) },
			outcome{Undo: []string{undone + "member q is finished or being deleted"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"a floor member moves to another gang",
			func(f *fixture) Effects { return f.put(changed(f.get("q"), inGang("h"))) },
			outcome{Undo: []string{undone + "member q was deleted"}, Freed: true, Changed: []string{"g", "h"}},
		},
		{
			"a floor member is bound by another scheduler",
			func(f *fixture) Effects { return f.put(changed(f.get("q"), onNode("n"))) },
			outcome{Undo: []string{undone + "member q was bound to a node by somebody else"}, Activate: []string{"p"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"the floor is raised",
			func(f *fixture) Effects {
				return f.SetGang(changedGang(podGang("g"), group("a", 2, "p", "q"), group("b", 2, "r", "x")))
			},
			outcome{Undo: []string{undone + "group b now needs 2 members and the plan has 1"}, Activate: []string{"p"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"the floor is lowered",
			func(f *fixture) Effects {
				return f.SetGang(changedGang(podGang("g"), group("a", 1, "p", "q"), group("b", 1, "r", "x")))
			},
			outcome{Changed: []string{"g"}},
		},
		{
			"a floor member is not listed any more",
			func(f *fixture) Effects {
				return f.SetGang(changedGang(podGang("g"), group("a", 2, "p", "q"), group("b", 1, "x")))
			},
			// Unlabelled, r is in no gang then.
			outcome{Undo: []string{undone + "member r was deleted"}, Activate: []string{"p", "r"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"a group is added",
			func(f *fixture) Effects {
				return f.SetGang(changedGang(podGang("g"), group("a", 2, "p", "q"), group("b", 1, "r", "x"), group("c", 1)))
			},
			outcome{Undo: []string{undone + "group c now needs 1 members and the plan has 0"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"a group without floor is added",
			func(f *fixture) Effects {
				return f.SetGang(changedGang(podGang("g"), group("a", 2, "p", "q"), group("b", 1, "r", "x"), group("c", 0)))
			},
			outcome{Changed: []string{"g"}},
		},
		{
			"the gang gets a fault",
			func(f *fixture) Effects {
				return f.SetUnreadable(changedGang(podGang("g"), group("a", 2, "p", "q"), group("b", 1, "r", "x")), "unreadable")
			},
			outcome{Undo: []string{undone + "PodGang ns/g is wrong: unreadable"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"the gang is deleted",
			func(f *fixture) Effects { return f.DeleteGang(podGang("g")) },
			outcome{Undo: []string{undone + "PodGang ns/g was deleted"}, Activate: []string{"p", "q", "r", "x"}, Freed: true, Changed: []string{"g"}},
		},
		{
			"an extra is deleted: its place is given back",
			func(f *fixture) Effects { return f.drop(f.get("x")) },
			outcome{Release: []string{"x"}, Changed: []string{"g"}},
		},
		{
			"an extra is terminating: its place is given back",
			func(f *fixture) Effects { return f.put(changed(f.get("x"), terminating)) },
			outcome{Release: []string{"x"}, Changed: []string{"g"}},
		},
		{
			"a member beyond the plan comes",
			func(f *fixture) Effects { return f.put(pod("y", inGang("g"))) },
			outcome{Changed: []string{"g"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, _, _ := trio(t)
			effects := tc.event(f)
			slices.SortFunc(effects.Activate, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
			expectEffects(t, "the event", effects, tc.want)
			if undone := len(tc.want.Undo) > 0; undone != (f.Ticket(f.get("p")) == nil) {
				t.Errorf("undone: %v, and ticket of p: %+v", undone, f.Ticket(f.get("p")))
			}
		})
	}
}

func TestEventsAfterTheVerdictUndoNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		event func(f *fixture) Effects
	}{
		{"a floor member is deleted", func(f *fixture) Effects { return f.drop(f.get("q")) }},
		{"the gang is deleted", func(f *fixture) Effects { return f.DeleteGang(podGang("g")) }},
		{"an entered extra is deleted", func(f *fixture) Effects { return f.drop(f.get("x")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, attempt, tickets := trio(t)
			f.arrived(tickets, "p", "q", "r", "x")
			for _, name := range []string{"p", "q", "r"} {
				f.Prepare(tickets[name])
			}
			effects := tc.event(f)
			if len(effects.Undo) > 0 || len(effects.Release) > 0 {
				t.Errorf("got %+v", outcomeOf(effects))
			}
			for _, name := range []string{"p", "q", "r", "x"} {
				if bind, reason := f.Verdict(tickets[name]); !bind {
					t.Errorf("member %s may not bind: %s", name, reason)
				}
			}
			if effects := f.Expire(attempt, "late"); len(effects.Undo) > 0 || len(effects.Release) > 0 {
				t.Errorf("expiry: got %+v", outcomeOf(effects))
			}
			for _, name := range []string{"p", "q", "r", "x"} {
				f.Bound(tickets[name])
			}
			if f.Draining(attempt) {
				t.Error("the attempt drains")
			}
		})
	}
}

// A member that is placed alone counts as bound while its binding cycle lasts, so
// that it is not planned a second time.
func TestMemberThatIsPlacedAlone(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 2, "p", "q", "r")))
	p, q, r := pod("p", onNode("n")), pod("q"), pod("r")
	f.putAll(p, pod("q", onNode("n")))
	f.put(r)
	f.expectRole(r, RoleJoins, "")
	expectEffects(t, "r's Reserve", f.Assume(r, "n"), outcome{Changed: []string{"g"}})
	f.drop(p)
	if view, _ := f.View(keyFor("g")); !view.Satisfied {
		t.Error("the member that is being bound does not count")
	}
	f.put(changed(q, uid("new")))
	if snapshot, ok := f.Snapshot(keyFor("g"), "new"); !ok || len(snapshot.Groups[0].Bound) != 1 || len(snapshot.Groups[0].Floors) != 1 {
		t.Errorf("got snapshot %+v, %v; want r bound and q to be planned", snapshot, ok)
	}
	expectEffects(t, "r's failure", f.Forget(r), outcome{Activate: []string{"q"}, Changed: []string{"g"}})
	if snapshot, ok := f.Snapshot(keyFor("g"), "new"); !ok || len(snapshot.Groups[0].Floors) != 2 {
		t.Errorf("got snapshot %+v, %v; want q and r to be planned", snapshot, ok)
	}
	expectEffects(t, "its failure once more", f.Forget(r), outcome{})
	expectEffects(t, "a pod in no gang", f.Assume(pod("single"), "n"), outcome{})
}

func TestAlone(t *testing.T) {
	for _, size := range []int{1, 2} {
		a := &Attempt{members: make(map[types.UID]*place)}
		for n := range size {
			a.members[types.UID(string(rune('a'+n)))] = &place{}
		}
		if got, want := (&Index{}).Alone(&Ticket{attempt: a}), size == 1; got != want {
			t.Errorf("alone of %d: got %t, want %t", size, got, want)
		}
	}
}

func TestAwaited(t *testing.T) {
	f, _, tickets := trio(t)
	f.enter(tickets["q"])
	f.Leave(tickets["x"], CauseRefused, "no")
	var got []string
	for _, p := range f.Awaited(tickets["p"]) {
		got = append(got, p.Name)
	}
	slices.Sort(got)
	expectEqual(t, "members that p still waits for", []string{"r"}, got)
	if !f.Attempts() {
		t.Error("no attempt is under way, and there is one")
	}
	f.Leave(tickets["p"], CauseRefused, "no")
	if !f.Attempts() {
		t.Error("no attempt is under way, and one drains")
	}
	f.Leave(tickets["q"], CauseRefused, "no")
	if f.Attempts() {
		t.Error("an attempt is under way, and it is over")
	}
}

func TestLoweredFloorStillAwaitsThePlannedFloor(t *testing.T) {
	f, _, tickets := trio(t)
	f.SetGang(changedGang(podGang("g"), group("a", 1, "p", "q"), group("b", 1, "r", "x")))
	f.expectArrival("p", f.arrived(tickets, "p"), Arrival{Wait: true})
	f.expectArrival("r", f.arrived(tickets, "r"), Arrival{Wait: true})
	f.expectArrival("q", f.arrived(tickets, "q"), Arrival{Proceed: true, Release: []types.UID{"uid-p", "uid-r"}})
}

func TestExpire(t *testing.T) {
	t.Run("without the whole floor the attempt is undone", func(t *testing.T) {
		f, attempt, tickets := trio(t)
		f.arrived(tickets, "p", "q")
		expectEffects(t, "expiry", f.Expire(attempt, "too late"), outcome{
			Undo: []string{"g [p(entered) q(entered) r x]: too late"}, Changed: []string{"g"},
		})
		expectEffects(t, "expiry once more", f.Expire(attempt, "again"), outcome{})
		f.Leave(tickets["p"], CauseRefused, "rejected")
		expectEffects(t, "the last to leave", f.Leave(tickets["q"], CauseRefused, "rejected"), outcome{Activate: []string{"p"}, Freed: true, Changed: []string{"g"}})
	})
	t.Run("with the whole floor, extras that have not come lose their place", func(t *testing.T) {
		f, attempt, tickets := trio(t)
		f.arrived(tickets, "p", "q", "r")
		expectEffects(t, "expiry", f.Expire(attempt, "too late"), outcome{Release: []string{"x"}, Changed: []string{"g"}})
		if err := f.Enter(tickets["x"]); err == nil {
			t.Error("an extra that has lost its place enters")
		}
		f.expectArrival("x", f.Arrive(tickets["x"]), Arrival{})
		for _, name := range []string{"p", "q", "r"} {
			f.Prepare(tickets[name])
		}
		f.Bound(tickets["p"])
		f.Bound(tickets["q"])
		expectEffects(t, "the last Bind", f.Bound(tickets["r"]), outcome{Activate: []string{"x"}, Changed: []string{"g"}})
	})
	t.Run("extras that have come keep theirs", func(t *testing.T) {
		f, attempt, tickets := trio(t)
		f.arrived(tickets, "p", "q", "r", "x")
		expectEffects(t, "expiry", f.Expire(attempt, "too late"), outcome{Changed: []string{"g"}})
	})
	t.Run("it is no business of the next attempt", func(t *testing.T) {
		f, attempt, tickets := trio(t)
		f.Leave(tickets["p"], CauseRefused, "first")
		f.begin(f.get("p"))
		expectEffects(t, "the first attempt's expiry", f.Expire(attempt, "too late"), outcome{})
		if f.Ticket(f.get("p")) == nil {
			t.Error("the second attempt is undone")
		}
	})
}

func TestTicketOfAnUndoneAttemptHasNoEffectOnTheNext(t *testing.T) {
	f, _, old := trio(t)
	f.Leave(old["q"], CauseRefused, "first") // nobody has entered, so the attempt is over
	_, tickets := f.begin(f.get("p"))
	f.arrived(tickets, "q", "r")

	if err := f.Enter(old["p"]); err == nil {
		t.Error("the old ticket enters")
	}
	f.expectArrival("the old ticket", f.Arrive(old["p"]), Arrival{Reason: "first"})
	expectEffects(t, "leaving with the old ticket", f.Leave(old["r"], CauseRefused, "late"), outcome{})
	f.expectArrival("p", f.arrived(tickets, "p"), Arrival{Proceed: true, Release: []types.UID{"uid-q", "uid-r"}})
	decided := f.Prepare(tickets["p"])
	f.Prepare(tickets["q"])
	f.expectVerdict(old["r"], f.Prepare(old["r"]), false, "first")
	expectOpen(t, decided)
	if bind, _ := f.Verdict(tickets["p"]); bind {
		t.Error("the old ticket has counted for the new attempt")
	}
	f.Prepare(tickets["r"])
	f.expectVerdict(tickets["p"], decided, true, "")
}

func TestBegin(t *testing.T) {
	placements := func(pods ...*v1.Pod) []Placement {
		var placements []Placement
		for _, p := range pods {
			placements = append(placements, Placement{Pod: p, Node: "n", Floor: true})
		}
		return placements
	}
	p, q := pod("p"), pod("q")
	for _, tc := range []struct {
		name string
		// change happens between the plan and Begin.
		change  func(f *fixture)
		planned []Placement
		want    string
	}{
		{"the gang was deleted", func(f *fixture) { f.DeleteGang(podGang("g")) }, placements(p, q), "PodGang ns/g was deleted"},
		{"a member was deleted", func(f *fixture) { f.drop(q) }, placements(p, q), "PodGang ns/g changed while it was planned: member q was deleted"},
		{"a member is terminating", func(f *fixture) { f.put(changed(q, terminating)) }, placements(p, q), "PodGang ns/g changed while it was planned: member q is finished or being deleted"},
		{
			"the floor was raised",
			func(f *fixture) { f.SetGang(changedGang(podGang("g"), group("a", 3, "p", "q"))) }, placements(p, q),
			"PodGang ns/g changed while it was planned: group a now needs 3 members and the plan has 2",
		},
		{
			"the plan is short", func(*fixture) {}, placements(p),
			"PodGang ns/g changed while it was planned: group a now needs 2 members and the plan has 1",
		},
		{"a member was bound by somebody else", func(f *fixture) { f.put(changed(q, onNode("n"))) }, placements(p), ""},
		{
			"a planned member was bound by somebody else",
			func(f *fixture) { f.put(changed(q, onNode("n"))) }, placements(p, q),
			"PodGang ns/g changed while it was planned: member q was bound to a node by somebody else",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.SetGang(podGang("g", group("a", 2, "p", "q")))
			f.putAll(p, q)
			tc.change(f)
			attempt, err := f.Begin(keyFor("g"), tc.planned)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want || (attempt == nil) != (tc.want != "") {
				t.Fatalf("got attempt %v, error %q; want %q", attempt, got, tc.want)
			}
			if tc.want != "" && f.Ticket(p) != nil {
				t.Error("an attempt that did not begin gives tickets")
			}
		})
	}
}

func TestRetryDelays(t *testing.T) {
	f, _, tickets := trio(t)
	for n, delay := range []string{"", "1s", "2s", "4s", "8s", "10s", "10s"} {
		want := outcome{Undo: []string{"g [p q r x]: no"}, Freed: true, Changed: []string{"g"}}
		if n == 0 {
			want.Activate = []string{"p"}
		} else {
			want.Retry = []string{"p in " + delay}
		}
		expectEffects(t, "a roll-back", f.Leave(tickets["p"], CauseRefused, "no"), want)
		_, tickets = f.begin(f.get("p"))
	}
	// An attempt that succeeds is the end of the count.
	f.arrived(tickets, "p", "q", "r", "x")
	for _, name := range []string{"p", "q", "r"} {
		f.Prepare(tickets[name])
	}
	for _, ticket := range tickets {
		f.Bound(ticket)
	}
	anew := changed(f.get("p"), uid("new"))
	f.put(anew)
	_, tickets = f.begin(anew)
	expectEffects(t, "the next roll-back", f.Leave(tickets["p"], CauseRefused, "no"), outcome{
		Undo: []string{"g [p]: no"}, Activate: []string{"p"}, Freed: true, Changed: []string{"g"},
	})
	if got := retryDelay(1 << 30); got != 10*time.Second {
		t.Errorf("the delay after very many roll-backs is %v", got)
	}
}

// What an event wakes does not wait for the delay of a roll-back.
func TestEventPassesTheRetryDelay(t *testing.T) {
	f, _, tickets := trio(t)
	f.Leave(tickets["p"], CauseRefused, "no")
	_, tickets = f.begin(f.get("p"))
	f.Leave(tickets["p"], CauseRefused, "no")
	expectEffects(t, "a new member", f.put(pod("y", inGang("g"))), outcome{Activate: []string{"p"}, Changed: []string{"g"}})
}

func TestUndoneLeaderIsNotAwaited(t *testing.T) {
	f, _, tickets := trio(t)
	f.arrived(tickets, "p", "q")
	f.put(pod("s", inGang("g")))
	f.SetGang(changedGang(podGang("g"), group("a", 2, "p", "q", "s"), group("b", 1, "r", "x")))
	expectEffects(t, "the leader's deletion", f.drop(f.get("p")), outcome{
		Undo: []string{"g [p(entered) q(entered) r x]: member p was deleted"}, Changed: []string{"g"},
	})
	f.Leave(tickets["q"], CauseRefused, "rejected")
	expectEffects(t, "the last to leave", f.Leave(tickets["p"], CauseRefused, "rejected"), outcome{Activate: []string{"q"}, Freed: true, Changed: []string{"g"}})
	f.expectRole(f.get("q"), RoleLeads, "")
}

func TestIndexForgetsWhatIsGone(t *testing.T) {
	f, _, tickets := trio(t)
	f.arrived(tickets, "p")
	f.DeleteGang(podGang("g"))
	for _, name := range []string{"p", "q", "r", "x"} {
		f.drop(f.get(name))
	}
	if keys := f.Keys(); len(keys) != 1 {
		t.Errorf("gangs are %v while a member is on its way out", keys)
	}
	f.Leave(tickets["p"], CauseRefused, "rejected")
	expectEmptyIndex(t, f.Index)
}

// expectEmptyIndex checks that nothing is remembered.
func expectEmptyIndex(t interface {
	Helper()
	Errorf(string, ...any)
}, i *Index) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.gangs)+len(i.members)+len(i.listedBy)+len(i.freed) > 0 {
		t.Errorf("left over: gangs %v, members %v, references %v, freed pods %v", i.gangs, i.members, i.listedBy, i.freed)
	}
}
