// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"errors"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// allocated returns claim c, allocated and reserved for pods.
func allocated(pods ...string) *resourceapi.ResourceClaim {
	claim := makeClaim("c")
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
		{"for the pod", allocated("waits"), true, "", 0},
		{"for nobody", allocated(), true, "", 0},
		{"for the pod and another", allocated("other", "waits"), true, "n1/gpu-0", 1},
		{"for another", allocated("other"), false, "n1/gpu-0", 1},
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

// The claim has been cleared already, and the watch does not show it yet.
func TestReclaimKnowsWhatTheAPIHas(t *testing.T) {
	pod := makePod("waits", "c")
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), allocated("waits"), pod)...)
	f.client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		cleared := makeClaim("c")
		cleared.ResourceVersion = "1000"
		return true, cleared, nil
	})
	noError(t, f.plugin.Reclaim(f.ctx, pod))
	if f.plugin.HoldsAllocation(pod) {
		t.Error("the cache has the claim as allocated")
	}
}

// The claim is gone, and the watch does not show it yet: nobody is told that its device
// is free until it does.
func TestReclaimWaitsUntilTheCacheKnowsThatAClaimIsGone(t *testing.T) {
	pod := makePod("waits", "c")
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), allocated("waits"), pod)...)
	asked := make(chan struct{}, 1)
	f.client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked <- struct{}{}
		return true, nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), "c")
	})
	done := make(chan error, 1)
	go func() { done <- f.plugin.Reclaim(f.ctx, pod) }()
	<-asked
	noError(t, f.client.Tracker().Delete(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), namespace, "c"))
	noError(t, <-done)
	if claim, err := f.plugin.manager.ResourceClaims().Get(namespace, "c"); err == nil {
		t.Errorf("Reclaim has ended, and the cache has %v", claim.Status)
	}
}

// loseAnswer has the fake API server carry out the next write of a claim's status and
// lose its answer. The watch does not show what was written.
func loseAnswer(f *fixture) {
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
		return written != nil, written.DeepCopy(), nil
	})
}

// The devices of a pod that is placed alone stay taken when its allocation was written,
// the answer was lost, and the watch lags.
func TestDevicesStayTakenWhenTheAnswerToTheirAllocationIsLost(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("a"), makeClaim("b"))...)
	pod := makePod("a", "a")
	state := f.cycle(pod)
	loseAnswer(f)
	if status := f.plugin.PreBind(f.ctx, state, pod, "n1"); status.IsSuccess() {
		t.Fatal("PreBind has succeeded, although its write has failed")
	}
	f.plugin.Unreserve(f.ctx, state, pod, "n1")
	f.refuse(f.session(), makePod("b", "b"), "n1")
}

// A pod placed alone has two claims. One is allocated, the write of the other fails, and
// so does giving the first back: its device stays taken.
func TestDevicesStayTakenWhenAnotherClaimOfThePodFails(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 2}), makeClaim("a1"), makeClaim("a2"), makeClaim("b1"), makeClaim("b2"))...)
	pod, other := makePod("a", "a1", "a2"), makePod("b", "b1", "b2")
	state := f.cycle(pod)
	fail := func(action clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") }
	f.client.PrependReactor("patch", "resourceclaims", fail)
	f.client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if claim := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim); claim.Name == "a2" {
			return fail(action)
		}
		return false, nil, nil
	})
	if status := f.plugin.PreBind(f.ctx, state, pod, "n1"); status.IsSuccess() {
		t.Fatal("PreBind has succeeded, although a write has failed")
	}
	f.plugin.Unreserve(f.ctx, state, pod, "n1")
	if devicesOf(f.claim("a1")) == "" {
		t.Fatal("claim a1 is not allocated, and the test tests nothing")
	}
	f.refuse(f.session(), other, "n1")
}

// A pod placed alone was prepared and not bound, and is taken out of the users of its
// claim. The next attempt makes it one again, before the watch shows that it is none.
func TestNextAttemptReservesTheClaimAgain(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("a"))...)
	pod := makePod("a", "a")
	var patched *resourceapi.ResourceClaim // which the watch does not show
	f.client.PrependReactor("patch", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		stored, err := f.client.Tracker().Get(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), namespace, "a")
		noError(t, err)
		patched = stored.(*resourceapi.ResourceClaim).DeepCopy()
		patched.ResourceVersion = "1000"
		patched.Status.ReservedFor = nil
		return true, patched, nil
	})
	f.client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return patched != nil, patched.DeepCopy(), nil
	})
	state := f.cycle(pod)
	noError(t, f.plugin.PreBind(f.ctx, state, pod, "n1").AsError())
	f.plugin.Unreserve(f.ctx, state, pod, "n1")
	if patched == nil {
		t.Fatal("the pod was not taken out of the users, and the test tests nothing")
	}
	known, err := f.plugin.manager.ResourceClaims().Get(namespace, "a")
	noError(t, err)
	if len(known.Status.ReservedFor) != 0 {
		t.Errorf("the cache has the claim reserved for %v", known.Status.ReservedFor)
	}
}
