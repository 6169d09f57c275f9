// SPDX-License-Identifier: Apache-2.0

package devices

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// Ledger is the allocated state that one plan works on: what the cluster had
// allocated when the plan began, and what the plan has taken since.
//
// It belongs to one goroutine.
type Ledger struct {
	state *structured.AllocatedState
	// sharing tells whether one device may serve several claims (consumable
	// capacity). Without it a device with a share ID counts as taken whole.
	sharing bool
	// shares counts the shares of each device that are allocated.
	shares map[structured.DeviceID]int
	// version counts the changes.
	version int
}

// NewLedger returns a ledger that starts from the given state and owns it from
// now on.
func NewLedger(state *structured.AllocatedState, sharing bool) *Ledger {
	l := &Ledger{state: state, sharing: sharing, shares: make(map[structured.DeviceID]int)}
	for id := range state.AllocatedSharedDeviceIDs {
		l.shares[id.GetDeviceID()]++
	}
	return l
}

// State is the current allocated state. The caller must not change it, and it
// changes with the next Take or Release.
func (l *Ledger) State() *structured.AllocatedState {
	return l.state
}

// Version changes whenever what is allocated does.
func (l *Ledger) Version() int { return l.version }

// Taken reports whether the whole device, a share or capacity of it, is allocated.
func (l *Ledger) Taken(id structured.DeviceID) bool {
	if l.state.AllocatedDevices.Has(id) || l.shares[id] > 0 {
		return true
	}
	_, consumed := l.state.AggregatedCapacity[id]
	return consumed
}

// Take adds the devices of an allocation.
func (l *Ledger) Take(allocation *resourceapi.AllocationResult) {
	l.version++
	l.each(allocation,
		func(id structured.DeviceID) { l.state.AllocatedDevices.Insert(id) },
		func(id structured.SharedDeviceID) {
			l.state.AllocatedSharedDeviceIDs.Insert(id)
			l.shares[id.GetDeviceID()]++
		},
		func(capacity structured.DeviceConsumedCapacity) { l.state.AggregatedCapacity.Insert(capacity) })
}

// Release removes the devices of an allocation that Take has added before.
func (l *Ledger) Release(allocation *resourceapi.AllocationResult) {
	l.version++
	l.each(allocation,
		func(id structured.DeviceID) { l.state.AllocatedDevices.Delete(id) },
		func(id structured.SharedDeviceID) {
			l.state.AllocatedSharedDeviceIDs.Delete(id)
			l.shares[id.GetDeviceID()]--
		},
		func(capacity structured.DeviceConsumedCapacity) { l.state.AggregatedCapacity.Remove(capacity) })
}

// each visits what an allocation takes. Admin access takes nothing: the API
// grants it beside the owner of the device.
func (l *Ledger) each(
	allocation *resourceapi.AllocationResult,
	whole func(structured.DeviceID),
	share func(structured.SharedDeviceID),
	capacity func(structured.DeviceConsumedCapacity),
) {
	if allocation == nil {
		return
	}
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if !l.sharing || result.ShareID == nil {
			whole(id)
			continue
		}
		share(structured.MakeSharedDeviceID(id, result.ShareID))
		if result.ConsumedCapacity != nil {
			capacity(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
		}
	}
}
