// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// The tests here have the scheduler learn of a change late, or never.

// The gang grows while the scheduler knows its old floor: the new pods are not placed by
// the old one.
func TestPodsComeBeforeTheGrowthOfTheirGangIsSeen(t *testing.T) {
	s := newScenario(t, gatedLab)
	node := s.node("a", limitedCPU("7"))
	pods := names("g", 8)
	old, fresh := pods[:2], pods[2:]
	s.gang("g", group("a", 2, old...))
	for _, name := range old {
		s.pod(name, of("g"), inRoom(s.ns), cpu("1"))
	}
	s.bound(old...)
	late := s.delay(watchOf("podgangs"))
	s.editGang("g", func(spec *v1alpha1.PodGangSpec) { spec.PodGroups[0] = group("a", 8, pods...) })
	s.waitMet(late, 1)
	for _, name := range fresh {
		s.pod(name, of("g"), inRoom(s.ns), cpu("1"))
	}
	s.waits(fresh, "not listed")
	s.holdsNothing(fresh...)
	late.release()
	s.unschedulable(fresh, "group a needs 6 pods", "room for 5")
	s.holdsNothing(fresh...)
	s.setAllocatable(node, corev1.ResourceCPU, "8")
	s.bound(pods...)
}

// The gang and its pods are replaced by others. The scheduler sees the new pods first,
// and then that the old gang is gone and a new one of its name is there.
func TestNewPodsComeBeforeTheirGangIsSeenToBeReplaced(t *testing.T) {
	for _, tc := range []struct {
		name string
		// prefix is that of the new pods' names.
		prefix string
		// bound says that the old gang was bound, not waiting.
		bound bool
	}{
		{"a bound gang, pods of other names", "h", true},
		{"a bound gang, pods of the same names", "g", true},
		{"a gang that waits, pods of other names", "h", false},
		{"a gang that waits, pods of the same names", "g", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, gatedLab)
			// kwok ends a pod by its name, which may be that of the next by then.
			s.slotsOn(s.unattendedNode, 2, 1)
			old, fresh := names("g", 2), names(tc.prefix, 2)
			s.takeSlot("solo")
			s.gang("g", group("w", 2, old...))
			s.members("g", 2, devices(1))
			s.unschedulable(old, "room for 1")
			if tc.bound {
				s.deletePods("solo")
				s.bound(old...)
			}
			late := s.delay(watchOf("podgangs"))
			s.deleteGang("g")
			s.gang("g", group("w", 2, fresh...))
			s.waitMet(late, 1)
			s.deletePods(old...)
			for _, name := range fresh {
				s.pod(name, of("g"), devices(1))
			}
			if tc.prefix == "h" { // of which the old gang knows nothing
				s.waits(fresh, "not listed")
				s.holdsNothing(fresh...)
			}
			late.release()
			if !tc.bound {
				s.unschedulable(fresh, "room for 1")
				s.holdsNothing(fresh...)
				s.deletePods("solo")
			}
			s.bound(fresh...)
			s.waitPhase("g", v1alpha1.PodGangPhaseStarting)
			// The late delete has taken nothing of the new gang with it.
			s.deletePods(fresh[0])
			s.pod(fresh[0], of("g"), devices(1))
			s.bound(fresh...)
		})
	}
}

// takeSlot has a plain pod take one device of the scenario's own driver.
func (s *scenario) takeSlot(name string) {
	s.t.Helper()
	s.plainPods([]string{name}, devices(1))
}

// A claim has the last device. The scheduler misses that it gives the device back, and
// hears only that the claim is gone.
func TestClaimIsDeletedAndItsDeallocationWasMissed(t *testing.T) {
	s := newScenario(t, gatedLab)
	node := s.slots(1, 1)[0]
	s.claim("holder", claimSpec(request("devices", s.ownDriver(), 1)))
	s.allocateTo("holder", &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "devices", Driver: s.ownDriver(), Pool: node, Device: "d-0"}},
	}})
	pods := s.gangOfOne("g")
	s.unschedulable(pods, "0 of 1 "+s.ownDriver()+" free")
	missed := s.lose(watchOf("resourceclaims"), changesOf("holder"))
	s.allocateTo("holder", nil)
	s.waitMet(missed, 1)
	s.holdsNothing(pods...)
	deleted := time.Now()
	s.must(s.client().ResourceV1().ResourceClaims(s.ns).Delete(s.ctx, "holder", metav1.DeleteOptions{}))
	s.bound(pods...)
	if took := s.boundAt(pods...).Sub(deleted); took > atOnce {
		t.Errorf("the pod was bound %v after the delete, want %v at most", took, atOnce)
	}
}

// gangOfOne creates a gang of one pod with one device of the scenario's own driver.
func (s *scenario) gangOfOne(name string) []string {
	s.t.Helper()
	pods := names(name, 1)
	s.gang(name, group("w", 1, pods...))
	return s.members(name, 1, devices(1))
}

// allocateTo writes a claim's allocation, or takes it away. No pod uses the claim.
func (s *scenario) allocateTo(claim string, allocation *resourcev1.AllocationResult) {
	s.t.Helper()
	claims := s.client().ResourceV1().ResourceClaims(s.ns)
	s.retryConflict(func() error {
		c, err := claims.Get(s.ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Status.Allocation = allocation
		c, err = claims.UpdateStatus(s.ctx, c, metav1.UpdateOptions{})
		if err == nil {
			s.seen(c)
		}
		return err
	})
}
