// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Without a floor there is nothing to wait for: as many run as there is room for.
func TestFloorOfZero(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		s := shared(t)
		pods := names("g", 3)
		s.gang("g", group("w", 0, pods...))
		s.members("g", 3, gpu)
		s.boundOf(2, pods...)
		s.node("third", gpus(1, "NVIDIA L40S"))
		s.bound(pods...)
	})
	t.Run("beside a group with a floor", func(t *testing.T) {
		s := shared(t)
		s.takeGPU("solo")
		s.gang("g", group("free", 0, "free"), group("w", 2, names("w", 2)...))
		s.pod("free", of("g"), cpu("1"))
		for _, name := range names("w", 2) {
			s.pod(name, of("g"), gpu)
		}
		pods := append(names("w", 2), "free")
		s.unschedulable(names("w", 2), "group w")
		s.holdsNothing(pods...)
		s.deletePods("solo")
		s.bound(pods...)
	})
}

func TestFloorLoweredWhileTheGangWaits(t *testing.T) {
	s := shared(t)
	pods := names("svc", 3)
	s.gang("svc", group("w", 3, pods...))
	s.members("svc", 3, gpu)
	s.unschedulable(pods, "3 pods")
	s.holdsNothing(pods...)
	s.setFloor("svc", 2)
	s.boundOf(2, pods...)
}

func TestFloorRaisedWhileTheGangWaits(t *testing.T) {
	s := shared(t)
	s.takeGPU("solo")
	pods := names("g", 3)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 3, gpu)
	s.unschedulable(pods, "2 pods")
	s.setFloor("g", 3)
	s.unschedulable(pods, "3 pods")
	s.deletePods("solo")
	s.holdsNothing(pods...)
	s.gpusUsable(2)
	s.node("third", gpus(1, "NVIDIA L40S"))
	s.bound(pods...)
}

// More than there are pods: nothing is bound, whatever room there is.
func TestFloorAboveTheNumberOfMembers(t *testing.T) {
	s := shared(t)
	pods := names("g", 2)
	s.gang("g", group("w", 3, pods...))
	s.members("g", 2, gpu)
	s.waits(pods, "2 of 3")
	s.tells("g", "2 of 3")
	s.holdsNothing(pods...)
	s.gpusUsable(2)
	s.setFloor("g", 2)
	s.bound(pods...)
}

// Four are listed, three are the floor, and there is room for three.
func TestExtraWaitsForRoomWhileTheGangRuns(t *testing.T) {
	s := shared(t)
	s.node("third", gpus(1, "NVIDIA L40S"))
	pods := names("g", 4)
	s.gang("g", group("w", 3, pods...))
	s.members("g", 4, gpu)
	s.boundOf(3, pods...)
	without := slices.IndexFunc(pods, func(name string) bool { return s.boundCount(name) == 0 })
	if without < 0 {
		t.Fatal("four pods are bound to three GPUs")
	}
	extra := pods[without]
	s.waitPhase("g", v1alpha1.PodGangPhaseRunning)
	s.unschedulable([]string{extra})
	s.holdsNothing(extra)
	s.node("fourth", gpus(1, "NVIDIA L40S"))
	s.bound(extra)
	if phases := s.phases("g"); phases[len(phases)-1] != v1alpha1.PodGangPhaseRunning {
		t.Errorf("phases %q", phases)
	}
}

// Two groups with extras on room for the two floors alone.
func TestFloorsOfAllGroupsComeBeforeExtras(t *testing.T) {
	s := shared(t)
	prefill, decode := names("prefill", 4), names("decode", 4)
	s.gang("g", group("prefill", 1, prefill...), group("decode", 1, decode...))
	for _, name := range append(prefill, decode...) {
		s.pod(name, of("g"), gpu)
	}
	s.oneOfEachBound(prefill, decode)
	s.waitPhase("g", v1alpha1.PodGangPhaseRunning)
}

func TestGangThatIsNotInitializedWaits(t *testing.T) {
	s := shared(t)
	pods := names("svc", 2)
	s.gang("svc", group("w", 2, pods...))
	s.setInitialized("svc", false)
	s.members("svc", 2, gpu)
	s.waits(pods, "Initialized")
	s.tells("svc", "Initialized")
	s.holdsNothing(pods...)
	s.gpusUsable(2)
	s.setInitialized("svc", true)
	s.bound(pods...)
	s.waitPhase("svc", v1alpha1.PodGangPhaseRunning)
}

// As Grove's operator makes a gang: pods with a gate, a PodGang without references. The
// three things that are then still to come may come in any order.
func TestGangFromZeroInEveryOrder(t *testing.T) {
	pods := names("g", 2)
	steps := map[string]func(*scenario){
		"references": func(s *scenario) {
			s.setReferences("g", pods[0])
			s.setReferences("g", pods...)
		},
		"initialized": func(s *scenario) { s.setInitialized("g", true) },
		"gates":       func(s *scenario) { s.ungate(pods...) },
	}
	for _, order := range [][]string{
		{"references", "initialized", "gates"}, {"references", "gates", "initialized"},
		{"initialized", "references", "gates"}, {"initialized", "gates", "references"},
		{"gates", "references", "initialized"}, {"gates", "initialized", "references"},
	} {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			s := shared(t)
			s.gang("g", group("w", 2))
			s.setInitialized("g", false)
			s.members("g", 2, gpu, gated)
			for _, step := range order {
				s.holdsNothing(pods...)
				steps[step](s)
			}
			s.bound(pods...)
		})
	}
}

// Gates fall one by one, and the references with them.
func TestGangWhoseMembersAreReleasedOneByOne(t *testing.T) {
	s := shared(t)
	pods := names("svc", 3)
	s.gang("svc", group("w", 3))
	s.members("svc", 3, cpu("1"), gated)
	for i := range pods {
		s.holdsNothing(pods...)
		s.setReferences("svc", pods[:i+1]...)
		s.holdsNothing(pods...)
		s.ungate(pods[i])
	}
	s.bound(pods...)
}
