// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"maps"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// Ledger is the allocated state that a plan works on: what the cluster had
// allocated when the plan began, and what the plan has taken since. One ledger serves
// one plan after the other.
//
// It belongs to one goroutine.
type Ledger struct {
	// state stays the same object, and so do its maps: an allocator keeps them for as
	// long as the pod that it has served is not bound, and there are thousands of those.
	state *structured.AllocatedState
	// sharing tells whether one device may serve several claims (consumable
	// capacity). Without it a device with a share ID counts as taken whole.
	sharing bool
	// shares counts the shares of each device that are allocated.
	shares map[structured.DeviceID]int
	// version counts the changes, and changed is the version of the last change to a
	// device of each pool, touched that of the last of all.
	version, touched int
	changed          map[poolKey]int
}

// poolKey names a pool as the allocator names its devices: keys are compared by address.
type poolKey struct {
	driver, pool api.UniqueString
}

func keyOf(id structured.DeviceID) poolKey {
	return poolKey{driver: id.Driver, pool: id.Pool}
}

// NewLedger returns a ledger in which nothing is allocated. Sharing tells whether one
// device may serve several claims.
func NewLedger(sharing bool) *Ledger {
	return &Ledger{
		state: &structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		},
		sharing: sharing,
		shares:  make(map[structured.DeviceID]int),
		changed: make(map[poolKey]int),
	}
}

// Start begins a plan: the ledger has what the state has, and owns the capacities in it
// from now on. What was taken for the plan before is forgotten.
func (l *Ledger) Start(state *structured.AllocatedState) {
	l.version++
	renew(l.state.AllocatedDevices, state.AllocatedDevices, l.touch)
	renew(l.state.AllocatedSharedDeviceIDs, state.AllocatedSharedDeviceIDs, func(id structured.SharedDeviceID) { l.touch(id.GetDeviceID()) })
	// Capacities are few, and not to be compared by key.
	for _, capacities := range []structured.ConsumedCapacityCollection{l.state.AggregatedCapacity, state.AggregatedCapacity} {
		for id := range capacities {
			l.touch(id)
		}
	}
	clear(l.state.AggregatedCapacity)
	maps.Copy(l.state.AggregatedCapacity, state.AggregatedCapacity)
	clear(l.shares)
	for id := range l.state.AllocatedSharedDeviceIDs {
		l.shares[id.GetDeviceID()]++
	}
}

// renew makes one set equal to another, and tells what differed.
func renew[K comparable](set, other sets.Set[K], differs func(K)) {
	for id := range set {
		if !other.Has(id) {
			set.Delete(id)
			differs(id)
		}
	}
	if len(set) == len(other) {
		return
	}
	for id := range other {
		if !set.Has(id) {
			set.Insert(id)
			differs(id)
		}
	}
}

// touch notes that something has changed about a device.
func (l *Ledger) touch(id structured.DeviceID) {
	l.changed[keyOf(id)] = l.version
	l.touched = l.version
}

// State is the current allocated state. The caller must not change it, and it
// changes with the next Take or Release.
func (l *Ledger) State() *structured.AllocatedState {
	return l.state
}

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
		l.touch(id)
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
