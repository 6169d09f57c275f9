// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"hash/maphash"
	"maps"
	"slices"

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
	// nodes has what is published for exactly one node, by its name.
	nodes map[string]*nodePools
	// shared lists the pools with a slice that is not tied to one node by name.
	shared []poolID
	// ids are the names of the devices of each slice, in their order: to make them
	// takes longer than all else that is asked of a device.
	ids map[*resourceapi.ResourceSlice][]structured.DeviceID
	// generation counts the indices that were made, one after the other.
	generation int
}

// nodePools are the pools with a slice for exactly one node. It does not change.
type nodePools struct {
	pools []poolID
	// keys name the pools for a Ledger.
	keys []poolKey
	// since is the generation at which the slices of the pools came to be what they are.
	// sum is made of their addresses.
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
	if next := inv.replaced(slices); next != nil {
		return next
	}
	next := &Inventory{
		pools:      make(map[poolID][]*resourceapi.ResourceSlice, len(slices)),
		nodes:      make(map[string]*nodePools, len(inv.nodes)),
		ids:        make(map[*resourceapi.ResourceSlice][]structured.DeviceID, len(slices)),
		generation: inv.generation + 1,
	}
	type nodePool struct {
		node string
		pool poolID
	}
	seen := make(map[nodePool]bool, len(slices))
	for _, slice := range slices {
		pool, node := poolOf(slice), ptr.Deref(slice.Spec.NodeName, "")
		next.pools[pool] = append(next.pools[pool], slice)
		next.ids[slice] = inv.idsOf(slice)
		key := nodePool{node: node, pool: pool}
		if seen[key] {
			continue
		}
		seen[key] = true
		if node == "" {
			next.shared = append(next.shared, pool)
			continue
		}
		if next.nodes[node] == nil {
			next.nodes[node] = &nodePools{}
		}
		next.nodes[node].pools = append(next.nodes[node].pools, pool)
	}
	for node, of := range next.nodes {
		next.nodes[node] = next.edition(of.pools, inv.nodes[node])
	}
	return next
}

// replaced returns the index of slices that differ in nothing but that some have been
// published anew in their place, nil where they differ in more.
func (inv *Inventory) replaced(list []*resourceapi.ResourceSlice) *Inventory {
	if len(list) != len(inv.ids) {
		return nil
	}
	next := &Inventory{
		pools: maps.Clone(inv.pools), nodes: maps.Clone(inv.nodes), shared: inv.shared, ids: maps.Clone(inv.ids),
		generation: inv.generation + 1,
	}
	for _, slice := range list {
		if _, known := inv.ids[slice]; known {
			continue
		}
		id := poolOf(slice)
		at := slices.IndexFunc(next.pools[id], func(old *resourceapi.ResourceSlice) bool {
			return old.Name == slice.Name && ptr.Equal(old.Spec.NodeName, slice.Spec.NodeName)
		})
		if at < 0 {
			return nil
		}
		delete(next.ids, next.pools[id][at])
		next.ids[slice] = inv.idsOf(slice)
		next.pools[id] = slices.Clone(next.pools[id])
		next.pools[id][at] = slice
		for _, other := range next.pools[id] {
			if node := ptr.Deref(other.Spec.NodeName, ""); node != "" {
				next.nodes[node] = next.edition(inv.nodes[node].pools, inv.nodes[node])
			}
		}
	}
	for _, slice := range list {
		if _, known := next.ids[slice]; !known {
			return nil // two have one name
		}
	}
	return next
}

// idsOf returns the names of the devices of a slice.
func (inv *Inventory) idsOf(slice *resourceapi.ResourceSlice) []structured.DeviceID {
	if ids, known := inv.ids[slice]; known {
		return ids
	}
	ids := make([]structured.DeviceID, len(slice.Spec.Devices))
	for i := range ids {
		ids[i] = deviceIn(slice, i)
	}
	return ids
}

// edition describes the pools of a node, of which before was known.
func (inv *Inventory) edition(pools []poolID, before *nodePools) *nodePools {
	of := &nodePools{pools: pools, since: inv.generation}
	for _, pool := range pools {
		of.keys = append(of.keys, keyOf(structured.MakeDeviceID(pool.driver, pool.pool, "")))
		for _, slice := range inv.pools[pool] {
			of.sum += maphash.Comparable(seed, slice) // in any order
		}
	}
	if before != nil && before.sum == of.sum {
		of.since = before.since
	}
	return of
}

// World returns the slices that an allocation on the node needs to see: every
// slice of each pool that serves the node by name, and of each pool that is not
// tied to a node by name. Whole pools are returned because the allocator calls a
// pool incomplete when it misses one of its slices.
func (inv *Inventory) World(node string) []*resourceapi.ResourceSlice {
	own := inv.poolsOf(node)
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

// poolsOf lists the pools with a slice for exactly that node.
func (inv *Inventory) poolsOf(node string) []poolID {
	if of := inv.nodes[node]; of != nil {
		return of.pools
	}
	return nil
}

// Selector tells for each device of a slice whether it is meant.
type Selector func(*resourceapi.ResourceSlice) []bool

// Count returns how many of the meant devices the node publishes by name, and
// how many of them can be had: nobody holds them, and what is left of the counters
// that they consume is enough for each by itself. Devices of pools that are shared
// between nodes are left out, and devices that exclude each other through counters
// are counted one by one, so the figure orders nodes and does not prove a fit.
func (inv *Inventory) Count(node string, ledger *Ledger, meant Selector) (total, free int) {
	for _, id := range inv.poolsOf(node) {
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
	of := inv.nodes[node]
	if of == nil {
		return Version{}
	}
	version := Version{slices: of.since}
	for _, key := range of.keys {
		version.ledger = max(version.ledger, ledger.changed[key])
	}
	return version
}

// Latest changes whenever the version of any node does.
func (inv *Inventory) Latest(ledger *Ledger) Version {
	return Version{slices: inv.generation, ledger: ledger.touched}
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
	return len(inv.poolsOf(node)) > 0
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
