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
	// Rank orders the devices of each slice, the lowest first; devices of equal
	// rank stay in the order of the slice. Nil leaves all as they are.
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
	return arranged
}

func (a Arrangement) apply(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	shown := make([]resourceapi.Device, 0, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		if !a.Hidden.Has(deviceIn(slice, i)) {
			shown = append(shown, slice.Spec.Devices[i])
		}
	}
	if a.Rank != nil {
		rank := func(d resourceapi.Device) float64 {
			return a.Rank[structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)]
		}
		slices.SortStableFunc(shown, func(x, y resourceapi.Device) int { return cmp.Compare(rank(x), rank(y)) })
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
