// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"math"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"
)

// counterID names a counter. The names of counter sets are unique in their pool.
type counterID struct {
	pool         poolID
	set, counter string
}

// counters holds what there is, or what is left, of each counter.
type counters map[counterID]resource.Quantity

// countersOf returns the counters that the newest generation of each pool has in
// full. Slices of one pool, and pools, may be mixed.
func countersOf(world []*resourceapi.ResourceSlice) counters {
	newest := make(map[poolID]int64)
	for _, slice := range world {
		id := poolOf(slice)
		newest[id] = max(newest[id], slice.Spec.Pool.Generation)
	}
	full := make(counters)
	for _, slice := range world {
		id := poolOf(slice)
		if slice.Spec.Pool.Generation != newest[id] {
			continue
		}
		for i := range slice.Spec.SharedCounters {
			set := &slice.Spec.SharedCounters[i]
			for name, counter := range set.Counters {
				full[counterID{pool: id, set: set.Name, counter: name}] = counter.Value
			}
		}
	}
	return full
}

// each visits what a device consumes. The device is one of the pool.
func (c counters) each(pool poolID, device *resourceapi.Device, visit func(id counterID, value resource.Quantity)) {
	for i := range device.ConsumesCounters {
		consumed := &device.ConsumesCounters[i]
		for name, counter := range consumed.Counters {
			visit(counterID{pool: pool, set: consumed.CounterSet, counter: name}, counter.Value)
		}
	}
}

// consumes reports whether a taken device of the slice consumes counters.
func consumes(slice *resourceapi.ResourceSlice, ledger *Ledger) bool {
	for i := range slice.Spec.Devices {
		if len(slice.Spec.Devices[i].ConsumesCounters) > 0 && ledger.Taken(deviceIn(slice, i)) {
			return true
		}
	}
	return false
}

// take subtracts what the taken devices of a slice consume.
func (c counters) take(slice *resourceapi.ResourceSlice, ledger *Ledger) {
	for i := range slice.Spec.Devices {
		if !ledger.Taken(deviceIn(slice, i)) {
			continue
		}
		c.each(poolOf(slice), &slice.Spec.Devices[i], func(id counterID, value resource.Quantity) {
			left := c[id].DeepCopy()
			left.Sub(value)
			c[id] = left
		})
	}
}

// suffice reports whether enough is left for a device.
func (c counters) suffice(pool poolID, device *resourceapi.Device) bool {
	enough := true
	c.each(pool, device, func(id counterID, value resource.Quantity) {
		left, known := c[id]
		enough = enough && known && left.Cmp(value) >= 0
	})
	return enough
}

// counterShares returns how much of its counter sets each device consumes that
// consumes any: the mean over the counters of a set, summed over the sets. 1 is
// all of one set. Figures that differ by less than a millionth are equal.
func counterShares(world []*resourceapi.ResourceSlice) map[structured.DeviceID]float64 {
	full := countersOf(world)
	type setID struct {
		pool poolID
		set  string
	}
	sizes := make(map[setID]int)
	for id := range full {
		sizes[setID{id.pool, id.set}]++
	}
	shares := make(map[structured.DeviceID]float64)
	for _, slice := range world {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			share := 0.0
			full.each(poolOf(slice), device, func(id counterID, value resource.Quantity) {
				if all := full[id]; !all.IsZero() {
					share += value.AsApproximateFloat64() / all.AsApproximateFloat64() / float64(sizes[setID{id.pool, id.set}])
				}
			})
			if len(device.ConsumesCounters) > 0 {
				shares[deviceIn(slice, i)] = math.Round(share*1e6) / 1e6
			}
		}
	}
	return shares
}

func poolOf(slice *resourceapi.ResourceSlice) poolID {
	return poolID{driver: slice.Spec.Driver, pool: slice.Spec.Pool.Name}
}
