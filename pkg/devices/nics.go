// SPDX-License-Identifier: Apache-2.0

package devices

import "slices"

// chooseNICs chooses the NICs for the accelerators of the pod. It reports whether
// there were enough.
func (t *tray) chooseNICs() bool {
	if !slices.ContainsFunc(t.wants, func(w want) bool { return w.nic && !w.fixed }) {
		return true
	}
	nics, enough := t.nearestNICs(t.accelerators)
	if !enough {
		return false
	}
	next := len(t.nics)
	for i := range t.wants {
		if w := &t.wants[i]; w.nic && !w.fixed {
			w.chosen = nics[next : next+w.count : next+w.count]
			next += w.count
		}
	}
	return true
}

// nearestNICs returns the NICs of the pod and those that it should get with the
// accelerators, one want after the other. enough is false if there are too few.
func (t *tray) nearestNICs(accelerators []int) (nics []int, enough bool) {
	first := slices.Clone(t.nics)
	s := newServing(t, accelerators)
	for i := range t.wants {
		w := &t.wants[i]
		if !w.nic || w.fixed {
			continue
		}
		for range w.count {
			nic := s.best(w.slots)
			if nic < 0 {
				return nil, false
			}
			s.add(nic)
		}
		for _, nic := range w.slots {
			if len(first) < len(s.nics) && t.slots[nic].free && !slices.Contains(first, nic) {
				first = append(first, nic)
			}
		}
	}
	if len(first) == len(s.nics) && slices.Compare(t.far(nil, accelerators, first), t.far(nil, accelerators, s.nics)) < 0 {
		return first, true
	}
	return s.nics, true
}

// serving finds NICs for accelerators, one after the other.
type serving struct {
	*tray
	accelerators []int
	// share is how many accelerators a NIC serves.
	share int
	// served tells of each accelerator whether one of the NICs is for it, unserved
	// counts the others by level and value. When all are served, it begins again.
	served   []bool
	left     int
	unserved []tally
	// nics are those found so far.
	nics []int
	// freeNICs and freeAccelerators are what is left to others.
	freeNICs, freeAccelerators []tally
}

func newServing(t *tray, accelerators []int) *serving {
	s := &serving{
		tray: t, accelerators: accelerators, share: t.share(len(accelerators)), served: make([]bool, len(accelerators)),
		unserved: make([]tally, t.count), freeNICs: make([]tally, t.count), freeAccelerators: make([]tally, t.count),
	}
	for _, level := range t.near {
		s.freeNICs[level] = t.tally(level, func(d *slot) bool { return d.free && d.nic })
		s.freeAccelerators[level] = t.tally(level, func(d *slot) bool { return d.free && !d.nic })
		for _, i := range accelerators {
			if t.slots[i].free {
				s.freeAccelerators[level][t.slots[i].at[level]]--
			}
		}
	}
	s.begin()
	for _, nic := range t.nics {
		s.add(nic)
	}
	return s
}

func (s *serving) begin() {
	clear(s.served)
	s.left = len(s.accelerators)
	for _, level := range s.near {
		s.unserved[level] = tally{}
		for _, i := range s.accelerators {
			s.unserved[level][s.slots[i].at[level]]++
		}
	}
}

// best returns the best free NIC of some, -1 if there is none.
func (s *serving) best(of []int) int {
	best := -1
	var key, bestKey []int
	for _, nic := range of {
		if !s.slots[nic].free || slices.Contains(s.nics, nic) {
			continue
		}
		key = s.rate(key[:0], nic)
		if best < 0 || slices.Compare(key, bestKey) > 0 {
			best, bestKey, key = nic, key, bestKey
		}
	}
	return best
}

// rate appends to a key how good a NIC would be: how many accelerators it is near to
// that have none, whether it leaves others with an accelerator without a NIC, and how
// many others there are in its groups.
func (s *serving) rate(key []int, nic int) []int {
	at := &s.slots[nic].at
	for _, level := range s.near {
		gain := 0
		if at[level] > 0 {
			gain = min(s.share, s.unserved[level][at[level]])
		}
		key = append(key, gain)
	}
	for _, level := range s.near {
		lost := 0
		if at[level] > 0 && s.freeNICs[level][at[level]] <= s.freeAccelerators[level][at[level]] {
			lost = 1
		}
		key = append(key, -lost)
	}
	for _, level := range slices.Backward(s.near) {
		key = append(key, -s.freeNICs[level][at[level]])
	}
	return key
}

// add gives a NIC to the pod; it serves those accelerators without one that are
// nearest.
func (s *serving) add(nic int) {
	s.nics = append(s.nics, nic)
	at := &s.slots[nic].at
	if s.slots[nic].free {
		for _, level := range s.near {
			s.freeNICs[level][at[level]]--
		}
	}
	room := s.share
	for _, level := range s.near {
		for i, accelerator := range s.accelerators {
			if room > 0 && !s.served[i] && at[level] > 0 && s.slots[accelerator].at[level] == at[level] {
				s.serve(i)
				room--
			}
		}
	}
	if s.left == 0 {
		s.begin()
	}
}

func (s *serving) serve(i int) {
	s.served[i] = true
	s.left--
	for _, level := range s.near {
		s.unserved[level][s.slots[s.accelerators[i]].at[level]]--
	}
}

// far appends for each level, the farthest first, how many accelerators have no NIC
// at that level or nearer, when each has the nearest for which there is room.
func (t *tray) far(cost, accelerators, nics []int) []int {
	var alone [maxLevels]int
	left := slices.Clone(accelerators)
	room := make([]int, len(nics))
	if len(nics) > 0 {
		for i := range room {
			room[i] = (len(accelerators) + len(nics) - 1) / len(nics)
		}
	}
	for j, level := range t.near {
		left = slices.DeleteFunc(left, func(accelerator int) bool {
			value := t.slots[accelerator].at[level]
			for i, nic := range nics {
				if value > 0 && room[i] > 0 && t.slots[nic].at[level] == value {
					room[i]--
					return true
				}
			}
			return false
		})
		alone[j] = len(left)
	}
	for j := range slices.Backward(t.near) {
		cost = append(cost, alone[j])
	}
	return cost
}
