// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"hash/maphash"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// poolID names a resource pool. Two drivers may use the same pool name.
type poolID struct {
	driver, pool string
}

// Inventory indexes the ResourceSlices of a cluster by the node that they serve.
// It is read-only once built and may be shared between goroutines.
type Inventory struct {
	// pools holds every slice, by pool, in the order of the input.
	pools map[poolID][]*resourceapi.ResourceSlice
	// poolsOfNode lists the pools with a slice for exactly that node.
	poolsOfNode map[string][]poolID
	// shared lists the pools with a slice that is not tied to one node by name.
	shared []poolID
	// ids are the names of the devices of each slice, in their order: to make them
	// takes longer than all else that is asked of a device.
	ids map[*resourceapi.ResourceSlice][]structured.DeviceID
	// generation counts the indices that were made, one after the other; published has the
	// generation at which the slices of a node's pools came to be what they are.
	generation int
	published  map[string]edition
}

// edition is what slices of a node there have been since a generation. Sum is made of
// their addresses.
type edition struct {
	since int
	sum   uint64
}

// seed is for sums of addresses.
var seed = maphash.MakeSeed()

// NewInventory indexes the given slices. The slices are not copied and must not
// change afterwards.
func NewInventory(slices []*resourceapi.ResourceSlice) *Inventory {
	return (&Inventory{}).With(slices)
}

// With returns the index of other slices. What is known of those that both have is
// used again.
func (inv *Inventory) With(slices []*resourceapi.ResourceSlice) *Inventory {
	before := inv
	inv = &Inventory{
		pools:       make(map[poolID][]*resourceapi.ResourceSlice, len(slices)),
		poolsOfNode: make(map[string][]poolID, len(before.poolsOfNode)),
		ids:         make(map[*resourceapi.ResourceSlice][]structured.DeviceID, len(slices)),
		generation:  before.generation + 1,
	}
	type nodePool struct {
		node string
		pool poolID
	}
	seen := make(map[nodePool]bool, len(slices))
	for _, slice := range slices {
		id := poolOf(slice)
		inv.pools[id] = append(inv.pools[id], slice)
		ids, same := before.ids[slice]
		if !same {
			ids = make([]structured.DeviceID, len(slice.Spec.Devices))
			for i := range ids {
				ids[i] = deviceIn(slice, i)
			}
		}
		inv.ids[slice] = ids
		node := ""
		if slice.Spec.NodeName != nil {
			node = *slice.Spec.NodeName
		}
		key := nodePool{node: node, pool: id}
		if seen[key] {
			continue
		}
		seen[key] = true
		if node == "" {
			inv.shared = append(inv.shared, id)
		} else {
			inv.poolsOfNode[node] = append(inv.poolsOfNode[node], id)
		}
	}
	inv.edit(before)
	return inv
}

// edit notes of which nodes the slices differ from those of the index before.
func (inv *Inventory) edit(before *Inventory) {
	inv.published = make(map[string]edition, len(inv.poolsOfNode))
	for node, pools := range inv.poolsOfNode {
		e := edition{since: inv.generation}
		for _, pool := range pools {
			for _, slice := range inv.pools[pool] {
				e.sum += maphash.Comparable(seed, slice) // in any order
			}
		}
		if known, ok := before.published[node]; ok && known.sum == e.sum {
			e.since = known.since
		}
		inv.published[node] = e
	}
}

// World returns the slices that an allocation on the node needs to see: every
// slice of each pool that serves the node by name, and of each pool that is not
// tied to a node by name. Whole pools are returned because the allocator calls a
// pool incomplete when it misses one of its slices.
func (inv *Inventory) World(node string) []*resourceapi.ResourceSlice {
	own := inv.poolsOfNode[node]
	world := make([]*resourceapi.ResourceSlice, 0, len(own)+len(inv.shared))
	taken := make(map[poolID]bool, len(own)+len(inv.shared))
	for _, ids := range [][]poolID{own, inv.shared} {
		for _, id := range ids {
			if !taken[id] {
				taken[id] = true
				world = append(world, inv.pools[id]...)
			}
		}
	}
	return world
}

// Selector tells for each device of a slice whether it is meant.
type Selector func(*resourceapi.ResourceSlice) []bool

// Count returns how many of the meant devices the node publishes by name, and
// how many of them can be had: nobody holds them, and what is left of the counters
// that they consume is enough for each by itself. Devices of pools that are shared
// between nodes are left out, and devices that exclude each other through counters
// are counted one by one, so the figure orders nodes and does not prove a fit.
func (inv *Inventory) Count(node string, ledger *Ledger, meant Selector) (total, free int) {
	for _, id := range inv.poolsOfNode[node] {
		generation := newestGeneration(inv.pools[id])
		left := countersLeft(inv.pools[id], generation, ledger)
		for _, slice := range inv.pools[id] {
			if slice.Spec.Pool.Generation != generation || slice.Spec.NodeName == nil || *slice.Spec.NodeName != node {
				continue
			}
			ids := inv.ids[slice]
			for i, selected := range meant(slice) {
				if !selected {
					continue
				}
				total++
				if !ledger.Taken(ids[i]) && (left == nil || left.suffice(id, &slice.Spec.Devices[i])) {
					free++
				}
			}
		}
	}
	return total, free
}

// Version tells apart what Count returns for a node: while it is the same, so is that, for
// one ledger, one selector, and indices that were made one from the other.
type Version struct {
	slices, ledger int
}

// Version changes whenever the slices of a pool change that the node publishes by name,
// or something about what the ledger has of it.
func (inv *Inventory) Version(node string, ledger *Ledger) Version {
	version := Version{slices: inv.published[node].since}
	for _, id := range inv.poolsOfNode[node] {
		version.ledger = max(version.ledger, ledger.changed[id])
	}
	return version
}

// Usable counts the meant devices of a world that nobody holds whole, and stops at
// enough. A device that serves several claims counts as enough. Generations, nodes
// and counters are not looked at, so that there are not more than Usable returns.
func Usable(world []*resourceapi.ResourceSlice, ledger *Ledger, enough int, meant Selector) int {
	usable := 0
	for _, slice := range world {
		for i, selected := range meant(slice) {
			if !selected || ledger.State().AllocatedDevices.Has(deviceIn(slice, i)) {
				continue
			}
			if ptr.Deref(slice.Spec.Devices[i].AllowMultipleAllocations, false) {
				return enough
			}
			if usable++; usable >= enough {
				return usable
			}
		}
	}
	return usable
}

// Publishes reports whether the node publishes a device by name.
func (inv *Inventory) Publishes(node string) bool {
	return len(inv.poolsOfNode[node]) > 0
}

// countersLeft returns what the taken devices of a pool leave of its counters, nil
// if they consume none.
func countersLeft(pool []*resourceapi.ResourceSlice, generation int64, ledger *Ledger) counters {
	var left counters
	for _, slice := range pool {
		if slice.Spec.Pool.Generation != generation || !consumes(slice, ledger) {
			continue
		}
		if left == nil {
			left = countersOf(pool)
		}
		left.take(slice, ledger)
	}
	return left
}

// newestGeneration returns the highest generation in a pool; older slices are
// about to be replaced by their driver.
func newestGeneration(slices []*resourceapi.ResourceSlice) int64 {
	newest := int64(0)
	for _, slice := range slices {
		newest = max(newest, slice.Spec.Pool.Generation)
	}
	return newest
}
