// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"slices"
)

// improveAll improves the best candidates, and returns all of them.
func (p *packing) improveAll(found []candidate) []candidate {
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	if len(found) == 0 || found[0].cost <= p.ideal*(1+exact) {
		return found
	}
	tried, last := 0, -1.0
	for i := range found {
		c := &found[i]
		if tried >= improved {
			break
		}
		if c.cost <= last*(1+exact) {
			continue // most likely the same but for names
		}
		last = c.cost
		tried++
		p.improve(c)
	}
	return found
}

// improver is a local search: pods move, or change places, while the cost falls.
type improver struct {
	*packing
	seats   []seat    // one for each kind and position
	byPlace [][]int32 // positions
	left    int       // evaluations

	// value is the cost of an accelerator of each nature in each place, computed when
	// asked for; version is one more than the number of moves that it includes, 0 if
	// it was never computed.
	value   []float64
	version []int32
	moves   []move
	// full is one more than the number of moves after which there was no room for a
	// kind in a place.
	full []int32
	seen []int32 // the same, of kinds in places that have no reason to move
}

// move is what a pod of a kind changed when it moved.
type move struct {
	kind, from, to int32 // places
}

// newImprover returns a local search that starts from what is placed.
func newImprover(p *packing) *improver {
	p.sumUp()
	s := &improver{packing: p, left: 20000 + 20*(len(p.all)+len(p.placed))}
	s.value = make([]float64, len(p.natures)*len(p.places))
	s.version = make([]int32, len(s.value))
	s.full = make([]int32, len(p.kinds)*len(p.places))
	s.seen = make([]int32, len(p.kinds)*len(p.places))
	s.byPlace = p.listPlaces()
	s.gather()
	return s
}

// improve makes a candidate better, if single moves and swaps can.
func (p *packing) improve(c *candidate) {
	p.occupy(c)
	defer p.vacate()
	s := newImprover(p)
	threshold := -c.cost * worthwhile
	for s.left > 0 && (s.moveOne(threshold) || s.swapOne(threshold)) {
		continue
	}
	p.placed = append(p.placed[:0], s.seats...)
	if cost := p.cost(); cost < c.cost {
		c.cost, c.seats = cost, slices.Clone(s.seats)
	}
}

// listPlaces returns the positions of each place.
func (p *packing) listPlaces() [][]int32 {
	sizes := make([]int, len(p.places))
	for _, place := range p.placeOf {
		sizes[place]++
	}
	lists := make([][]int32, len(p.places))
	all := make([]int32, 0, len(p.all))
	for place, size := range sizes {
		lists[place] = all[len(all) : len(all) : len(all)+size]
		all = all[:len(all)+size]
	}
	for pos, place := range p.placeOf {
		lists[place] = append(lists[place], int32(pos))
	}
	return lists
}

// gather makes the list of seats.
func (s *improver) gather() {
	s.seats = s.seats[:0]
	for k := range s.kinds {
		counts := s.count[k*len(s.all) : (k+1)*len(s.all)]
		for _, placed := range s.placed {
			if int(placed.kind) == k && counts[placed.pos] > 0 {
				s.seats = append(s.seats, seat{kind: placed.kind, pos: placed.pos, count: counts[placed.pos]})
				counts[placed.pos] = -counts[placed.pos]
			}
		}
		for _, placed := range s.placed {
			if int(placed.kind) == k && counts[placed.pos] < 0 {
				counts[placed.pos] = -counts[placed.pos]
			}
		}
	}
}

// at returns the cost of an accelerator of a kind in a place.
func (s *improver) at(kind, place int32) float64 {
	n := s.natureOf[kind]
	i := int(n)*len(s.places) + int(place)
	now := int32(len(s.moves)) + 1
	facts := s.places[place]
	if behind := int(now - s.version[i]); s.version[i] == 0 || 2*behind > len(s.cells) {
		s.value[i] = 0
		for j := range s.cells {
			c := &s.cells[j]
			s.value[i] += c.sum * s.between(n, c.nature, s.m.link(facts, s.places[c.place]))
		}
		s.left -= len(s.cells) / 8
	} else {
		for _, m := range s.moves[s.version[i]-1:] {
			delta := s.pair(kind, m.kind, place, m.to) - s.pair(kind, m.kind, place, m.from)
			s.value[i] += s.kinds[m.kind].G * delta
		}
		s.left -= behind / 4
	}
	s.version[i] = now
	return s.value[i]
}

// pair is the cost of an accelerator of one kind in one place and one of another in
// another.
func (s *improver) pair(k, l, from, to int32) float64 {
	return s.between(s.natureOf[k], s.natureOf[l], s.m.link(s.places[from], s.places[to]))
}

// moved is what it costs more to have a pod of a kind on another node.
func (s *improver) moved(kind, from, to int32) float64 {
	g := s.kinds[kind].G
	u, v := s.placeOf[from], s.placeOf[to]
	delta := s.at(kind, v) - s.at(kind, u)
	if u != v {
		delta += g * (s.pair(kind, kind, u, u) - s.pair(kind, kind, u, v))
	}
	delta *= g
	if !s.plain[v] && (s.load[to] > 0 || s.isFixed != nil && s.isFixed[to]) {
		delta += s.sharers(int(kind), to, 0, 1)
	}
	if !s.plain[u] && (s.load[from] > 1 || s.isFixed != nil && s.isFixed[from]) {
		delta -= s.sharers(int(kind), from, 1, 1)
	}
	return delta
}

// moveOne makes the best move of a pod of each seat, and reports whether there was
// one.
func (s *improver) moveOne(threshold float64) bool {
	moved := false
	for i := 0; i < len(s.seats) && s.left > 0; i++ {
		from := s.seats[i]
		if s.natureOf[from.kind] < 0 {
			continue
		}
		// In a plain place all pods of a kind have the same reasons to move.
		place := s.placeOf[from.pos]
		seen := &s.seen[int(from.kind)*len(s.places)+int(place)]
		now := int32(len(s.moves)) + 1
		if *seen == now {
			continue
		}
		if to := s.target(from.kind, from.pos, threshold); to >= 0 {
			s.transfer(from.kind, from.pos, to)
			moved = true
			i-- // more of them may follow, or another seat has taken the place
		} else if s.plain[place] {
			*seen = now
		}
	}
	return moved
}

// target returns the node to which a pod of a kind is best moved, -1 if it is best
// where it is.
func (s *improver) target(kind, from int32, threshold float64) int32 {
	best, to := threshold, int32(-1)
	now := int32(len(s.moves)) + 1
	for place, nodes := range s.byPlace {
		s.left--
		full := &s.full[int(kind)*len(s.places)+place]
		if *full == now || len(nodes) == 0 || s.plain[place] && (int(s.placeOf[from]) == place || s.moved(kind, from, nodes[0]) >= best) {
			continue
		}
		room, unused := false, false
		for _, pos := range nodes {
			if s.load[pos] == 0 && (s.isFixed == nil || !s.isFixed[pos]) && unused || s.fit(int(kind), pos) == 0 {
				continue // of unused nodes one is enough
			}
			unused = unused || s.load[pos] == 0
			room = true
			if pos == from {
				continue
			}
			s.left--
			if delta := s.moved(kind, from, pos); delta < best {
				best, to = delta, pos
			}
			if s.plain[place] {
				break
			}
		}
		if !room {
			*full = now
		}
	}
	return to
}

// swapOne makes the first swap of pods of two seats that lowers the cost, and
// reports whether there was one.
func (s *improver) swapOne(threshold float64) bool {
	groups := s.alike()
	for i, a := range groups {
		for _, b := range groups[:i] {
			if s.left--; s.left <= 0 {
				return false
			}
			if !s.worthSwapping(a[0], b[0], threshold) {
				continue
			}
			for _, x := range a {
				for _, y := range b {
					if s.left--; s.canSwap(x, y) {
						s.transfer(x.kind, x.pos, y.pos)
						s.transfer(y.kind, y.pos, x.pos)
						return true
					}
				}
			}
		}
	}
	return false
}

// alike returns the seats in groups for which it makes the same difference to move.
func (s *improver) alike() [][]seat {
	var groups [][]seat
	at := make(map[[2]int32]int)
	for _, x := range s.seats {
		key := [2]int32{x.kind, s.placeOf[x.pos]}
		if i, known := at[key]; known && s.plain[key[1]] {
			groups[i] = append(groups[i], x)
			continue
		}
		at[key] = len(groups)
		groups = append(groups, []seat{x})
	}
	return groups
}

// worthSwapping reports whether it lowers the cost if a pod of one seat and one of
// another change places.
func (s *improver) worthSwapping(a, b seat, threshold float64) bool {
	if a.kind == b.kind || a.pos == b.pos {
		return false
	}
	if place := s.placeOf[a.pos]; place == s.placeOf[b.pos] && s.plain[place] {
		return false
	}
	if s.natureOf[a.kind] == s.natureOf[b.kind] && s.kinds[a.kind].G == s.kinds[b.kind].G {
		return false
	}
	return s.swapped(a.kind, a.pos, b.kind, b.pos) < threshold
}

// canSwap reports whether a pod of one seat and one of another fit in each other's
// place.
func (s *improver) canSwap(a, b seat) bool {
	s.put(int(a.kind), a.pos, -1)
	s.put(int(b.kind), b.pos, -1)
	fits := s.fit(int(a.kind), b.pos) > 0 && s.fit(int(b.kind), a.pos) > 0
	s.put(int(a.kind), a.pos, 1)
	s.put(int(b.kind), b.pos, 1)
	return fits
}

// swapped is what it costs more to have a pod of kind k on node u and one of kind l
// on node v in each other's place.
func (s *improver) swapped(k, u, l, v int32) float64 {
	var delta float64
	if s.natureOf[k] >= 0 {
		delta += s.moved(k, u, v)
	}
	if s.natureOf[l] >= 0 {
		delta += s.moved(l, v, u)
	}
	if s.natureOf[k] < 0 || s.natureOf[l] < 0 {
		return delta
	}
	// Each was moved to where the other still was; in fact they are as far apart as
	// before.
	g := s.kinds[k].G * s.kinds[l].G
	p, q := s.placeOf[u], s.placeOf[v]
	apart := s.pair(k, l, p, q)
	delta -= g * (s.pair(k, l, q, q) + s.together(s.natureOf[k], s.natureOf[l], q) - apart)
	delta -= g * (s.pair(l, k, p, p) + s.together(s.natureOf[k], s.natureOf[l], p) - apart)
	return delta
}

// transfer moves a pod of a kind to another node.
func (s *improver) transfer(kind, from, to int32) {
	s.put(int(kind), from, -1)
	s.put(int(kind), to, 1)
	at := slices.IndexFunc(s.seats, func(x seat) bool { return x.kind == kind && x.pos == from })
	into := slices.IndexFunc(s.seats, func(x seat) bool { return x.kind == kind && x.pos == to })
	if into < 0 {
		into = len(s.seats)
		s.seats = append(s.seats, seat{kind: kind, pos: to})
	}
	s.seats[into].count++
	if s.seats[at].count--; s.seats[at].count == 0 {
		s.seats = slices.Delete(s.seats, at, at+1)
	}
	if n := s.natureOf[kind]; n >= 0 {
		g := s.kinds[kind].G
		s.add(cell{place: s.placeOf[from], nature: n, sum: -g, squares: -g * g})
		s.add(cell{place: s.placeOf[to], nature: n, sum: g, squares: g * g})
		s.moves = append(s.moves, move{kind: kind, from: s.placeOf[from], to: s.placeOf[to]})
	}
}
