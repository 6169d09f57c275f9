// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// The main job: one of two GPUs is taken, and a service of three needs two.
func TestGangIsHeldWholeAndThenBoundWhole(t *testing.T) {
	s := shared(t)
	s.takeGPU("solo")
	pods := []string{"frontend-0", "prefill-0", "decode-0"}
	s.gang("svc", group("frontend", 1, pods[0]), group("prefill", 1, pods[1]), group("decode", 1, pods[2]))
	s.pod(pods[0], of("svc"), cpu("100m"))
	s.pod(pods[1], of("svc"), gpu)
	s.pod(pods[2], of("svc"), gpu)

	s.unschedulable(pods, gpuClass)
	s.tells("svc", "Unschedulable", gpuClass)
	s.holdsNothing(pods...)
	s.waitPhase("svc", v1alpha1.PodGangPhasePending)

	s.deletePods("solo")
	s.bound(pods...)
	s.waitPhase("svc", v1alpha1.PodGangPhaseRunning)
	s.tells("svc", "GangScheduled")
}

// The test plays the kubelet, so that binding and running are two moments.
func TestPhaseFollowsTheGangAndLeavesTheRestOfTheStatusAlone(t *testing.T) {
	s := shared(t)
	s.unattendedNode("slow")
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	others := []metav1.Condition{
		{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPodsCreated, LastTransitionTime: metav1.Now()},
		{Type: "example.com/Audited", Status: metav1.ConditionFalse, Reason: "NotYet", Message: "not ours", LastTransitionTime: metav1.Now()},
	}
	s.patchGangStatus("g", map[string]any{
		"phase": v1alpha1.PodGangPhasePending, "conditions": others, "lastScheduled": "2026-01-02T03:04:05Z", "lastReady": "2026-01-02T03:04:06Z",
	})
	s.members("g", 2, inRoom(s.ns))
	s.bound(pods...)
	s.waitPhase("g", v1alpha1.PodGangPhaseStarting)
	s.setPodPhase(pods[0], corev1.PodRunning)
	s.marker()
	if phase := s.getGang("g").Status.Phase; phase != v1alpha1.PodGangPhaseStarting {
		t.Errorf("with 1 of 2 pods running the phase is %s", phase)
	}
	s.setPodPhase(pods[1], corev1.PodRunning)
	s.waitPhase("g", v1alpha1.PodGangPhaseRunning)

	want := []v1alpha1.PodGangPhase{"", v1alpha1.PodGangPhasePending, v1alpha1.PodGangPhaseStarting, v1alpha1.PodGangPhaseRunning}
	if got := s.phases("g"); !slices.Equal(got, want) {
		t.Errorf("phases %q, want %q", got, want)
	}
	status := s.getGang("g").Status
	for _, want := range others {
		got := meta.FindStatusCondition(status.Conditions, want.Type)
		if got == nil || got.Status != want.Status || got.Reason != want.Reason || got.Message != want.Message {
			t.Errorf("condition %s is %v, want %v", want.Type, got, want)
		}
	}
	if status.LastScheduled == nil || status.LastScheduled.UTC().Format("15:04:05") != "03:04:05" || status.LastReady == nil {
		t.Errorf("lastScheduled and lastReady are %v and %v", status.LastScheduled, status.LastReady)
	}
	// Grove's operator resets the phase when it writes Initialized again.
	s.setInitialized("g", true)
	s.waitPhase("g", v1alpha1.PodGangPhaseRunning)
}

func TestGangThatNeedsMoreThanThereIsLeavesTheDevicesToOthers(t *testing.T) {
	s := shared(t)
	big := names("big", 3)
	s.gang("big", group("w", 3, big...))
	s.members("big", 3, gpu)
	s.unschedulable(big, "3 pods", "room for 2")

	small := names("small", 2)
	s.gang("small", group("w", 2, small...))
	s.members("small", 2, gpu)
	s.bound(small...)
	s.holdsNothing(big...)
	s.deletePods(small...)
	// What has come free is still not enough.
	s.gpusUsable(2)
	s.holdsNothing(big...)
	s.node("third", gpus(1, "NVIDIA L40S"))
	s.bound(big...)
}

func TestTwoGangsThatDoNotFitTogether(t *testing.T) {
	a, b := names("a", 2), names("b", 2)
	for _, tc := range []struct {
		name   string
		create func(s *scenario)
	}{
		{"one after the other", func(s *scenario) {
			s.gang("a", group("w", 2, a...))
			s.members("a", 2, gpu)
			s.gang("b", group("w", 2, b...))
			s.members("b", 2, gpu)
		}},
		{"pod by pod", func(s *scenario) {
			s.gang("a", group("w", 2, a...))
			s.gang("b", group("w", 2, b...))
			for i := range a {
				s.pod(a[i], of("a"), gpu)
				s.pod(b[i], of("b"), gpu)
			}
		}},
		{"pods before the gangs", func(s *scenario) {
			for i := range a {
				s.pod(a[i], of("a"), gpu)
				s.pod(b[i], of("b"), gpu)
			}
			s.gang("a", group("w", 2, a...))
			s.gang("b", group("w", 2, b...))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			tc.create(s)
			first, second := a, b
			s.until("one of the gangs is bound", func() string {
				if s.boundCount(b...) == 2 {
					first, second = b, a
					return ""
				}
				if s.boundCount(a...) == 2 {
					return ""
				}
				return s.describe(a[0]) + "; " + s.describe(b[0])
			})
			s.unschedulable(second)
			s.holdsNothing(second...)
			s.deletePods(first...)
			s.bound(second...)
		})
	}
}

// Room for five. All pods of the group with extras come first.
func TestExtrasLeaveRoomForTheFloorsOfOtherGroups(t *testing.T) {
	s := shared(t)
	s.node("a", allocatable(corev1.ResourceCPU, "5"))
	many, few := names("many", 10), names("few", 2)
	for _, name := range append(slices.Clone(many), few...) {
		s.pod(name, of("g"), inRoom(s.ns), cpu("1"))
	}
	s.gang("g", group("a", 3, many...), group("b", 2, few...))
	s.bound(few...)
	s.boundOf(3, many...)
	s.waitPhase("g", v1alpha1.PodGangPhaseRunning)
}

// Members of a service that need no device go with those that do.
func TestMembersWithoutDevicesWaitForThoseWithDevices(t *testing.T) {
	s := shared(t)
	s.plainPods([]string{"solo-0", "solo-1"}, gpu)
	s.gang("g", group("front", 3, names("front", 3)...), group("worker", 1, "worker"))
	pods := append(names("front", 3), "worker")
	for _, name := range names("front", 3) {
		s.pod(name, of("g"), cpu("1"))
	}
	s.pod("worker", of("g"), gpu)
	s.unschedulable(pods, "group worker")
	s.holdsNothing(pods...)
	s.deletePods("solo-1")
	s.bound(pods...)
}

// CPU alone: two nodes with 32 each.
func TestGangOfPodsWithoutDevices(t *testing.T) {
	s := shared(t)
	s.plainPods([]string{"solo"}, cpu("20"))
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, cpu("20"))
	s.unschedulable(pods, "cpu")
	s.holdsNothing(pods...)
	s.deletePods("solo")
	s.bound(pods...)
}
