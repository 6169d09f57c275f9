// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"math/bits"
	"slices"
	"strconv"
)

const (
	// maxLevels is how many attributes are looked at; more are left out.
	maxLevels = 8
	// maxValues is how many values of one attribute are told apart on a node; the
	// last stands for all others.
	maxValues = 64
)

// partitionSizes are the sizes for which NVIDIA's fabric manager has partitions, from
// large to small. The devices of a partition of n agree on attribute partition<n>.
var partitionSizes = [...]int{8, 4, 2}

// levels are the attributes by which the devices of a node are grouped. A value is a
// small number, 0 if the attribute is not known.
type levels struct {
	// near are the levels of nearness, match those that claims name besides.
	near, match []int
	// partition are the levels of partitions that are published, by size.
	partition map[int]int
	// count is the number of levels.
	count int
	// values are the values of each level; value i+1 is the i-th.
	values [maxLevels][]string
}

// read reads the attributes of the devices.
func (t *tray) read(near []string, demand Demand) {
	places := make([]Locus, len(t.slots))
	partitions := false
	for i := range t.slots {
		s := &t.slots[i]
		places[i], s.nic = s.facts.places[s.index], s.facts.nic[s.index]
		partitions = partitions || s.facts.partitions != nil
	}
	places = numaByRoot(places).fill(places)
	for _, name := range near {
		t.near = t.appendLevel(t.near, func(i int) string { return t.slots[i].value(name, places[i]) })
	}
	for i := range demand.Asks {
		for _, name := range demand.Asks[i].Match {
			if !slices.Contains(near, name) {
				t.match = t.appendLevel(t.match, func(i int) string { return t.slots[i].value(name, places[i]) })
			}
		}
	}
	if partitions {
		t.readPartitions()
	}
	for i := range t.wants {
		w := &t.wants[i]
		w.nic = !slices.ContainsFunc(w.slots, func(i int) bool { return !t.slots[i].nic })
	}
}

func (t *tray) readPartitions() {
	t.partition = make(map[int]int)
	for j, size := range partitionSizes {
		level := t.appendLevel(nil, func(i int) string {
			if s := &t.slots[i]; s.facts.partitions != nil {
				return s.facts.partitions[s.index][j]
			}
			return ""
		})
		if level != nil {
			t.partition[size] = level[0]
		}
	}
}

// value returns an attribute of a device as a text, "" if it is not known.
func (s *slot) value(name string, place Locus) string {
	switch {
	case name == attributePCIeRoot:
		return place.Root
	case name != attributeNUMANode:
		return valueOf(s.slice.Spec.Driver, s.device, name)
	case place.NUMA < 0:
		return ""
	}
	return strconv.FormatInt(place.NUMA, 10)
}

// appendLevel adds a level to a list if a device has a value.
func (t *tray) appendLevel(list []int, valueOf func(slot int) string) []int {
	if t.count == maxLevels {
		return list
	}
	level := t.count
	for i := range t.slots {
		t.slots[i].at[level] = t.number(level, valueOf(i))
	}
	if len(t.values[level]) == 0 {
		return list
	}
	t.count++
	return append(list, level)
}

// number returns the number of a value.
func (l *levels) number(level int, value string) uint8 {
	if value == "" {
		return 0
	}
	i := slices.Index(l.values[level], value)
	if i < 0 && len(l.values[level]) < maxValues-1 {
		i = len(l.values[level])
		l.values[level] = append(l.values[level], value)
	}
	if i < 0 {
		i = maxValues - 2
	}
	return uint8(i + 1) //nolint:gosec // at most maxValues-1
}

// differ reports whether any level tells devices apart between which there is a choice.
func (t *tray) differ() bool {
	for i := range t.wants {
		w := &t.wants[i]
		if w.fixed {
			continue
		}
		for _, slot := range w.slots {
			if t.slots[slot].at != t.slots[w.slots[0]].at {
				return true
			}
		}
	}
	return false
}

// spans returns how many groups of a level the devices belong to, those of which it is
// not known as one.
func (t *tray) spans(level int, of []int) int {
	var seen uint64
	for _, i := range of {
		seen |= 1 << t.slots[i].at[level]
	}
	return bits.OnesCount64(seen)
}

// tally counts devices by their value of a level.
type tally [maxValues]int

// tally counts those of the devices that are meant.
func (t *tray) tally(level int, meant func(*slot) bool) tally {
	var n tally
	for i := range t.slots {
		if s := &t.slots[i]; meant(s) {
			n[s.at[level]]++
		}
	}
	return n
}
