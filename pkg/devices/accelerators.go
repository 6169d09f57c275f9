// SPDX-License-Identifier: Apache-2.0

package devices

import "slices"

// stock is what is free of a node, by level and value.
type stock struct {
	// accelerators are those of the driver that is asked, nics all RDMA NICs.
	accelerators, nics []tally
	// share is how many accelerators of the pod each of its NICs serves, 0 if the pod
	// asks for none.
	share int
}

func (t *tray) stock(w *want) *stock {
	s := &stock{accelerators: make([]tally, t.count), nics: make([]tally, t.count)}
	driver := t.slots[w.slots[0]].slice.Spec.Driver
	for level := range t.count {
		s.accelerators[level] = t.tally(level, func(d *slot) bool { return d.free && !d.nic && d.slice.Spec.Driver == driver })
		s.nics[level] = t.tally(level, func(d *slot) bool { return d.free && d.nic })
	}
	s.share = t.share(len(t.accelerators) + w.count)
	return s
}

// share returns how many of so many accelerators each NIC of the pod serves.
func (t *tray) share(accelerators int) int {
	nics := len(t.nics)
	for i := range t.wants {
		if w := &t.wants[i]; w.nic && !w.fixed {
			nics += w.count
		}
	}
	if nics == 0 {
		return 0
	}
	return (accelerators + nics - 1) / nics
}

// chooseAccelerators chooses devices that are no NICs. It looks at the set that first
// fit takes, and at one that is grown around each free device. It reports whether
// there were enough.
func (t *tray) chooseAccelerators(w *want) bool {
	free := slices.DeleteFunc(slices.Clone(w.slots), func(i int) bool { return !t.slots[i].free })
	if len(free) < w.count {
		return false
	}
	s := t.stock(w)
	seen := [][]int{free[:w.count]}
	w.chosen = free[:w.count]
	least := t.cost(s, w.chosen)
	for i, seed := range free {
		if slices.ContainsFunc(free[:i], func(other int) bool { return t.slots[other].at == t.slots[seed].at }) {
			continue
		}
		set := t.grow(s, seed, free, w.count)
		if slices.ContainsFunc(seen, func(other []int) bool { return slices.Equal(set, other) }) {
			continue
		}
		seen = append(seen, set)
		if cost := t.cost(s, set); slices.Compare(cost, least) < 0 {
			w.chosen, least = set, cost
		}
	}
	for _, i := range w.chosen {
		t.take(i)
	}
	return true
}

// grow returns a set of so many devices around one of them, in the order of first fit.
func (t *tray) grow(s *stock, seed int, free []int, count int) []int {
	set := append(make([]int, 0, count), seed)
	var key, best []int
	for len(set) < count {
		next := -1
		for _, i := range free {
			if slices.Contains(set, i) {
				continue
			}
			key = t.attraction(s, key[:0], set, i, count)
			if next < 0 || slices.Compare(key, best) > 0 {
				next, best, key = i, key, best
			}
		}
		set = append(set, next)
	}
	slices.Sort(set)
	return set
}

// attraction appends to a key how well a device goes with a set that is to have so many.
func (t *tray) attraction(s *stock, key, set []int, candidate, count int) []int {
	at := &t.slots[candidate].at
	same := func(level int) int {
		n := 0
		for _, i := range set {
			if t.slots[i].at[level] == at[level] {
				n++
			}
		}
		return n
	}
	some := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	for _, level := range t.match {
		key = append(key, same(level))
	}
	if level, published := t.partition[count]; published {
		key = append(key, same(level))
	}
	if s.share > 0 {
		for _, level := range t.near {
			key = append(key, some(at[level] > 0 && s.nics[level][at[level]]*s.share > same(level)))
		}
	}
	for _, level := range slices.Backward(t.near) {
		key = append(key, some(same(level) > 0))
	}
	if s.share == 0 && !t.otherNICs {
		for _, level := range t.near {
			nics := s.nics[level][at[level]]
			key = append(key, -some(at[level] > 0 && nics > 0 && nics >= s.accelerators[level][at[level]]-same(level)))
		}
	}
	for _, size := range partitionSizes {
		if level, published := t.partition[size]; published {
			key = append(key, same(level))
		}
	}
	for _, level := range slices.Backward(t.near) {
		// As many as are still needed, or else as near to that as possible.
		surplus := s.accelerators[level][at[level]] - same(level) - (count - len(set))
		key = append(key, -max(surplus, -surplus))
	}
	return key
}

// cost rates devices that would be chosen together with what the pod has already:
// the first figure that differs tells which choice is better, and less is better.
func (t *tray) cost(s *stock, set []int) []int {
	all := append(slices.Clone(t.accelerators), set...)
	cost := make([]int, 0, 24)
	for _, level := range t.match {
		cost = append(cost, t.spans(level, all))
	}
	if level, published := t.partition[len(set)]; published {
		cost = append(cost, t.spans(level, set))
	}
	if s.share > 0 {
		nics, enough := t.nearestNICs(all)
		if !enough {
			nics = t.nics
		}
		cost = t.far(cost, all, nics)
	}
	for _, level := range slices.Backward(t.near) {
		cost = append(cost, t.spans(level, all))
	}
	if s.share == 0 && !t.otherNICs {
		cost = t.stranded(s, cost, set)
	}
	for _, size := range partitionSizes {
		if level, published := t.partition[size]; published {
			cost = append(cost, t.touched(&s.accelerators[level], level, set))
		}
	}
	for _, level := range slices.Backward(t.near) {
		cost = append(cost, t.touched(&s.accelerators[level], level, set))
	}
	return cost
}

// stranded appends for each level, the nearest first, how many pairs of a free
// accelerator and a free NIC near it there would be less, and how many of the devices
// have a free NIC near.
func (t *tray) stranded(s *stock, cost, set []int) []int {
	for _, level := range t.near {
		var chosen tally
		beside := 0
		for _, i := range set {
			value := t.slots[i].at[level]
			chosen[value]++
			if value > 0 && s.nics[level][value] > 0 {
				beside++
			}
		}
		lost := 0
		for value := 1; value <= len(t.values[level]); value++ {
			accelerators, nics := s.accelerators[level][value], s.nics[level][value]
			lost += min(accelerators, nics) - min(accelerators-chosen[value], nics)
		}
		cost = append(cost, lost, beside)
	}
	return cost
}

// touched returns how many devices are free in the groups of which some would be
// chosen.
func (t *tray) touched(free *tally, level int, set []int) int {
	var seen uint64
	total := 0
	for _, i := range set {
		if value := t.slots[i].at[level]; seen&(1<<value) == 0 {
			seen |= 1 << value
			total += free[value]
		}
	}
	return total
}
