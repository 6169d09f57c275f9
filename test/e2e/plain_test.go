// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// priorityClass creates a PriorityClass above the priority of other pods, and returns its
// name.
func (s *scenario) priorityClass(name string) string {
	s.t.Helper()
	name = s.ns + "-" + name
	s.pclasses = append(s.pclasses, name)
	_, err := s.client().SchedulingV1().PriorityClasses().Create(s.ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000,
	}, metav1.CreateOptions{})
	s.must(err)
	// Admission of pods knows the class a little later.
	s.until("a pod can have priority class "+name, func() string {
		_, err := s.client().CoreV1().Pods(s.ns).Create(s.ctx, newPod("probe", priority(name)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return name
}

func TestPodInNoGang(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []podOption
	}{
		{"without claims", nil},
		{"with a claim from a template", []podOption{gpu}},
		{"with a claim by name", []podOption{claim("mine")}},
		{"with an extended resource served by DRA", []podOption{extendedGPU}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			s.claim("mine", claimSpec(request("gpu", gpuClass, 1)))
			s.plainPods([]string{"plain"}, tc.opts...)
			pod := s.getPod("plain")
			for _, c := range s.claimsOf(pod) {
				if c.Status.Allocation == nil || !reservedFor(c, pod) {
					t.Errorf("claim %s of the bound pod is not allocated and reserved for it", c.Name)
				}
			}
		})
	}
	t.Run("waits when there is no device", func(t *testing.T) {
		s := shared(t)
		s.plainPods(names("first", 2), gpu)
		s.pod("second", gpu)
		s.unschedulable([]string{"second"}, "cannot allocate all claims")
		s.holdsNothing("second")
		s.deletePods("first-1")
		s.bound("second")
	})
}

// Both are in the queue when the scheduler begins: of pods that have been tried, the queue
// takes those first whose back-off ends earlier, whatever their priority is.
func TestPodsInNoGangGoByPriority(t *testing.T) {
	s := newScenario(t, gatedLab)
	high := s.priorityClass("high")
	s.plainPods(names("first", 2), gpu)
	s.kill()
	held := s.claimsOf(s.getPod("first-0"))[0]
	s.deletePods("first-0")
	s.pod("low", gpu)
	s.pod("high", gpu, priority(high))
	s.until("a device is free, and both have claims", func() string {
		if get[*resourcev1.ResourceClaim](s.c.history, s.ns, held.Name) != nil {
			return "the claim of first-0 is there"
		}
		for _, name := range []string{"low", "high"} {
			if len(s.claimsOf(s.getPod(name))) == 0 {
				return name + " has no claim"
			}
		}
		return ""
	})
	s.restart()
	s.bound("high")
	s.holdsNothing("low")
	s.deletePods("first-1")
	s.bound("low")
}

func TestPodInNoGangPreempts(t *testing.T) {
	s := shared(t)
	high := s.priorityClass("high")
	s.node("n", allocatable(corev1.ResourceCPU, "2"))
	s.plainPods(names("low", 2), inRoom(s.ns), cpu("1"))
	s.pod("high", inRoom(s.ns), cpu("1"), priority(high))
	s.bound("high")
	left := 0
	for _, name := range names("low", 2) {
		if s.getPod(name) != nil {
			left++
		}
	}
	if left != 1 {
		t.Errorf("%d of 2 pods of lower priority are left, want 1", left)
	}
}

// Evicting for one member would be of no use to the gang.
func TestMemberOfAGangDoesNotPreempt(t *testing.T) {
	s := shared(t)
	high := s.priorityClass("high")
	s.node("n", allocatable(corev1.ResourceCPU, "2"))
	s.plainPods(names("low", 2), inRoom(s.ns), cpu("1"))
	pods := names("g", 2)
	s.gangWith("g", func(pg *v1alpha1.PodGang) { pg.Spec.PriorityClassName = high }, group("w", 2, pods...))
	s.members("g", 2, inRoom(s.ns), cpu("1"), priority(high))
	s.unschedulable(pods, "group w")
	s.holdsNothing(pods...)
	// Nor does one that joins a bound gang.
	s.gang("one", group("w", 1, names("one", 2)...))
	s.pod("one-0", of("one"))
	s.bound("one-0")
	s.pod("one-1", of("one"), inRoom(s.ns), cpu("1"), priority(high))
	s.unschedulable([]string{"one-1"})
	s.holdsNothing("one-1")
	for _, name := range names("low", 2) {
		if s.getPod(name) == nil {
			t.Errorf("pod %s was evicted", name)
		}
	}
	for _, name := range append(pods, "one-1") {
		if nominated := s.getPod(name).Status.NominatedNodeName; nominated != "" {
			t.Errorf("pod %s is nominated for node %s", name, nominated)
		}
	}
	s.deletePods("low-0")
	s.bound("one-1")
	s.deletePods("low-1", "one-1")
	s.bound(pods...)
}

// The priority of a gang is that of its class, whatever its pods say.
func TestGangOfHigherPriorityGoesFirst(t *testing.T) {
	s := shared(t)
	class := s.priorityClass("prior")
	s.takeGPU("solo")
	low, prior := names("low", 2), names("prior", 2)
	s.gang("low", group("w", 2, low...))
	s.members("low", 2, gpu)
	s.unschedulable(low)
	s.gangWith("prior", func(pg *v1alpha1.PodGang) { pg.Spec.PriorityClassName = class }, group("w", 2, prior...))
	s.members("prior", 2, gpu)
	s.unschedulable(prior)
	s.deletePods("solo")
	s.bound(prior...)
	s.holdsNothing(low...)
	s.deletePods(prior...)
	s.bound(low...)
}

// A stream of pods in no gang goes on beside a gang that waits.
func TestPodsInNoGangGoOnBesideAWaitingGang(t *testing.T) {
	s := shared(t)
	pods := names("g", 3)
	s.gang("g", group("w", 3, pods...))
	s.members("g", 3, gpu)
	s.unschedulable(pods)
	for range 3 {
		s.plainPods(names("plain", 2), gpu)
		s.deletePods(names("plain", 2)...)
	}
	s.holdsNothing(pods...)
}
