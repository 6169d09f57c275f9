// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// allocated returns a claim that is allocated and reserved for pods.
func allocated(name string, pods ...string) *resourceapi.ResourceClaim {
	claim := makeClaim(name)
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: "n1", Device: "gpu-0"}},
	}}
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID("uid-" + pod)})
	}
	return claim
}

// What a pod holds is what Reclaim takes from it: otherwise one that is asked to give
// something back would be asked again without end.
func TestReclaimClearsWhatIsHeld(t *testing.T) {
	for _, tc := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
		holds bool
		// devices and users are what the claim has afterwards.
		devices string
		users   int
	}{
		{"not allocated", makeClaim("c"), false, "", 0},
		{"for the pod", allocated("c", "waits"), true, "", 0},
		{"for nobody", allocated("c"), true, "", 0},
		{"for the pod and another", allocated("c", "other", "waits"), true, "n1/gpu-0", 1},
		{"for another", allocated("c", "other"), false, "n1/gpu-0", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := makePod("waits", "c")
			f := newFixture(t, append(cluster(map[string]int{"n1": 1}), tc.claim, pod)...)
			if got := f.plugin.HoldsAllocation(pod); got != tc.holds {
				t.Errorf("before, HoldsAllocation is %t", got)
			}
			noError(t, f.plugin.Reclaim(f.ctx, pod))
			claim := f.claim("c")
			if devicesOf(claim) != tc.devices || len(claim.Status.ReservedFor) != tc.users {
				t.Errorf("the claim has %q for %d users, want %q for %d", devicesOf(claim), len(claim.Status.ReservedFor), tc.devices, tc.users)
			}
			if f.plugin.HoldsAllocation(pod) {
				t.Error("the pod still holds something")
			}
		})
	}
}
