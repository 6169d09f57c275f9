// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	"github.com/podgang/podgang-scheduler/manifests"
)

// kill ends the scheduler with SIGKILL.
func (s *scenario) kill() {
	s.t.Helper()
	s.scheduler().Kill()
	s.hasEnded()
}

// hasEnded notes that the scenario has ended the scheduler, and has it run again afterwards.
func (s *scenario) hasEnded() {
	s.t.Helper()
	s.killed++
	s.t.Cleanup(func() { // other scenarios need it, whatever becomes of this one
		ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
		defer cancel()
		if err := s.scheduler().Start(ctx); err != nil {
			s.t.Errorf("the scheduler does not start again: %v", err)
		}
	})
}

func (s *scenario) restart() {
	s.t.Helper()
	s.must(s.scheduler().Start(s.ctx))
}

func TestSchedulerKilledWhileAGangWaits(t *testing.T) {
	s := newScenario(t, gatedLab)
	s.takeGPU("solo")
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, gpu)
	s.unschedulable(pods)
	s.kill()
	s.restart()
	s.holdsNothing(pods...)
	s.deletePods("solo")
	s.bound(pods...)
}

// The claims are written and nothing is bound.
func TestSchedulerKilledBeforeTheFirstBinding(t *testing.T) {
	for _, tc := range []struct {
		name string
		// meanwhile is done while no scheduler runs.
		meanwhile func(s *scenario)
		// bound says that the gang is bound when the scheduler is back.
		bound bool
	}{
		{"nothing changes", func(*scenario) {}, true},
		{"a member is deleted", func(s *scenario) { s.deletePods("g-1") }, false},
		{"the PodGang is deleted", func(s *scenario) { s.deleteGang("g") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, gatedLab)
			pods := names("g", 2)
			bindings := s.hold(bindingIn(s.ns))
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.waitMet(bindings, 2)
			s.allocatedFor(pods...)
			s.kill()
			bindings.drop()
			tc.meanwhile(s)
			s.neverBound(pods...)
			s.restart()
			if tc.bound {
				s.bound(pods...)
				return
			}
			s.nothingAllocated(pods...)
			s.gpusUsable(2)
			s.neverBound(pods...)
		})
	}
}

// One member is bound, the other has its device; a pod waits for a device too.
func TestSchedulerKilledWhileAGangIsBeingBound(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods, binding := s.halfBound(s.c.gate)
	s.kill()
	binding.drop()
	s.pod("rival", gpu)
	s.restart()
	s.bound(pods...)
	s.holdsNothing("rival")
	s.deletePods(pods...)
	s.bound("rival")
}

// One member is bound, the other has no device yet when the scheduler is back: it gets
// one before a pod that is older.
func TestGangFoundHalfBoundIsToppedUpFirst(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods, binding := s.halfBound(s.c.gate)
	s.kill()
	binding.drop()
	s.deletePods("g-1")
	s.pod("rival", gpu)
	s.pod("g-1", of("g"), gpu)
	s.until("the claim of g-1 exists", func() string {
		if len(s.claimsOf(s.getPod("g-1"))) == 0 {
			return "it does not"
		}
		return ""
	})
	s.restart()
	s.bound(pods...)
	s.holdsNothing("rival")
	s.deletePods("g-1", "g-0")
	s.bound("rival")
}

// A cluster without the CRD: everything but gangs works, and gangs do when it comes.
func TestPodGangCRDInstalledLater(t *testing.T) {
	s := newScenario(t, bareLab)
	s.plainPods([]string{"plain"}, gpu)
	pods := names("g", 2)
	s.members("g", 2, gpu)
	s.holdsNothing(pods...)
	s.plainPods([]string{"later"})
	pid := s.scheduler().PID()

	objects, err := manifests.Render(manifests.CRD)
	s.must(err)
	s.must(s.c.Apply(s.ctx, objects...))
	s.must(s.c.recordGangs(context.Background())) // until the lab ends
	s.gang("g", group("w", 2, pods...))
	s.unschedulable(pods, "room for 1")
	s.holdsNothing(pods...)
	s.deletePods("plain")
	s.bound(pods...)
	s.waitPhase("g", "Running")
	if s.scheduler().PID() != pid || !s.scheduler().Running() {
		t.Error("the scheduler did not live through it")
	}
}
