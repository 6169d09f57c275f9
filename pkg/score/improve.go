// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"slices"
)

// improveAll improves the best candidates, and returns all of them.
func (p *packing) improveAll(found []candidate) []candidate {
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	if found[0].cost <= p.ideal()*(1+exact) {
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
	seats []seat // one for each kind and position
	potential
	left int // evaluations
}

// potential is the cost of an accelerator of each nature in each place, computed
// when asked for and forgotten when pods move.
type potential struct {
	value   []float64
	version []int32
	now     int32
}

// improve makes a candidate better, if single moves and swaps can.
func (p *packing) improve(c *candidate) {
	p.occupy(c)
	defer p.vacate()
	p.cost()
	s := &improver{packing: p, left: 20000 + 20*(len(p.all)+len(c.seats))}
	s.value = make([]float64, len(p.natures)*len(p.places))
	s.version = make([]int32, len(s.value))
	s.now = 1
	s.gather()
	threshold := -c.cost * exact
	for s.left > 0 && (s.moveOne(threshold) || s.swapOne(threshold)) {
		continue
	}
	p.placed = append(p.placed[:0], s.seats...)
	if cost := p.cost(); cost < c.cost {
		c.cost, c.seats = cost, slices.Clone(s.seats)
	}
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

// at returns the potential of a kind in a place.
func (s *improver) at(kind, place int32) float64 {
	n := s.natureOf[kind]
	i := int(n)*len(s.places) + int(place)
	if s.version[i] == s.now {
		return s.value[i]
	}
	var value float64
	facts := s.places[place]
	for j := range s.cells {
		c := &s.cells[j]
		value += c.sum * s.between(n, c.nature, s.m.link(facts, s.places[c.place]))
	}
	s.value[i], s.version[i] = value, s.now
	s.left -= 1 + len(s.cells)/16
	return value
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
	if s.load[to] > 0 || s.isFixed != nil && s.isFixed[to] {
		delta += s.sharers(int(kind), to, 0, 1)
	}
	if s.load[from] > 1 || s.isFixed != nil && s.isFixed[from] {
		delta -= s.sharers(int(kind), from, 1, 1)
	}
	return delta
}

// targets returns the nodes to which a pod of a kind may move: those in use, and
// the first of each place that is not.
func (s *improver) targets(kind int32) []int32 {
	var targets []int32
	seen := make([]bool, len(s.places))
	for _, pos := range s.all {
		if s.empty[int(kind)*len(s.all)+int(pos)] == 0 {
			continue
		}
		if s.load[pos] == 0 && (s.isFixed == nil || !s.isFixed[pos]) {
			if seen[s.placeOf[pos]] {
				continue
			}
			seen[s.placeOf[pos]] = true
		}
		targets = append(targets, pos)
	}
	return targets
}

// moveOne makes the best move of a pod of each seat, and reports whether there was
// one.
func (s *improver) moveOne(threshold float64) bool {
	any := false
	for kind := range s.kinds {
		if s.natureOf[kind] < 0 {
			continue
		}
		k := int32(kind) //nolint:gosec // gangs have fewer kinds
		targets := s.targets(k)
		for i := 0; i < len(s.seats) && s.left > 0; i++ {
			from := s.seats[i].pos
			if s.seats[i].kind != k {
				continue
			}
			best, to := threshold, int32(-1)
			for _, pos := range targets {
				if s.left--; pos == from {
					continue
				}
				if delta := s.moved(k, from, pos); delta < best && s.fit(kind, pos) > 0 {
					best, to = delta, pos
				}
			}
			if to >= 0 {
				s.transfer(k, from, to)
				any = true
				i-- // more of them may follow, or another seat has taken the place
			}
		}
	}
	return any
}

// swapOne makes the first swap of pods of two seats that lowers the cost, and
// reports whether there was one.
func (s *improver) swapOne(threshold float64) bool {
	for i := range s.seats {
		a := s.seats[i]
		for j := range i {
			b := s.seats[j]
			if a.kind == b.kind || a.pos == b.pos {
				continue
			}
			if s.left--; s.left <= 0 {
				return false
			}
			if s.trySwap(a.kind, a.pos, b.kind, b.pos, threshold) {
				return true
			}
		}
	}
	return false
}

// trySwap exchanges a pod of kind k on node u and one of kind l on node v if that
// is possible and lowers the cost.
func (s *improver) trySwap(k, u, l, v int32, threshold float64) bool {
	if s.natureOf[k] == s.natureOf[l] && s.kinds[k].G == s.kinds[l].G {
		return false
	}
	if s.swapped(k, u, l, v) >= threshold {
		return false
	}
	s.put(int(k), u, -1)
	s.put(int(l), v, -1)
	fits := s.fit(int(l), u) > 0
	if fits {
		s.put(int(l), u, 1)
		fits = s.fit(int(k), v) > 0
		s.put(int(l), u, -1)
	}
	s.put(int(k), u, 1)
	s.put(int(l), v, 1)
	if !fits {
		return false
	}
	s.transfer(k, u, v)
	s.transfer(l, v, u)
	return true
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
		s.now++
	}
}
