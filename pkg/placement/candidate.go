// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// scoreStep is the difference in score below which two placements are as good as
// each other, so that what comes after the score decides.
const scoreStep = 0.01

// candidate is a placement of all pods in figures.
type candidate struct {
	seats []score.Seats
	// lists are the nodes from which it was chosen, tries the number of times that
	// the cluster has refused it.
	lists nodeLists
	tries int
	time  score.Result

	// What follows orders candidates, in this order, after what is missed and the
	// score: see compare.
	missed                   []int
	reused, companions, near int64
	leftover                 int64
	opened, avoidable        int
	rank                     int64
}

// assess makes a candidate of seats.
func (f *field) assess(seats []score.Seats, lists nodeLists, time score.Result) *candidate {
	slices.SortFunc(seats, func(a, b score.Seats) int {
		return cmp.Or(cmp.Compare(f.place(a.Kind), f.place(b.Kind)), cmp.Compare(a.Node, b.Node))
	})
	c := &candidate{seats: seats, lists: lists, time: time, missed: f.missed(seats)}
	c.leftover = f.leftover(seats)
	c.companions = f.companionRoom(seats)
	cliques := make(map[int32]bool)
	for _, seat := range seats {
		count := int64(seat.Count)
		c.rank += count * int64(f.rank[seat.Kind][seat.Node])
		c.near += count * f.nearness(seat.Node)
		if f.reuse != nil && f.reuse[seat.Node] {
			c.reused += count
		}
		if clique := f.clique(seat.Node); clique != topology.None {
			cliques[clique] = true
			if f.p.Classes[seat.Kind].Domain == topology.None {
				c.avoidable += seat.Count
			}
		}
	}
	c.opened = len(cliques)
	return c
}

// place is the place of a class in the order of classes.
func (f *field) place(class int) int {
	return slices.Index(f.order, class)
}

func (f *field) clique(node int) int32 {
	if node >= len(f.p.Facts) {
		return topology.None
	}
	return f.p.Facts[node].Clique
}

// nearness is how close a node is to those of Near: for each of these the number
// of levels of Split that they share.
func (f *field) nearness(node int) int64 {
	var near int64
	for i, counts := range f.near {
		if d := domainOf(f.p.Split[i], node); d != topology.None && counts != nil {
			near += int64(counts[d])
		}
	}
	return near
}

// holders calls visit with each domain of each level that all seats and bound
// members are in.
func (f *field) holders(seats []score.Seats, visit func(level int, domain int32)) {
	for i, level := range f.levels {
		domain, one := topology.None, true
		for at := range len(seats) + len(f.pins) {
			var d int32
			if at < len(seats) {
				d = domainOf(level, seats[at].Node)
			} else {
				d = domainOf(level, f.pins[at-len(seats)].Member.Node)
			}
			if d == topology.None || at > 0 && d != domain {
				one = false
				break
			}
			domain = d
		}
		if one && domain != topology.None {
			visit(i, domain)
		}
	}
}

// leftover is the number of further pods of the heaviest class for which there was
// room in the tightest domain that holds the gang, before the rest of it came.
func (f *field) leftover(seats []score.Seats) int64 {
	if len(seats) == 0 {
		return 0
	}
	class := f.order[0]
	least := int64(-1)
	f.holders(seats, func(level int, domain int32) {
		if room := f.roomOf(level)[domain]; least < 0 || room < least {
			least = room
		}
	})
	if len(f.pins) == 0 && !slices.ContainsFunc(seats, func(s score.Seats) bool { return s.Node != seats[0].Node }) {
		least = int64(f.limit[class][seats[0].Node])
	}
	if least < 0 {
		// Only the cluster holds it, as it does every other of that kind.
		return 1 << 40
	}
	return least - int64(f.count[class])
}

// companionRoom counts the companions for which room is left beside the seats, in
// each domain that holds the gang and in the whole cluster.
func (f *field) companionRoom(seats []score.Seats) int64 {
	if len(f.p.Companions) == 0 {
		return 0
	}
	used := f.usageOf(seats)
	var room int64
	f.holders(seats, func(level int, domain int32) {
		for _, companion := range f.p.Companions {
			var places int64
			for _, n := range f.p.Classes[companion.Class].Nodes {
				if domainOf(f.levels[level], n) != domain {
					continue
				}
				limit := int(f.companions[companion.Class][n])
				if f.free != nil {
					limit = fits(used.left(f, n), f.p.Classes[companion.Class].Requests, limit)
				}
				places += int64(limit)
			}
			room += min(places, int64(companion.Count))
		}
	})
	return room
}

// better orders candidates, of which the fastest of those that miss the least takes
// the time least: negative if a is better than b.
func better(a, b *candidate, least float64) int {
	return cmp.Or(
		slices.Compare(a.missed, b.missed),
		cmp.Compare(steps(a.time, least), steps(b.time, least)),
		cmp.Compare(b.reused, a.reused),
		cmp.Compare(b.companions, a.companions),
		cmp.Compare(b.near, a.near),
		cmp.Compare(a.leftover, b.leftover),
		cmp.Compare(a.opened, b.opened),
		cmp.Compare(a.avoidable, b.avoidable),
		cmp.Compare(a.rank, b.rank),
		slices.CompareFunc(a.seats, b.seats, func(a, b score.Seats) int {
			return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(b.Count, a.Count))
		}))
}

// steps is how many whole steps of score a time is behind the least.
func steps(r score.Result, least float64) int {
	s := r.Align
	if r.Pairs {
		s = 1
		if least < r.Time {
			s = least / r.Time
		}
	}
	return int((1 - s) / scoreStep)
}

// rankCandidates sorts the candidates, the best first.
func rankCandidates(candidates []*candidate) {
	if len(candidates) == 0 {
		return
	}
	least := leastTime(candidates)
	slices.SortStableFunc(candidates, func(a, b *candidate) int { return better(a, b, least) })
}

// leastTime is the least time of those candidates that miss the least.
func leastTime(candidates []*candidate) float64 {
	first := candidates[0]
	for _, c := range candidates[1:] {
		if d := slices.Compare(c.missed, first.missed); d < 0 || d == 0 && c.time.Time < first.time.Time {
			first = c
		}
	}
	return first.time.Time
}
