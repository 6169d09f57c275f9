// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// fillAll fills a domain with all pods in every way, and calls found with the cost
// of each that succeeds, while the pods are placed: the domain is split directly by
// each level below it, and for each of these the pods are placed in each grouping.
func (p *packing) fillAll(s *start, found func(cost float64)) {
	need := make([]int32, len(p.kinds))
	for depth := s.depth; depth <= len(p.room.Levels); depth++ {
		if depth < len(p.room.Levels) {
			if parts, _ := p.split(s.nodes, depth); len(parts) == 1 {
				continue // the same as by the next level
			}
		}
		for _, grouping := range p.groupings() {
			if len(grouping) > 1 && depth == len(p.room.Levels) && len(s.nodes) > manyNodes {
				continue // node by node, without regard to levels, again for each group
			}
			for pull := range 2 {
				if pull == 1 && !p.hasFixed(s.nodes) {
					break
				}
				if p.fillBy(s.nodes, depth, grouping, need, pull == 1) {
					found(p.cost())
				}
				p.vacate()
			}
		}
	}
	if s.depth > len(p.room.Levels) && p.fillBy(s.nodes, len(p.room.Levels), p.groupings()[0], need, false) {
		found(p.cost())
	}
	p.vacate()
}

// fillBy places the groups of kinds one after the other in a domain, and reports
// whether all found a place.
func (p *packing) fillBy(nodes []int32, depth int, grouping [][]int, need []int32, pull bool) bool {
	for _, kinds := range grouping {
		clear(need)
		left := int32(0)
		for _, k := range kinds {
			need[k] = int32(p.kinds[k].Count)
			left += need[k]
		}
		if p.fill(nodes, depth, kinds, need, pull) < left {
			return false
		}
	}
	return true
}

// groupings returns the orders in which pods are placed: lists of groups of kinds,
// where the kinds of a group are placed together.
func (p *packing) groupings() [][][]int {
	if p.orders != nil {
		return p.orders
	}
	byUnit := p.group(func(k int) int32 { return p.kinds[k].Unit })
	all := []int{}
	for _, kinds := range byUnit {
		all = append(all, kinds...)
	}
	p.orders = [][][]int{{all}}
	if len(byUnit) > 1 {
		p.orders = append(p.orders, byUnit)
	}
	byDomain := p.group(func(k int) int32 { return p.kinds[k].Domain })
	if len(byDomain) > 1 && !slices.EqualFunc(byDomain, byUnit, slices.Equal) {
		p.orders = append(p.orders, byDomain)
	}
	if len(p.kinds) > 1 {
		bulky := p.group(func(int) int32 { return 0 })
		if !slices.Equal(bulky[0], all) {
			p.orders = append(p.orders, bulky)
		}
	}
	return p.orders
}

// group puts the kinds that have the same key together, those groups first that
// have the most accelerators, and in each the kinds first that take the most.
func (p *packing) group(key func(k int) int32) [][]int {
	size := make(map[int32]float64)
	var keys []int32
	for k := range p.kinds {
		if _, known := size[key(k)]; !known {
			keys = append(keys, key(k))
		}
		size[key(k)] += p.size[k] * float64(p.kinds[k].Count)
	}
	slices.SortStableFunc(keys, func(a, b int32) int { return cmp.Compare(size[b], size[a]) })
	groups := make([][]int, len(keys))
	for k := range p.kinds {
		at := slices.Index(keys, key(k))
		groups[at] = append(groups[at], k)
	}
	for _, kinds := range groups {
		slices.SortStableFunc(kinds, func(a, b int) int {
			return cmp.Or(cmp.Compare(p.size[b], p.size[a]), cmp.Compare(p.bulk[b], p.bulk[a]))
		})
	}
	return groups
}

// part is a part of a domain that is being filled.
type part struct {
	nodes    []int32
	outside  bool // the nodes without a label
	fixed    bool
	clique   bool
	done     bool
	holds    float64 // of the pods to be placed, in accelerators
	capacity float64 // the same, without regard to how many there are
}

// splitScratch is the buffers of one depth.
type splitScratch struct {
	of      []int32 // what was split last
	above   int     // version of the depth above then
	version int     // counts the splits
	lists   [][]int32
	outside bool
	order   []int32 // nodes by part
	slots   []int32 // part by domain, plus one
	sizes   []int32 // by part

	heap  []int32
	parts []part
	have  []int32 // by part and kind
	most  []int32 // by kind
}

// split returns the nodes by their domain of a level, and whether the last list is
// of those that are in none. The lists are valid until the next split at that
// depth; that of the same nodes is not done again.
func (p *packing) split(nodes []int32, depth int) (lists [][]int32, outside bool) {
	s := &p.scratch[depth]
	above := 0
	if depth > 0 {
		above = p.scratch[depth-1].version
	}
	if len(s.of) == len(nodes) && len(nodes) > 0 && &s.of[0] == &nodes[0] && s.above == above {
		return s.lists, s.outside
	}
	s.of, s.above = nodes, above
	s.version++
	s.lists, s.outside = s.lists[:0], false
	if depth == len(p.room.Levels) {
		for i := range nodes {
			s.lists = append(s.lists, nodes[i:i+1:i+1])
		}
		return s.lists, false
	}
	p.distribute(s, nodes, p.room.Levels[depth])
	return s.lists, s.outside
}

// distribute makes the lists of nodes by domain.
func (p *packing) distribute(s *splitScratch, nodes []int32, level *topology.Level) {
	if s.slots == nil {
		s.slots = make([]int32, len(level.Values)+1)
		s.order = make([]int32, len(p.all))
	}
	s.sizes = s.sizes[:0]
	outside := int32(0)
	for _, pos := range nodes {
		domain := level.Of[p.nodes[pos]]
		if domain == topology.None {
			outside++
			continue
		}
		if s.slots[domain] == 0 {
			s.sizes = append(s.sizes, 0)
			s.slots[domain] = int32(len(s.sizes))
		}
		s.sizes[s.slots[domain]-1]++
	}
	if s.outside = outside > 0; s.outside {
		s.sizes = append(s.sizes, outside)
	}
	from := int32(0)
	for _, size := range s.sizes {
		s.lists = append(s.lists, s.order[from:from:from+size])
		from += size
	}
	for _, pos := range nodes {
		at := len(s.lists) - 1
		if domain := level.Of[p.nodes[pos]]; domain != topology.None {
			at = int(s.slots[domain]) - 1
		}
		s.lists[at] = append(s.lists[at], pos)
	}
	for _, pos := range nodes {
		if domain := level.Of[p.nodes[pos]]; domain != topology.None {
			s.slots[domain] = 0
		}
	}
}

// fill places as many of the pods needed as it can in a domain that is split by the
// level at a depth, and returns how many. Of the parts it takes the smallest that
// holds all that is left, otherwise it fills the largest and goes on. Kinds are
// placed in the order given; need is brought up to date.
func (p *packing) fill(nodes []int32, depth int, kinds []int, need []int32, pull bool) int32 {
	if depth > len(p.room.Levels) {
		return p.fillNode(nodes[0], kinds, need)
	}
	lists, outside := p.split(nodes, depth)
	if len(lists) == 1 {
		return p.fill(lists[0], depth+1, kinds, need, pull)
	}
	s := &p.scratch[depth]
	p.measure(s, lists, outside, kinds, need)
	s.rank(pull)
	left := int32(0)
	for _, k := range kinds {
		left += need[k]
	}
	placed := int32(0)
	for len(s.heap) > 0 {
		at := s.next(pull)
		for left > 0 {
			holder := p.holder(s, kinds, need, pull)
			if holder < 0 {
				break
			}
			s.parts[holder].done = true
			n := p.fill(s.parts[holder].nodes, depth+1, kinds, need, pull)
			placed, left = placed+n, left-n
		}
		if part := &s.parts[at]; left > 0 && !part.done {
			part.done = true
			n := p.fill(part.nodes, depth+1, kinds, need, pull)
			placed, left = placed+n, left-n
		}
		if left == 0 {
			break
		}
	}
	return placed
}

// fillNode places as many of the pods needed as it can on a node.
func (p *packing) fillNode(pos int32, kinds []int, need []int32) int32 {
	placed := int32(0)
	for _, k := range kinds {
		if need[k] == 0 {
			continue
		}
		if n := min(need[k], p.fit(k, pos)); n > 0 {
			p.seat(k, pos, n)
			need[k] -= n
			placed += n
		}
	}
	return placed
}

// measure finds out how much each part can hold.
func (p *packing) measure(s *splitScratch, lists [][]int32, outside bool, kinds []int, need []int32) {
	s.parts = s.parts[:0]
	s.have = append(s.have[:0], make([]int32, len(lists)*len(kinds))...)
	s.most = append(s.most[:0], make([]int32, len(kinds))...)
	for at, nodes := range lists {
		part := part{nodes: nodes, outside: outside && at == len(lists)-1, fixed: p.hasFixed(nodes)}
		part.clique = p.room.Facts[p.nodes[nodes[0]]].Clique != topology.None
		for i, k := range kinds {
			have := int32(0)
			for _, pos := range nodes {
				have += p.fit(k, pos)
			}
			s.have[at*len(kinds)+i] = have
			s.most[i] = max(s.most[i], have)
			part.holds += float64(min(have, need[k])) * p.size[k]
			part.capacity += float64(have) * p.size[k]
		}
		s.parts = append(s.parts, part)
	}
}

// before reports whether one part is to be filled before another.
func (s *splitScratch) before(i, j int32, pull bool) bool {
	a, b := &s.parts[i], &s.parts[j]
	switch {
	case a.outside != b.outside:
		return b.outside
	case pull && a.fixed != b.fixed:
		return a.fixed
	case a.holds != b.holds:
		return a.holds > b.holds
	case a.clique != b.clique:
		return b.clique
	case a.capacity != b.capacity:
		return a.capacity < b.capacity
	}
	return i < j
}

// rank makes a heap of the parts that can hold a pod, the first to be filled on top.
func (s *splitScratch) rank(pull bool) {
	s.heap = s.heap[:0]
	for i := range s.parts {
		if s.parts[i].holds > 0 {
			s.heap = append(s.heap, int32(i))
		}
	}
	for i := len(s.heap)/2 - 1; i >= 0; i-- {
		s.sink(i, pull)
	}
}

// next takes the part that is to be filled first off the heap.
func (s *splitScratch) next(pull bool) int32 {
	top, last := s.heap[0], len(s.heap)-1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	s.sink(0, pull)
	return top
}

// sink puts the entry at i where it belongs below.
func (s *splitScratch) sink(i int, pull bool) {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			return
		}
		if right := child + 1; right < len(s.heap) && s.before(s.heap[right], s.heap[child], pull) {
			child = right
		}
		if !s.before(s.heap[child], s.heap[i], pull) {
			return
		}
		s.heap[i], s.heap[child] = s.heap[child], s.heap[i]
		i = child
	}
}

// holder returns the smallest part that holds all that is needed, -1 if none does.
func (p *packing) holder(s *splitScratch, kinds []int, need []int32, pull bool) int {
	for i, k := range kinds {
		if need[k] > s.most[i] {
			return -1
		}
	}
	best := -1
	for at := range s.parts {
		part := &s.parts[at]
		if part.done || part.outside {
			continue
		}
		holds := true
		for i, k := range kinds {
			holds = holds && s.have[at*len(kinds)+i] >= need[k]
		}
		if !holds {
			continue
		}
		if best < 0 || cmp.Or(
			compareBool(pull && !part.fixed, pull && !s.parts[best].fixed),
			cmp.Compare(part.capacity, s.parts[best].capacity),
			compareBool(part.clique, s.parts[best].clique),
		) < 0 {
			best = at
		}
	}
	return best
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
