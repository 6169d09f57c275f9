// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// Rate returns the mean time to move a byte between two accelerators of the members, in
// seconds per 10⁹ bytes, given the facts of every node, and what else Score needs.
func (m *Model) Rate(members []Member, facts []Facts) Result {
	result := Result{Align: 1}
	accelerated := 0
	for i := range members {
		if members[i].G > 0 {
			accelerated++
			result.Align = members[i].Align
		}
	}
	if accelerated < 2 {
		return result
	}
	result.Pairs, result.Align = true, 1
	if result.Time = m.mean(members, facts); math.IsInf(result.Time, 1) {
		result.Infeasible = true
	}
	return result
}

// Score returns how good a placement is compared to the best: 1 is as good. A
// placement that turns out better than the best is the best. Without two
// accelerators to compare it is how well the only one reaches its NIC, and 1
// without any. A placement that is infeasible has a score of 0.
func Score(best, actual Result) float64 {
	switch {
	case actual.Infeasible:
		return 0
	case !actual.Pairs:
		return actual.Align
	case !best.Pairs || best.Infeasible || best.Time >= actual.Time:
		return 1
	}
	return best.Time / actual.Time
}

// group is accelerators that are alike as far as others are concerned.
type group struct {
	place   int32 // nodes with the same facts are one place
	node    int
	channel int32
	nature  nature
	facts   *Facts
	// sum and squares are of the accelerators of the pods.
	sum, squares float64
}

// pairs is the number of pairs of accelerators of different pods in the group.
func (g *group) pairs() float64 {
	return (g.sum*g.sum - g.squares) / 2
}

// mean is the mean time of members of which two or more have accelerators. What is
// between two pods depends on their natures and places, unless they are on one
// node. So pods of one nature in one place are summed up first, as if no two were
// on one node, and then the nodes with several pods are put right.
func (m *Model) mean(members []Member, facts []Facts) float64 {
	byNode := groupByNode(members, facts)
	cells := groupByPlace(byNode)
	var total, weight float64
	for i := range cells {
		a := &cells[i]
		for j := range i + 1 {
			b := &cells[j]
			mass := a.sum * b.sum
			if i == j {
				mass = a.pairs()
			}
			if mass == 0 {
				continue
			}
			cost := m.cost(&a.nature, &b.nature, m.link(a.facts, b.facts))
			if cost < 0 {
				return math.Inf(1)
			}
			total += mass * cost
			weight += mass * m.weight(&a.nature, &b.nature)
		}
	}
	return (total + m.correction(byNode)) / weight
}

// correction is what the pairs of accelerators that share a node cost more than if
// they were on two nodes of the same place.
func (m *Model) correction(byNode []group) float64 {
	var more float64
	for i := range byNode {
		a := &byNode[i]
		for j := i; j >= 0 && byNode[j].node == a.node; j-- {
			b := &byNode[j]
			mass := a.sum * b.sum
			if i == j {
				mass = a.pairs()
			}
			if mass == 0 {
				continue
			}
			inside := m.within(a.facts, a.channel >= 0 && a.channel == b.channel)
			apart := m.link(a.facts, b.facts)
			more += mass * (m.cost(&a.nature, &b.nature, inside) - m.cost(&a.nature, &b.nature, apart))
		}
	}
	return more
}

// groupByNode sums up the members that are alike and on the same node, by node.
func groupByNode(members []Member, facts []Facts) []group {
	groups := make([]group, 0, len(members))
	for i := range members {
		if p := &members[i]; p.G > 0 {
			groups = append(groups, group{
				node: p.Node, channel: p.Channel, facts: &facts[p.Node],
				nature: nature{unit: p.Unit, domain: p.Domain, rdma: p.RDMA, align: p.Align},
				sum:    p.G, squares: p.G * p.G,
			})
		}
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.channel, b.channel), a.nature.compare(&b.nature))
	})
	return merge(groups, func(a, b *group) bool { return a.node == b.node && a.channel == b.channel })
}

// groupByPlace sums up the groups that are alike and in the same place.
func groupByPlace(byNode []group) []group {
	groups := slices.Clone(byNode)
	places := make(map[string]int32)
	var key []byte
	for i := range groups {
		if i > 0 && groups[i].node == groups[i-1].node {
			groups[i].place = groups[i-1].place
			continue
		}
		key = groups[i].facts.append(key[:0])
		place, known := places[string(key)]
		if !known {
			place = int32(len(places))
			places[string(key)] = place
		}
		groups[i].place = place
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.place, b.place), a.nature.compare(&b.nature))
	})
	return merge(groups, func(a, b *group) bool { return a.place == b.place })
}

// merge sums up neighbours that are alike.
func merge(groups []group, together func(a, b *group) bool) []group {
	merged := groups[:0]
	for i := range groups {
		g := &groups[i]
		if last := len(merged) - 1; last >= 0 && merged[last].nature == g.nature && together(&merged[last], g) {
			merged[last].sum += g.sum
			merged[last].squares += g.squares
			continue
		}
		merged = append(merged, *g)
	}
	return merged
}

// compare orders natures.
func (n *nature) compare(o *nature) int {
	if *n == *o {
		return 0
	}
	rdma := 0
	if n.rdma != o.rdma {
		rdma = 1
		if o.rdma {
			rdma = -1
		}
	}
	return cmp.Or(cmp.Compare(n.unit, o.unit), cmp.Compare(n.domain, o.domain), rdma, cmp.Compare(n.align, o.align))
}

// append adds a key of the facts to a buffer: equal facts have equal keys.
func (f *Facts) append(key []byte) []byte {
	key = binary.LittleEndian.AppendUint32(key, uint32(f.Clique))
	for _, domain := range f.Fabric {
		key = binary.LittleEndian.AppendUint32(key, uint32(domain))
	}
	return key
}
