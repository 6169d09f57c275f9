// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// Room is the nodes that may be used and what they have.
type Room struct {
	// Facts are those of every node.
	Facts []Facts
	// Nodes are the indices of the nodes that may be used, in order of preference.
	Nodes []int
	// Free are the amounts of each resource that every node has left.
	Free [][]int64
	// Limit returns how many pods of a kind a node can hold beside what is bound
	// there, and without pods of other kinds, at most. 0 means that the node may not
	// be used.
	Limit func(kind, node int) int
	// Levels are the levels to keep the pods close by, broad to narrow. The node is
	// a level beyond the last.
	Levels []*topology.Level
}

// Bounds of the work that Pack does beyond what is linear in pods and nodes.
const (
	startsPerLevel = 128   // domains of one level that are tried
	manyNodes      = 512   // nodes up to which groups of kinds are placed node by node
	kept           = 32    // candidates that are remembered
	improved       = 4     // candidates that are improved
	tie            = 0.01  // times this close to the least, relatively, are equal
	exact          = 1e-9  // times this close are the same
	worthwhile     = 1e-7  // a move or swap has to lower the cost by more, relatively
	smallRoom      = 16    // pods up to which every placement may be looked at
	smallSteps     = 30000 // places looked at then
)

// Pack places all pods of the kinds in the room, so that the mean time of them and
// the fixed members, which are in their places already, is short. It reports false
// if it finds no place for all, or none where all can reach each other.
//
// Every domain that can hold the pods is filled in several ways (see fill), and
// the best results are improved by moves and swaps. Among packings whose times
// differ by 1 % or less it prefers the one that leaves least room in the narrowest
// domain around it, then the one that uses the fewest NVLink domains. When there
// are few pods, all placements are looked at, up to a bound.
func (m *Model) Pack(kinds []Kind, fixed []Member, room *Room) (seats []Seats, t Result, ok bool) {
	return m.pack(kinds, fixed, room, tie)
}

// pack is Pack, where times that differ by a part of window or less are equal.
func (m *Model) pack(kinds []Kind, fixed []Member, room *Room, window float64) (seats []Seats, t Result, ok bool) {
	if !slices.ContainsFunc(kinds, func(k Kind) bool { return k.Count > 0 }) {
		t = m.Rate(fixed, room.Facts)
		return nil, t, !t.Infeasible
	}
	p := newPacking(m, kinds, fixed, room)
	best := p.choose(p.exhaust(p.improveAll(p.candidates())), window)
	if best == nil {
		return nil, Result{}, false
	}
	seats = p.seatsOf(best.seats)
	t = m.Rate(withSeats(kinds, fixed, seats), room.Facts)
	if t.Infeasible {
		return nil, Result{}, false
	}
	return seats, t, true
}

// withSeats returns the fixed members and those in the seats.
func withSeats(kinds []Kind, fixed []Member, seats []Seats) []Member {
	count := len(fixed)
	for _, s := range seats {
		count += s.Count
	}
	members := append(make([]Member, 0, count), fixed...)
	for _, s := range seats {
		kind := &kinds[s.Kind]
		for range s.Count {
			members = append(members, Member{
				Node: s.Node, G: kind.G, Unit: kind.Unit, Domain: kind.Domain,
				Channel: topology.None, RDMA: kind.RDMA, Align: 1,
			})
		}
	}
	return members
}

// candidate is a packing that was found.
type candidate struct {
	cost  float64
	seats []seat
	// What decides among equals, lower is better.
	leftover float64
	cliques  int
	misused  int
}

// start is a domain that may hold all pods.
type start struct {
	depth    int // of the level to split it by at first
	nodes    []int32
	fixed    bool // a fixed member is in it
	leftover float64
}

// candidates fills every domain that may hold all pods in every way, and returns
// the results that are among the best.
func (p *packing) candidates() []candidate {
	var found []candidate
	bound := p.ideal * (1 + exact)
	best, bestLeftover := -1.0, 0.0
	for depth := len(p.room.Levels) + 1; depth >= 0; depth-- {
		for _, s := range p.starts(depth) {
			if best >= 0 && best <= bound && s.leftover > bestLeftover {
				break // no other can be better, and those left are less tight
			}
			p.fillAll(&s, func(cost float64) {
				if best < 0 || cost < best*(1-exact) {
					best, bestLeftover = cost, s.leftover
				}
				found = keep(found, candidate{cost: cost, seats: p.placed}, best)
			})
		}
		if best >= 0 && best <= bound {
			break
		}
	}
	return found
}

// keep adds a candidate to those found if it is close to the best. It copies the
// seats.
func keep(found []candidate, c candidate, best float64) []candidate {
	if len(found) >= kept {
		worst := 0
		for i := range found {
			if found[i].cost > found[worst].cost {
				worst = i
			}
		}
		if found[worst].cost <= c.cost {
			return found
		}
		found = slices.Delete(found, worst, worst+1)
	}
	if c.cost > 2*best {
		return found
	}
	c.seats = slices.Clone(c.seats)
	return append(found, c)
}

// starts returns the domains of a level that may hold all pods, those with fixed
// members first, then the tightest. Depth 0 is the whole room, and each level is
// one deeper; the nodes come last.
func (p *packing) starts(depth int) []start {
	domains := [][]int32{p.all}
	if depth > 0 {
		domains, _ = p.split(p.all, depth-1)
	}
	var found []start
	have := make([]int, len(p.kinds))
	for _, nodes := range domains {
		if leftover, holds := p.leftover(nodes, have); holds {
			found = append(found, start{depth: depth, nodes: nodes, fixed: p.hasFixed(nodes), leftover: leftover})
		}
	}
	slices.SortStableFunc(found, func(a, b start) int {
		if a.fixed != b.fixed {
			if a.fixed {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.leftover, b.leftover)
	})
	found = found[:min(len(found), startsPerLevel)]
	for i := range found {
		found[i].nodes = slices.Clone(found[i].nodes)
	}
	return found
}

// leftover returns how much room a domain has beyond what the pods take, in
// accelerators, and whether it may hold all. have is scratch space.
func (p *packing) leftover(nodes []int32, have []int) (float64, bool) {
	clear(have)
	for k := range p.kinds {
		caps := p.empty[k*len(p.all) : (k+1)*len(p.all)]
		for _, pos := range nodes {
			have[k] += int(caps[pos])
		}
		if have[k] < p.kinds[k].Count {
			return 0, false
		}
	}
	var left float64
	for k := range p.kinds {
		left += float64(have[k]-p.kinds[k].Count) * p.size[k]
	}
	return left, p.enough(nodes)
}

// enough reports whether the resources of a domain add up to what all pods take.
func (p *packing) enough(nodes []int32) bool {
	if len(p.kinds) == 1 {
		return true
	}
	for r, amount := range p.total {
		for _, pos := range nodes {
			if amount -= p.free[int(pos)*len(p.total)+r]; amount <= 0 {
				break
			}
		}
		if amount > 0 {
			return false
		}
	}
	return true
}

// choose returns the best of the candidates, nil if there is none.
func (p *packing) choose(candidates []candidate, window float64) *candidate {
	if len(candidates) == 0 {
		return nil
	}
	least := slices.MinFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) }).cost
	var best *candidate
	for i := range candidates {
		c := &candidates[i]
		if c.cost > least*(1+window) {
			continue
		}
		p.rate(c)
		if best == nil || c.before(best) {
			best = c
		}
	}
	return best
}

// before reports whether a candidate is to be preferred to one of an equal time.
func (c *candidate) before(o *candidate) bool {
	return cmp.Or(
		cmp.Compare(c.leftover, o.leftover),
		cmp.Compare(c.cliques, o.cliques),
		cmp.Compare(c.misused, o.misused),
		cmp.Compare(c.cost, o.cost),
	) < 0
}

// rate works out what decides among candidates of equal times: the room left in the
// narrowest domain that holds all pods, the number of NVLink domains used, and of
// pods in one that have no use for it.
func (p *packing) rate(c *candidate) {
	domain := p.all
	for depth := len(p.room.Levels); depth > 0; depth-- {
		of := p.room.Levels[depth-1].Of
		in := of[p.nodes[c.seats[0].pos]]
		held := in != topology.None && !slices.ContainsFunc(c.seats, func(s seat) bool { return of[p.nodes[s.pos]] != in })
		if held {
			p.domain = p.domain[:0]
			for _, pos := range p.all {
				if of[p.nodes[pos]] == in {
					p.domain = append(p.domain, pos)
				}
			}
			domain = p.domain
			break
		}
	}
	c.leftover, _ = p.leftover(domain, make([]int, len(p.kinds)))
	cliques := make(map[int32]bool)
	c.cliques, c.misused = 0, 0
	for _, s := range c.seats {
		clique := p.room.Facts[p.nodes[s.pos]].Clique
		if clique == topology.None {
			continue
		}
		cliques[clique] = true
		if p.kinds[s.kind].Domain == topology.None {
			c.misused += int(s.count)
		}
	}
	c.cliques = len(cliques)
}

// seatsOf returns the seats, one for each kind and node.
func (p *packing) seatsOf(placed []seat) []Seats {
	sorted := slices.Clone(placed)
	slices.SortFunc(sorted, func(a, b seat) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.pos, b.pos)) })
	seats := make([]Seats, 0, len(sorted))
	for _, s := range sorted {
		if last := len(seats) - 1; last >= 0 && seats[last].Kind == int(s.kind) && seats[last].Node == p.nodes[s.pos] {
			seats[last].Count += int(s.count)
			continue
		}
		seats = append(seats, Seats{Kind: int(s.kind), Node: p.nodes[s.pos], Count: int(s.count)})
	}
	return seats
}
