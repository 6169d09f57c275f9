// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// Chooser decides which devices of a node a pod should get, where there is a choice. It
// may be used by several goroutines.
type Chooser struct {
	near  []string
	facts factCache
}

// NewChooser returns a chooser. It is given the attributes on which devices agree that
// are near each other, the nearest first; with none, it leaves devices as they are
// published. Hints tell where devices are that do not say it.
func NewChooser(near []string, hints Hints) *Chooser {
	return &Chooser{near: near, facts: newFactCache(hints)}
}

// Demand is what a pod asks of the devices of a node.
type Demand struct {
	// Asks are the requests of its claims, in their order.
	Asks []Ask
	// Held are the devices that the pod has already.
	Held []structured.DeviceID
	// OtherNICs: the pod gets NICs that are chosen later and by somebody else. Then
	// its accelerators are neither near NICs nor out of the way of those who want them.
	OtherNICs bool
}

// Ask is one request for devices.
type Ask struct {
	// Meant tells which devices will do.
	Meant Selector
	// Count is how many are asked for. All means each of those meant.
	Count int
	All   bool
	// Match are the attributes on which the devices of the claim have to agree.
	Match []string
}

// Arrange returns an arrangement of the world of a node in which the first devices
// that do for a pod are those that it should get. It hides none, so that nothing
// becomes impossible that was possible. Those are, what is named first counting most:
//
//   - devices that agree on what the claim says, and one partition of the size asked
//     for, if partitions are published;
//   - accelerators whose NICs are near, if the pod asks for both;
//   - as few NUMA nodes and then PCIe roots as possible (or what else the chooser was given);
//   - accelerators without free NICs, if the pod asks for no NIC;
//   - the groups with the fewest other free devices, so that larger ones stay whole;
//   - devices as they are published.
//
// The zero arrangement is returned where there is no choice, or where nothing tells
// the devices apart. Only devices that the node publishes by name are chosen, and
// none that several claims can share or that exclude each other.
func (c *Chooser) Arrange(node string, world []*resourceapi.ResourceSlice, ledger *Ledger, demand Demand) Arrangement {
	if len(c.near) == 0 {
		return Arrangement{}
	}
	t := newTray(node, world, ledger, c.facts)
	if !t.open(demand) {
		return Arrangement{}
	}
	t.read(c.near, demand)
	if !t.differ() {
		return Arrangement{}
	}
	t.hold(demand.Held)
	for i := range t.wants {
		if w := &t.wants[i]; !w.nic && !w.fixed && !t.chooseAccelerators(w) {
			return Arrangement{}
		}
	}
	if !t.chooseNICs() {
		return Arrangement{}
	}
	return t.arrangement()
}

// tray holds the devices of one node while some of them are chosen.
type tray struct {
	slots  []slot
	ledger *Ledger
	// wants are the asks that count and leave no device out.
	wants []want
	// accelerators and nics are the slots of the devices that the pod has or gets.
	// nics holds those that it has, until the others are chosen.
	accelerators, nics []int
	otherNICs          bool
	levels
}

// slot is one device.
type slot struct {
	slice  *resourceapi.ResourceSlice
	device *resourceapi.Device
	// index is that in the slice and in the facts.
	index int
	facts *facts
	// free: the device can be chosen. nic: it is an RDMA NIC.
	free, nic bool
	// at is the value of each level.
	at [maxLevels]uint8
}

func (s *slot) id() structured.DeviceID { return s.facts.ids[s.index] }

// want is one or several asks for the same devices.
type want struct {
	// slots are those of the free devices that do, in the order of first fit.
	slots []int
	count int
	nic   bool
	// fixed: there is no choice.
	fixed bool
	// chosen are the slots chosen.
	chosen []int
}

// newTray lays out the devices of the node in the order in which the allocator looks
// at those of a pool.
func newTray(node string, world []*resourceapi.ResourceSlice, ledger *Ledger, known factCache) *tray {
	t := &tray{ledger: ledger}
	newest := make(map[poolID]int64, len(world))
	count := 0
	for _, slice := range world {
		newest[poolOf(slice)] = max(newest[poolOf(slice)], slice.Spec.Pool.Generation)
		count += len(slice.Spec.Devices)
	}
	t.slots = make([]slot, 0, count)
	for _, slice := range byName(world) {
		if slice.Spec.Pool.Generation != newest[poolOf(slice)] || ptr.Deref(slice.Spec.NodeName, "") != node {
			continue
		}
		facts := known.of(slice)
		for i := range slice.Spec.Devices {
			t.slots = append(t.slots, slot{
				slice: slice, device: &slice.Spec.Devices[i], index: i, facts: facts,
				free: !ledger.Taken(facts.ids[i]),
			})
		}
	}
	t.closeByCounters(world)
	return t
}

// closeByCounters marks devices as not free for which too little is left of the
// counters that they share with others.
func (t *tray) closeByCounters(world []*resourceapi.ResourceSlice) {
	if !slices.ContainsFunc(world, func(s *resourceapi.ResourceSlice) bool { return consumes(s, t.ledger) }) {
		return
	}
	left := countersOf(world)
	for i := range t.slots {
		if s := &t.slots[i]; s.index == 0 {
			left.take(s.slice, t.ledger)
		}
	}
	for i := range t.slots {
		s := &t.slots[i]
		s.free = s.free && left.suffice(poolOf(s.slice), s.device)
	}
}

// open notes what the pod asks for and has, and reports whether there is a choice.
func (t *tray) open(demand Demand) bool {
	t.otherNICs = demand.OtherNICs
	for i := range demand.Asks {
		w, counts, enough := t.wantOf(&demand.Asks[i])
		switch {
		case !enough:
			return false
		case !counts:
		case t.merge(w):
		default:
			t.wants = append(t.wants, w)
		}
	}
	choice := false
	for i := range t.wants {
		w := &t.wants[i]
		if len(w.slots) < w.count {
			return false
		}
		w.fixed = len(w.slots) == w.count
		choice = choice || !w.fixed
	}
	return choice
}

// merge adds a want to an earlier one for the same devices.
func (t *tray) merge(w want) bool {
	for i := range t.wants {
		if slices.Equal(t.wants[i].slots, w.slots) {
			t.wants[i].count += w.count
			return true
		}
	}
	return false
}

// wantOf reads an ask. It does not count if its devices are no matter of choice here;
// enough is false if the node has too few of them.
func (t *tray) wantOf(ask *Ask) (w want, counts, enough bool) {
	var slice *resourceapi.ResourceSlice
	var meant []bool
	counts, w.count = true, ask.Count
	for i := range t.slots {
		s := &t.slots[i]
		if s.slice != slice {
			slice, meant = s.slice, ask.Meant(s.slice)
		}
		if !meant[s.index] {
			continue
		}
		counts = counts && !ptr.Deref(s.device.AllowMultipleAllocations, false)
		if s.free {
			w.slots = append(w.slots, i)
		}
	}
	if ask.All {
		w.count = len(w.slots)
	}
	counts = counts && w.count > 0 && !t.exclusive(w.slots)
	return w, counts, !counts || len(w.slots) >= w.count
}

// exclusive reports whether devices share counters with each other.
func (t *tray) exclusive(of []int) bool {
	type setID struct {
		pool poolID
		set  string
	}
	var seen map[setID]bool
	for _, i := range of {
		s := &t.slots[i]
		for j := range s.device.ConsumesCounters {
			id := setID{poolOf(s.slice), s.device.ConsumesCounters[j].CounterSet}
			if seen[id] {
				return true
			}
			if seen == nil {
				seen = make(map[setID]bool)
			}
			seen[id] = true
		}
	}
	return false
}

// hold takes the devices that the pod has, and those that it gets in any case.
func (t *tray) hold(held []structured.DeviceID) {
	if len(held) > 0 {
		for i := range t.slots {
			if slices.Contains(held, t.slots[i].id()) {
				t.take(i)
			}
		}
	}
	for i := range t.wants {
		if w := &t.wants[i]; w.fixed {
			w.chosen = w.slots
			for _, i := range w.slots {
				t.take(i)
			}
		}
	}
}

// take adds a device to those of the pod.
func (t *tray) take(i int) {
	t.slots[i].free = false
	if t.slots[i].nic {
		t.nics = append(t.nics, i)
	} else {
		t.accelerators = append(t.accelerators, i)
	}
}

// arrangement shows what was chosen first, in the order of the asks. It is the zero
// one if first fit chooses the same.
func (t *tray) arrangement() Arrangement {
	same := true
	var chosen []int
	for i := range t.wants {
		w := &t.wants[i]
		slices.Sort(w.chosen)
		same = same && slices.Equal(w.chosen, w.slots[:w.count])
		chosen = append(chosen, w.chosen...)
	}
	if same {
		return Arrangement{}
	}
	rank := make(map[structured.DeviceID]float64, len(chosen))
	for i, slot := range chosen {
		rank[t.slots[slot].id()] = float64(i - len(chosen))
	}
	return Arrangement{Rank: rank}
}

// byName returns slices in the order in which the allocator (v1.37.2) looks at them.
func byName(world []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	less := func(a, b *resourceapi.ResourceSlice) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	}
	if slices.IsSortedFunc(world, less) {
		return world
	}
	return slices.SortedStableFunc(slices.Values(world), less)
}
