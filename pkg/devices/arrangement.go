// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"cmp"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Arrangement is a way to show the devices of a node to an allocator that takes
// the first that fit, in the order in which it sees them. The zero value shows
// them as they are published.
type Arrangement struct {
	// Hidden are the devices that are not shown. A device that is taken must not be
	// hidden: what it consumes of a counter would seem to be free.
	Hidden sets.Set[structured.DeviceID]
	// Rank orders the devices that a node has in a pool, the lowest first; those
	// without one have rank 0, and devices of equal rank stay in their order. Nil
	// leaves all as they are.
	Rank map[structured.DeviceID]float64
}

// Apply returns the world as arranged. The slices given are not changed; those in
// which nothing changes are returned as they are.
func (a Arrangement) Apply(world []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	if len(a.Hidden) == 0 && a.Rank == nil {
		return world
	}
	arranged := make([]*resourceapi.ResourceSlice, len(world))
	for i, slice := range world {
		arranged[i] = a.apply(slice)
	}
	if a.Rank != nil {
		a.orderPools(arranged)
	}
	return arranged
}

// orderPools orders devices beyond the slices that they are in: of the slices of one
// pool and node, the first that the allocator looks at get the first devices.
func (a Arrangement) orderPools(arranged []*resourceapi.ResourceSlice) {
	type part struct {
		pool       poolID
		node       string
		generation int64
	}
	parts := make(map[part][]*resourceapi.ResourceSlice)
	for _, slice := range arranged {
		if node := slice.Spec.NodeName; node != nil && len(slice.Spec.Devices) > 0 && len(slice.Spec.SharedCounters) == 0 {
			key := part{poolOf(slice), *node, slice.Spec.Pool.Generation}
			parts[key] = append(parts[key], slice)
		}
	}
	for _, part := range parts {
		if len(part) == 1 {
			continue
		}
		part = byName(part)
		var all []resourceapi.Device
		for _, slice := range part {
			all = append(all, slice.Spec.Devices...)
		}
		a.sort(part[0], all)
		for _, slice := range part {
			slice.Spec.Devices, all = all[:len(slice.Spec.Devices):len(slice.Spec.Devices)], all[len(slice.Spec.Devices):]
		}
	}
}

// sort sorts devices of the pool of a slice by rank.
func (a Arrangement) sort(slice *resourceapi.ResourceSlice, devices []resourceapi.Device) {
	rank := func(d resourceapi.Device) float64 {
		return a.Rank[structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)]
	}
	slices.SortStableFunc(devices, func(x, y resourceapi.Device) int { return cmp.Compare(rank(x), rank(y)) })
}

func (a Arrangement) apply(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	shown := make([]resourceapi.Device, 0, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		if !a.Hidden.Has(deviceIn(slice, i)) {
			shown = append(shown, slice.Spec.Devices[i])
		}
	}
	if a.Rank != nil {
		a.sort(slice, shown)
	}
	arranged := *slice
	arranged.Spec.Devices = shown
	return &arranged
}

// Exactly returns the arrangement that leaves only the given devices to choose
// from. What is taken stays in sight.
func Exactly(world []*resourceapi.ResourceSlice, ledger *Ledger, chosen sets.Set[structured.DeviceID]) Arrangement {
	hidden := sets.New[structured.DeviceID]()
	for _, slice := range world {
		for i := range slice.Spec.Devices {
			if id := deviceIn(slice, i); !chosen.Has(id) && !ledger.Taken(id) {
				hidden.Insert(id)
			}
		}
	}
	return Arrangement{Hidden: hidden}
}

// Arrangements proposes ways to show the devices of a node, in the order in which
// they should be tried: as they are published, which honours what their driver
// and the claims prefer; then those first that consume the least of the counters
// that they share with others; then without those that consume the most, fewer
// and fewer of them. A device that consumes less leaves more to others, which is
// what counts when there is not enough for all.
func Arrangements(world []*resourceapi.ResourceSlice, ledger *Ledger) []Arrangement {
	proposals := []Arrangement{{}}
	shares := counterShares(world)
	levels := slices.Sorted(maps.Values(shares))
	levels = slices.Compact(levels)
	if len(levels) == 0 {
		return proposals
	}
	proposals = append(proposals, Arrangement{Rank: shares})
	for _, limit := range slices.Backward(levels[:len(levels)-1]) {
		hidden := sets.New[structured.DeviceID]()
		for id, share := range shares {
			if share > limit && !ledger.Taken(id) {
				hidden.Insert(id)
			}
		}
		proposals = append(proposals, Arrangement{Rank: shares, Hidden: hidden})
	}
	return proposals
}

// deviceIn names the i-th device of a slice.
func deviceIn(slice *resourceapi.ResourceSlice, i int) structured.DeviceID {
	return structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name)
}
