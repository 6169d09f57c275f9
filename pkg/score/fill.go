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
			need[k] = int32(p.kinds[k].Count) //nolint:gosec // gangs have fewer pods
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
	order []int32 // nodes by part
	lists [][]int32
	slots []int32 // part by domain, plus one
	parts []part
	have  []int32 // by part and kind
	most  []int32 // by kind
}

// split returns the nodes by their domain of a level, and whether the last list is
// of those that are in none. The lists are valid until the next split at that
// depth.
func (p *packing) split(nodes []int32, depth int) (lists [][]int32, outside bool) {
	s := &p.scratch[depth]
	s.lists = s.lists[:0]
	if depth == len(p.room.Levels) {
		for i := range nodes {
			s.lists = append(s.lists, nodes[i:i+1:i+1])
		}
		return s.lists, false
	}
	level := p.room.Levels[depth]
	if s.slots == nil {
		s.slots = make([]int32, len(level.Values)+1)
		s.order = make([]int32, len(p.all))
	}
	// Count, lay out, and distribute.
	var sizes []int32
	for _, pos := range nodes {
		domain := level.Of[p.nodes[pos]]
		if domain == topology.None {
			outside = true
			continue
		}
		if s.slots[domain] == 0 {
			sizes = append(sizes, 0)
			s.slots[domain] = int32(len(sizes)) //nolint:gosec // no more than there are nodes
		}
		sizes[s.slots[domain]-1]++
	}
	if outside {
		sizes = append(sizes, 0)
	}
	from := int32(0)
	for _, size := range sizes {
		s.lists = append(s.lists, s.order[from:from:from+size])
		from += size
	}
	if outside {
		s.lists[len(s.lists)-1] = s.order[from:from:len(s.order)]
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
	return s.lists, outside
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
	order := p.byPreference(s.parts, pull)
	left := int32(0)
	for _, k := range kinds {
		left += need[k]
	}
	placed := int32(0)
	for _, at := range order {
		for left > 0 {
			holder := p.holder(s, kinds, need, pull)
			if holder < 0 {
				break
			}
			s.parts[holder].done = true
			n := p.fill(s.parts[holder].nodes, depth+1, kinds, need, pull)
			placed, left = placed+n, left-n
		}
		if left == 0 {
			break
		}
		if part := &s.parts[at]; !part.done && part.holds > 0 {
			part.done = true
			n := p.fill(part.nodes, depth+1, kinds, need, pull)
			placed, left = placed+n, left-n
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

// byPreference returns the parts in the order in which they are to be filled.
func (p *packing) byPreference(parts []part, pull bool) []int32 {
	order := make([]int32, len(parts))
	for i := range order {
		order[i] = int32(i) //nolint:gosec // no more than there are nodes
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &parts[i], &parts[j]
		return cmp.Or(
			compareBool(a.outside, b.outside),
			compareBool(pull && !a.fixed, pull && !b.fixed),
			cmp.Compare(b.holds, a.holds),
			compareBool(a.clique, b.clique),
			cmp.Compare(a.capacity, b.capacity),
			cmp.Compare(i, j),
		)
	})
	return order
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
