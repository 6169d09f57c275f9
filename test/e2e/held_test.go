// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// The tests here stop the scheduler between its plan and the end of its writes, by
// holding or refusing its requests to the API server.

// hold makes requests of the scheduler wait until the rule is released; at the latest
// at the end of the scenario.
func (s *scenario) hold(match func(*http.Request) bool) *rule { return s.holdAt(s.c.gate, match) }

// holdAt is hold for the scheduler behind a gate.
func (s *scenario) holdAt(g *gate, match func(*http.Request) bool) *rule {
	return s.untilEnd(g.hold(match))
}

// halfPrepared creates the gang g of g-0 and g-1 with a GPU each. The first has its
// device in the API, and the write of the other's is held at a scheduler's gate.
func (s *scenario) halfPrepared(at *gate) (pods []string, write *rule) {
	s.t.Helper()
	write = s.holdAt(at, claimWrite(s.ns, "g-1-"))
	pods = s.pairHeldBy(write)
	s.allocatedFor("g-0")
	return pods, write
}

// halfBound creates the gang g of g-0 and g-1 with a GPU each. The first is bound, and
// the binding of the other is held at a scheduler's gate.
func (s *scenario) halfBound(at *gate) (pods []string, binding *rule) {
	s.t.Helper()
	binding = s.holdAt(at, bindingOf(s.ns, "g-1"))
	pods = s.pairHeldBy(binding)
	s.bound("g-0")
	return pods, binding
}

// pairHeldBy creates the gang g of two pods with a GPU each, and waits until a request
// for it is held.
func (s *scenario) pairHeldBy(r *rule) []string {
	s.t.Helper()
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, gpu)
	s.waitMet(r, 1)
	return pods
}

// waitMet waits until n requests, or deliveries of a watch, have met a rule.
func (s *scenario) waitMet(r *rule, n int) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d requests of the scheduler, or deliveries to it, have met the rule", n), func() string {
		if met := r.count(); met < n {
			return fmt.Sprintf("%d have", met)
		}
		return ""
	})
}

// nothingAllocated waits until no claim of the pods is allocated or reserved.
func (s *scenario) nothingAllocated(list ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("no claim of %v is allocated", list), func() string {
		for _, name := range list {
			pod := s.getPod(name)
			if pod == nil {
				continue
			}
			for _, c := range s.claimsOf(pod) {
				if c.Status.Allocation != nil || len(c.Status.ReservedFor) > 0 {
					return fmt.Sprintf("claim %s is", c.Name)
				}
			}
		}
		return ""
	})
}

// No claim has been written yet.
func TestMemberDeletedWhileItsGangIsHeld(t *testing.T) {
	for i := range 2 {
		t.Run(fmt.Sprintf("member %d", i), func(t *testing.T) {
			s := newScenario(t, gatedLab)
			pods := names("g", 2)
			writes := s.hold(claimWrite(s.ns, "g-"))
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.waitMet(writes, 2)
			s.deletePods(pods[i])
			writes.release()
			s.waits([]string{pods[1-i]}, "1 of 2")
			s.neverBound(pods...)
			s.nothingAllocated(pods[1-i])
			s.gpusUsable(2)
			s.pod(pods[i], of("g"), gpu)
			s.bound(pods...)
		})
	}
}

// One member has its device in the API, the other not yet.
func TestMemberDeletedWhileItsGangIsHalfPrepared(t *testing.T) {
	for _, tc := range []struct{ name, deleted, left string }{
		{"the prepared one", "g-0", "g-1"},
		{"the other", "g-1", "g-0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, gatedLab)
			pods, writes := s.halfPrepared(s.c.gate)
			s.deletePods(tc.deleted)
			writes.release()
			s.waits([]string{tc.left}, "1 of 2")
			s.neverBound(pods...)
			s.nothingAllocated(tc.left)
			s.gpusUsable(2)
			s.pod(tc.deleted, of("g"), gpu)
			s.bound(pods...)
		})
	}
}

// Everything is prepared and the bindings are on their way: the gang is not undone any
// more, and a member that goes now is replaced.
func TestMemberDeletedWhileItsGangIsBeingBound(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods, binding := s.halfBound(s.c.gate)
	s.deletePods("g-1")
	binding.release()
	s.pod("g-1", of("g"), gpu)
	s.bound(pods...)
}

func TestPodGangDeletedWhileItIsHeld(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods, writes := s.halfPrepared(s.c.gate)
	s.deleteGang("g")
	writes.release()
	s.nothingAllocated(pods...)
	s.marker()
	s.neverBound(pods...)
	s.gpusUsable(2)
	s.gang("g", group("w", 2, pods...))
	s.bound(pods...)
}

// No binding begins under a floor that has risen since.
func TestFloorRaisedWhileTheGangIsHeld(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods := names("g", 3)
	writes := s.hold(claimWrite(s.ns, "g-"))
	s.gang("g", group("w", 2, pods...))
	s.members("g", 3, gpu)
	s.waitMet(writes, 2)
	s.setFloor("g", 3)
	writes.release()
	s.unschedulable(pods, "3 pods", "room for 2")
	s.neverBound(pods...)
	s.nothingAllocated(pods...)
	s.gpusUsable(2)
	s.setFloor("g", 2)
	s.boundOf(2, pods...)
}

// What a held gang has is its own: pods that come meanwhile see it as taken.
func TestDevicesOfAHeldGangAreTaken(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods := names("g", 2)
	writes := s.hold(claimWrite(s.ns, "g-"))
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, gpu)
	s.waitMet(writes, 2)
	s.pod("plain", gpu)
	s.unschedulable([]string{"plain"})
	s.gang("other", group("w", 1, "other-0"))
	s.members("other", 1, gpu)
	s.unschedulable([]string{"other-0"})
	writes.release()
	s.bound(pods...)
	s.holdsNothing("plain", "other-0")
	s.deletePods(pods...)
	s.bound("plain", "other-0")
}

// An extra can go without its gang.
func TestExtraDeletedWhileItsGangIsHeld(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods := names("g", 2)
	writes := s.hold(claimWrite(s.ns, "g-"))
	s.gang("g", group("w", 1, pods...))
	s.members("g", 2, gpu)
	s.waitMet(writes, 1)
	s.marker() // the second member has had its turn too
	s.deletePods("g-1")
	writes.release()
	s.bound("g-0")
	s.gpusUsable(1)
}

func TestClaimThatCannotBeWritten(t *testing.T) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusConflict} {
		t.Run(fmt.Sprintf("twice, %d", code), func(t *testing.T) {
			s := newScenario(t, gatedLab)
			pods := names("g", 2)
			refusals := s.refuseNext(2, code, claimWrite(s.ns, "g-1-"))
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.waitMet(refusals, 2)
			s.bound(pods...)
		})
	}
	t.Run("for ever", func(t *testing.T) {
		s := newScenario(t, gatedLab)
		pods, other := names("g", 2), names("other", 2)
		refusals := s.refuseNext(-1, http.StatusInternalServerError, claimWrite(s.ns, "g-1-"))
		s.gang("g", group("w", 2, pods...))
		s.members("g", 2, gpu)
		s.waitMet(refusals, 1)
		// Another gang gets the devices between the attempts.
		s.gang("other", group("w", 2, other...))
		s.members("other", 2, gpu)
		s.bound(other...)
		s.neverBound(pods...)
		s.tells("g", "refused by the test")
		refusals.release()
		s.deletePods(other...)
		s.bound(pods...)
	})
}

// The first bindings of one member fail when the gang has been let go.
func TestBindingThatFailsForAWhile(t *testing.T) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusConflict} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := newScenario(t, gatedLab)
			pods := names("g", 2)
			refusals := s.refuseNext(3, code, bindingOf(s.ns, "g-0"))
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.waitMet(refusals, 3)
			s.bound(pods...)
		})
	}
}

// Time and again, at any moment of an attempt: nothing hangs, nothing is bound in part.
func TestMembersDeletedAtAnyMoment(t *testing.T) {
	s := shared(t)
	s.gang("g", group("w", 2))
	for round := range 16 {
		pods := names(fmt.Sprintf("r%d", round), 2)
		s.setReferences("g", pods...)
		for _, name := range pods {
			s.pod(name, of("g"), gpu)
		}
		// The watch delivers every step of the attempt: a later round deletes later.
		seen := len(s.c.history.of(s.ns))
		s.until("the attempt has come far enough, or ended", func() string {
			if s.boundCount(pods...) == 2 || len(s.c.history.of(s.ns)) >= seen+round {
				return ""
			}
			return "it has not"
		})
		deleted, kept := pods[round%2], pods[1-round%2]
		s.deletePods(deleted)
		if round%4 < 2 {
			again := deleted + "-again"
			s.setReferences("g", kept, again)
			s.pod(again, of("g"), gpu)
			s.bound(kept, again)
			s.deletePods(again)
		}
		s.deletePods(kept)
	}
	s.gpusUsable(2)
}

func (s *scenario) refuseNext(n, code int, match func(*http.Request) bool) *rule {
	return s.untilEnd(s.c.gate.refuseNext(n, code, match))
}
