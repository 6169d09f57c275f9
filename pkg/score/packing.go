// SPDX-License-Identifier: Apache-2.0

package score

import (
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// seat is a number of pods of a kind on a node, by its position.
type seat struct {
	kind, pos, count int32
}

// cell is the accelerators of one nature in one place. Nodes with the same facts
// are one place.
type cell struct {
	place, nature int32
	sum, squares  float64
}

// packing is the state of one Pack. Nodes are known by their position among those
// of the room that can hold a pod.
type packing struct {
	m     *Model
	kinds []Kind
	room  *Room

	nodes []int   // node of each position
	all   []int32 // every position
	// limit and empty are by kind and position: what Room.Limit says, and how many
	// pods fit when no other has been placed.
	limit, empty []int32
	// free is by position and resource, and changes as pods are placed; only
	// resources that pods take are kept. requests are those by kind, total those of
	// all pods.
	free     []int64
	requests [][]int64
	total    []int64
	size     []float64 // by kind: its accelerators, or a little if it has none
	bulk     []float64 // by kind: the largest part of any resource of the room that a pod takes
	orders   [][][]int // see groupings

	count  []int32 // pods placed, by kind and position
	load   []int32 // pods placed, by position
	placed []seat  // in order

	natures  []nature
	natureOf []int32 // by kind, -1 without accelerators
	places   []*Facts
	placeOf  []int32 // by position
	// plain is set for places where it makes no difference whether two pods are on
	// one node.
	plain []bool

	fixedCells []cell
	fixedAt    map[int32][]group // accelerators of fixed members, by position
	isFixed    []bool            // by position; nil without fixed members
	// fixedMore is what fixed members that share nodes cost more than on nodes of
	// their own, and fixedExcess what fixed members cost above the ideal.
	fixedMore, fixedExcess float64
	hasCliques             bool
	ideal                  float64

	scratch []splitScratch // by depth
	cells   []cell         // scratch of cost
	cellAt  map[int64]int32
	domain  []int32 // scratch of rate
}

func newPacking(m *Model, kinds []Kind, fixed []Member, room *Room) *packing {
	p := &packing{m: m, kinds: kinds, room: room, cellAt: make(map[int64]int32)}
	p.size = make([]float64, len(kinds))
	for k := range kinds {
		if p.size[k] = kinds[k].G; p.size[k] <= 0 {
			p.size[k] = 1e-3
		}
	}
	p.addNodes()
	p.weighBulk()
	p.addNatures()
	p.addPlaces(fixed)
	p.boundCost()
	p.scratch = make([]splitScratch, len(room.Levels)+1)
	p.count = make([]int32, len(kinds)*len(p.all))
	p.load = make([]int32, len(p.all))
	return p
}

// addNodes takes up the nodes that can hold a pod, and what they have.
func (p *packing) addNodes() {
	var resources []int
	for k := range p.kinds {
		for r, amount := range p.kinds[k].Requests {
			if amount > 0 && !slices.Contains(resources, r) {
				resources = append(resources, r)
			}
		}
	}
	p.total = make([]int64, len(resources))
	p.requests = make([][]int64, len(p.kinds))
	for k := range p.kinds {
		p.requests[k] = make([]int64, len(resources))
		for i, r := range resources {
			if r < len(p.kinds[k].Requests) {
				p.requests[k][i] = p.kinds[k].Requests[r]
			}
			p.total[i] += p.requests[k][i] * int64(p.kinds[k].Count)
		}
	}
	most := len(p.room.Nodes)
	limit, empty := make([]int32, len(p.kinds)*most), make([]int32, len(p.kinds)*most)
	p.nodes, p.all = make([]int, 0, most), make([]int32, 0, most)
	p.free = make([]int64, 0, most*len(resources))
	for _, node := range p.room.Nodes {
		at := len(p.nodes)
		for _, r := range resources {
			p.free = append(p.free, p.room.Free[node][r])
		}
		usable := false
		for k := range p.kinds {
			most32 := int32(min(p.room.Limit(k, node), p.kinds[k].Count))
			fit := p.fitting(k, at, most32)
			limit[k*most+at], empty[k*most+at] = most32, fit
			usable = usable || fit > 0
		}
		if !usable {
			p.free = p.free[:at*len(resources)]
			continue
		}
		p.nodes, p.all = append(p.nodes, node), append(p.all, int32(at))
	}
	n := len(p.nodes)
	p.limit, p.empty = limit, empty
	if n < most {
		for k := range p.kinds {
			copy(limit[k*n:(k+1)*n], limit[k*most:k*most+n])
			copy(empty[k*n:(k+1)*n], empty[k*most:k*most+n])
		}
	}
}

// weighBulk finds out which kinds take the most of what the room has.
func (p *packing) weighBulk() {
	p.bulk = make([]float64, len(p.kinds))
	for r := range p.total {
		var all float64
		for pos := range p.nodes {
			all += float64(p.free[pos*len(p.total)+r])
		}
		for k := range p.kinds {
			p.bulk[k] = max(p.bulk[k], float64(p.requests[k][r])/max(all, 1))
		}
	}
}

// fitting returns how many pods of a kind the free resources of a node allow, up
// to most.
func (p *packing) fitting(kind, pos int, most int32) int32 {
	free := p.free[pos*len(p.total) : (pos+1)*len(p.total)]
	for r, amount := range p.requests[kind] {
		if amount <= 0 {
			continue
		}
		if int64(most)*amount > free[r] {
			most = int32(max(free[r], 0) / amount)
		}
	}
	return max(most, 0)
}

// addNatures tells the natures of the kinds.
func (p *packing) addNatures() {
	p.natureOf = make([]int32, len(p.kinds))
	for k := range p.kinds {
		kind := &p.kinds[k]
		p.natureOf[k] = -1
		if kind.G > 0 {
			p.natureOf[k] = p.nature(nature{unit: kind.Unit, domain: kind.Domain, rdma: kind.RDMA, align: 1})
		}
	}
}

// nature returns the index of a nature.
func (p *packing) nature(n nature) int32 {
	at := slices.Index(p.natures, n)
	if at < 0 {
		at = len(p.natures)
		p.natures = append(p.natures, n)
	}
	return int32(at)
}

// addPlaces tells the places of nodes and fixed members.
func (p *packing) addPlaces(fixed []Member) {
	ids := make(map[string]int32)
	var key []byte
	place := func(facts *Facts) int32 {
		key = facts.append(key[:0])
		id, known := ids[string(key)]
		if !known {
			id = int32(len(p.places))
			ids[string(key)] = id
			p.places = append(p.places, facts)
			apart := p.m.link(facts, facts)
			p.plain = append(p.plain, !apart.nvlink && apart.rdma == p.m.within(facts, false).rdma)
			p.hasCliques = p.hasCliques || facts.Clique != topology.None
		}
		return id
	}
	p.placeOf = make([]int32, len(p.nodes))
	for pos, node := range p.nodes {
		p.placeOf[pos] = place(&p.room.Facts[node])
	}
	if len(fixed) == 0 {
		return
	}
	byNode := groupByNode(fixed, p.room.Facts)
	p.fixedMore = p.m.correction(byNode)
	p.fixedAt, p.isFixed = make(map[int32][]group), make([]bool, len(p.nodes))
	on := make(map[int][]group)
	for i := range byNode {
		g := &byNode[i]
		on[g.node] = append(on[g.node], *g)
		p.fixedCells = append(p.fixedCells, cell{place: place(g.facts), nature: p.nature(g.nature), sum: g.sum, squares: g.squares})
	}
	for pos, node := range p.nodes {
		if groups := on[node]; groups != nil {
			p.fixedAt[int32(pos)] = groups
			p.isFixed[pos] = true
		}
	}
}

// hasFixed reports whether a fixed member is on one of the nodes.
func (p *packing) hasFixed(nodes []int32) bool {
	return p.isFixed != nil && slices.ContainsFunc(nodes, func(pos int32) bool { return p.isFixed[pos] })
}

// fit returns how many more pods of a kind a node can hold now.
func (p *packing) fit(kind int, pos int32) int32 {
	if p.load[pos] == 0 {
		return p.empty[kind*len(p.all)+int(pos)]
	}
	at := kind*len(p.all) + int(pos)
	return p.fitting(kind, int(pos), p.limit[at]-p.count[at])
}

// put places pods, or takes them off when the count is negative.
func (p *packing) put(kind int, pos, count int32) {
	p.count[kind*len(p.all)+int(pos)] += count
	p.load[pos] += count
	free := p.free[int(pos)*len(p.total) : (int(pos)+1)*len(p.total)]
	for r, amount := range p.requests[kind] {
		free[r] -= amount * int64(count)
	}
}

// seat places pods and notes them down.
func (p *packing) seat(kind int, pos, count int32) {
	p.put(kind, pos, count)
	p.placed = append(p.placed, seat{kind: int32(kind), pos: pos, count: count})
}

// vacate takes all pods off.
func (p *packing) vacate() {
	for _, s := range p.placed {
		p.put(int(s.kind), s.pos, -s.count)
	}
	p.placed = p.placed[:0]
}

// occupy places what a candidate says, with nothing placed before.
func (p *packing) occupy(c *candidate) {
	for _, s := range c.seats {
		p.seat(int(s.kind), s.pos, s.count)
	}
}

// unreachable is the cost of a pair that cannot reach each other.
const unreachable = 1e6

// between is the cost of a pair on two nodes.
func (p *packing) between(a, b int32, l link) float64 {
	if cost := p.m.cost(&p.natures[a], &p.natures[b], l); cost >= 0 {
		return cost
	}
	return unreachable
}

// together is what a pair costs more on one node of a place than on two.
func (p *packing) together(a, b int32, place int32) float64 {
	facts := p.places[place]
	return p.between(a, b, p.m.within(facts, false)) - p.between(a, b, p.m.link(facts, facts))
}

// sumUp brings the cells up to date with what is placed.
func (p *packing) sumUp() {
	clear(p.cellAt)
	p.cells = p.cells[:0]
	for _, c := range p.fixedCells {
		p.add(c)
	}
	for _, s := range p.placed {
		if n := p.natureOf[s.kind]; n >= 0 {
			g, count := p.kinds[s.kind].G, float64(s.count)
			p.add(cell{place: p.placeOf[s.pos], nature: n, sum: g * count, squares: g * g * count})
		}
	}
}

// add adds accelerators to the cells.
func (p *packing) add(c cell) {
	key := int64(c.place)<<32 | int64(c.nature)
	at, known := p.cellAt[key]
	if !known {
		at = int32(len(p.cells))
		p.cellAt[key] = at
		p.cells = append(p.cells, cell{place: c.place, nature: c.nature})
	}
	p.cells[at].sum += c.sum
	p.cells[at].squares += c.squares
}

// cost is the time of all pairs, each by its weight: the mean time times a constant.
func (p *packing) cost() float64 {
	p.sumUp()
	return p.fixedMore + p.sharing() + p.costAll(p.cells, func(a, b *cell) link {
		return p.m.link(p.places[a.place], p.places[b.place])
	})
}

// sharing is what the pairs on one node cost more than on two, but for those of
// fixed members.
func (p *packing) sharing() float64 {
	var more float64
	for _, s := range p.placed {
		if p.natureOf[s.kind] >= 0 && !p.plain[p.placeOf[s.pos]] && (p.load[s.pos] > 1 || p.isFixed != nil && p.isFixed[s.pos]) {
			// Pairs of pods that are both placed here are met from both sides.
			more += float64(s.count) * p.sharers(int(s.kind), s.pos, 1, 0.5)
		}
	}
	return more
}

// sharers is what a pod of a kind costs more on a node because of those that are
// there: not counting the given number of its own kind, and counting pods that are
// not fixed by a share.
func (p *packing) sharers(kind int, pos, without int32, share float64) float64 {
	n := p.natureOf[kind]
	var more float64
	for k := range p.kinds {
		count := p.count[k*len(p.all)+int(pos)]
		if k == kind {
			count -= without
		}
		if count > 0 && p.natureOf[k] >= 0 {
			more += share * float64(count) * p.kinds[k].G * p.together(n, p.natureOf[k], p.placeOf[pos])
		}
	}
	if p.isFixed != nil && p.isFixed[pos] {
		for i := range p.fixedAt[pos] {
			f := &p.fixedAt[pos][i]
			more += f.sum * p.together(n, p.nature(f.nature), p.placeOf[pos])
		}
	}
	return more * p.kinds[kind].G
}

// bestLink is what two places have between them at best.
func (p *packing) bestLink() link {
	best := link{nvlink: p.hasCliques, rdma: p.m.TCP}
	deepest := 0
	for _, place := range p.places {
		deepest = max(deepest, len(place.Fabric))
	}
	for n := range deepest + 1 {
		best.rdma = max(best.rdma, p.m.tier(n))
	}
	return best
}

// boundCost works out the ideal: a bound that the cost cannot be below. It is that
// of pods which are all as close to each other as can be, but for fixed members,
// which stay as they are.
func (p *packing) boundCost() {
	best := p.bestLink()
	ideal := func(*cell, *cell) link { return best }
	if len(p.fixedCells) > 0 {
		p.fixedExcess = p.cost() - p.costAll(p.cells, ideal)
	}
	sums := make([]cell, len(p.natures))
	for n := range sums {
		sums[n].nature = int32(n)
	}
	for k := range p.kinds {
		if n := p.natureOf[k]; n >= 0 {
			g, count := p.kinds[k].G, float64(p.kinds[k].Count)
			sums[n].sum += g * count
			sums[n].squares += g * g * count
		}
	}
	for _, c := range p.fixedCells {
		sums[c.nature].sum += c.sum
		sums[c.nature].squares += c.squares
	}
	p.ideal = p.fixedExcess + p.costAll(sums, ideal)
}

// costAll is the cost of the pairs of all cells, given what there is between two.
func (p *packing) costAll(cells []cell, between func(a, b *cell) link) float64 {
	var total float64
	for i := range cells {
		a := &cells[i]
		for j := range i {
			b := &cells[j]
			total += a.sum * b.sum * p.between(a.nature, b.nature, between(a, b))
		}
		if mass := (a.sum*a.sum - a.squares) / 2; mass > 0 {
			total += mass * p.between(a.nature, a.nature, between(a, a))
		}
	}
	return total
}
