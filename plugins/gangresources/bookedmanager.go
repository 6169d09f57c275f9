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
		c.book.addContested(allocated)
	}
	return allocated, err
}

func (c bookedClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	state, err := c.ResourceClaimTracker.GatherAllocatedState()
	if err == nil && state != nil {
		c.book.addContested(state.AllocatedDevices)
	}
	return state, err
}
