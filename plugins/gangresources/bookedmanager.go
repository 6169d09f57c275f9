// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// bookedHandle is a handle whose DRA manager knows contested devices. The in-tree
// plugin names its pod index after the profile; ours must not collide with that of
// a DynamicResources that is enabled by mistake, so that the mistake is reported as
// what it is.
type bookedHandle struct {
	fwk.Handle
	manager fwk.SharedDRAManager
}

func (h bookedHandle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }
func (h bookedHandle) ProfileName() string                    { return h.Handle.ProfileName() + "-gang" }

// bookedManager is the scheduler's DRA manager, with the devices that the book
// knows to be held among the allocated ones.
type bookedManager struct {
	fwk.SharedDRAManager
	book *deviceBook
}

func (m bookedManager) ResourceClaims() fwk.ResourceClaimTracker {
	return bookedClaims{ResourceClaimTracker: m.SharedDRAManager.ResourceClaims(), book: m.book}
}

type bookedClaims struct {
	fwk.ResourceClaimTracker
	book *deviceBook
}

func (c bookedClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	allocated, err := c.ResourceClaimTracker.ListAllAllocatedDevices()
	if err == nil {
		c.addContested(allocated)
	}
	return allocated, err
}

func (c bookedClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	state, err := c.ResourceClaimTracker.GatherAllocatedState()
	if err == nil && state != nil {
		c.addContested(state.AllocatedDevices)
	}
	return state, err
}

// AssumedClaimRestore does nothing. What is assumed of a claim is what the API server
// has answered to a write, and as true as what the watch shows later. The assume cache
// (v1.37.2) would return to the version before it, for good, and take allocated devices
// for free: it skips the watch's event of a version that it knows.
func (c bookedClaims) AssumedClaimRestore(string, string) {}

// addContested adds the contested devices that a claim still holds. The in-tree
// tracker (v1.37.2) keeps a set and not a count: when one of two claims gives a
// device back, it takes the device for free although the other holds it.
//
// Whether a claim still holds its device is asked of the tracker and not of the
// book, which may hear of a change later than the scheduling queue: a gang that is
// woken by the end of a claim must find its device free.
func (c bookedClaims) addContested(allocated sets.Set[structured.DeviceID]) {
	for id, holders := range c.book.contestedHolders() {
		for _, holder := range holders {
			current, err := c.Get(holder.Namespace, holder.Name)
			if err == nil && current.UID == holder.UID && holds(current, id) {
				allocated.Insert(id)
				break
			}
		}
	}
}
