// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"errors"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
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

// lostAnswer has the fake API server carry out the next write of a claim's status and
// lose its answer. asked is closed when the claim is read after that; deliver has the
// watch show what was written, which it has not before.
func lostAnswer(f *fixture) (asked <-chan struct{}, deliver func()) {
	read := make(chan struct{})
	var written *resourceapi.ResourceClaim
	f.client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "status" {
			return false, nil, nil
		}
		written = action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim).DeepCopy()
		written.ResourceVersion = "1000"
		return true, nil, errors.New("stream error")
	})
	f.client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		if written == nil {
			return false, nil, nil
		}
		select {
		case <-read:
		default:
			close(read)
		}
		return true, written.DeepCopy(), nil
	})
	return read, func() {
		noError(f.t, f.client.Tracker().Update(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), written, namespace))
	}
}

// The devices of a pod that is placed alone stay taken when its allocation was written
// and the answer was lost: first as in flight, then as the watch shows them.
func TestDevicesStayTakenWhenTheAnswerToTheirAllocationIsLost(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("a"), makeClaim("b"))...)
	pod, other := makePod("a", "a"), makePod("b", "b")
	state := f.cycle(pod)
	asked, deliver := lostAnswer(f)
	done := make(chan *fwk.Status, 1)
	go func() { done <- f.plugin.PreBind(f.ctx, state, pod, "n1") }()
	select {
	case <-asked:
	case status := <-done:
		t.Fatalf("PreBind has ended with %v, and has not asked whether the claim is allocated", status)
	case <-time.After(time.Minute):
		t.Fatal("PreBind hangs")
	}
	f.refuse(f.session(), other, "n1")
	deliver()
	if status := <-done; status.IsSuccess() {
		t.Fatal("PreBind has succeeded, although its write has failed")
	}
	f.plugin.Unreserve(f.ctx, state, pod, "n1")
	f.refuse(f.session(), other, "n1")
}
