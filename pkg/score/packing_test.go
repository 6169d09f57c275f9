// SPDX-License-Identifier: Apache-2.0

package score

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

func TestSplitPartsADomainByLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t, rapid.IntRange(1, 20).Draw(t, "nodes"))
		room := &Room{Facts: facts, Levels: levelsOf(facts), Limit: func(int, int) int { return 1 }}
		for i := range facts {
			room.Nodes, room.Free = append(room.Nodes, i), append(room.Free, nil)
		}
		m := DefaultModel()
		p := newPacking(&m, []Kind{{Count: 1}}, nil, room)
		var walk func(nodes []int32, depth int)
		walk = func(nodes []int32, depth int) {
			before := slices.Clone(nodes)
			lists, outside := p.split(nodes, depth)
			var all []int32
			for i, list := range lists {
				all = append(all, list...)
				if depth == len(room.Levels) {
					continue
				}
				of := room.Levels[depth].Of
				if last := i == len(lists)-1; (of[list[0]] == topology.None) != (outside && last) {
					t.Fatalf("depth %d: %v of %v, outside %v", depth, list, lists, outside)
				}
				if slices.ContainsFunc(list, func(pos int32) bool { return of[pos] != of[list[0]] }) {
					t.Fatalf("depth %d: %v are not one domain", depth, list)
				}
				walk(list, depth+1)
			}
			slices.Sort(all)
			slices.Sort(before)
			if !slices.Equal(all, before) {
				t.Fatalf("depth %d: %v was split into %v", depth, before, lists)
			}
		}
		for depth := range len(room.Levels) + 1 {
			walk(p.all, depth)
		}
	})
}

func TestExhaustAloneFindsTheBest(t *testing.T) {
	solvable := 0
	examples(func(p *puzzle) {
		pack := newPacking(p.model, p.kinds, p.fixed, p.room)
		found := pack.exhaust(nil)
		least, canBe := p.least()
		if !canBe {
			return
		}
		solvable++
		if len(found) == 0 {
			t.Fatal("no packing was found")
		}
		members := withSeats(p.kinds, p.fixed, pack.seatsOf(found[0].seats))
		if got, _, _ := p.model.Time(members, p.room.Facts); math.Abs(got-least) > 1e-6*least {
			t.Fatalf("time = %v, want %v", got, least)
		}
	})
	if solvable < 500 {
		t.Errorf("only %d examples have a packing", solvable)
	}
}

// Two units of two pods sit across two full leaves: no pod can move, but two can
// change places.
func TestImproveSwapsWhereNoPodCanMove(t *testing.T) {
	const no = topology.None
	room := tieRoom([]int32{0, 0, 1, 1}, []int32{no, no, no, no}, []int64{8, 8, 8, 8})
	kinds := []Kind{gang(2, 8, 0, no), gang(2, 8, 1, no)}
	for k := range kinds {
		kinds[k].Requests = []int64{8}
	}
	m := DefaultModel()
	p := newPacking(&m, kinds, nil, room)
	c := candidate{seats: []seat{{0, 0, 1}, {1, 1, 1}, {0, 2, 1}, {1, 3, 1}}}
	p.occupy(&c)
	c.cost = p.cost()
	p.vacate()
	p.improve(&c)
	leaf := make(map[int32]int32)
	for _, s := range c.seats {
		in := room.Facts[p.nodes[s.pos]].Fabric[0]
		if other, known := leaf[s.kind]; known && other != in {
			t.Fatalf("unit %d is in two leaves: %+v", s.kind, c.seats)
		}
		leaf[s.kind] = in
	}
	if want := slices.MinFunc(p.candidates(), func(a, b candidate) int {
		return int(math.Copysign(1, a.cost-b.cost))
	}).cost; math.Abs(c.cost-want) > 1e-9*want {
		t.Errorf("cost = %v, want %v", c.cost, want)
	}
}

// costOf is the cost of seats in an empty room.
func (p *packing) costOf(seats []seat) float64 {
	p.occupy(&candidate{seats: seats})
	defer p.vacate()
	return p.cost()
}

// The difference that a move or a swap makes is worked out without summing up all
// pairs again; it has to be the same.
func TestMovesAndSwapsCostWhatTheyAreSaidTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		puzzle := drawPuzzle(t)
		puzzle.room.Limit = func(int, int) int { return 9 }
		p := newPacking(puzzle.model, puzzle.kinds, puzzle.fixed, puzzle.room)
		if len(p.all) == 0 {
			t.Skip("no node can hold a pod")
		}
		pos := rapid.Int32Range(0, int32(len(p.all)-1))
		var seats []seat
		for k := range p.kinds {
			for range p.kinds[k].Count {
				seats = append(seats, seat{int32(k), pos.Draw(t, "pos"), 1})
			}
		}
		a := rapid.IntRange(0, len(seats)-1).Draw(t, "a")
		b := rapid.IntRange(0, len(seats)-1).Draw(t, "b")
		to := pos.Draw(t, "to")
		x, y := seats[a], seats[b]
		p.occupy(&candidate{seats: seats})
		s := newImprover(p)
		var moved, swapped float64
		canMove := p.natureOf[x.kind] >= 0 && to != x.pos
		if canMove {
			moved = s.moved(x.kind, x.pos, to)
		}
		canSwap := x.kind != y.kind && x.pos != y.pos
		if canSwap {
			swapped = s.swapped(x.kind, x.pos, y.kind, y.pos)
		}
		p.vacate()
		before := p.costOf(seats)
		same := func(what string, said float64) {
			if got := p.costOf(seats) - before; math.Abs(got-said) > 1e-6+1e-9*math.Abs(said) {
				t.Fatalf("%s costs %v, was said to cost %v", what, got, said)
			}
		}
		if canMove {
			seats[a].pos = to
			same("the move", moved)
			seats[a].pos = x.pos
		}
		if canSwap {
			seats[a].pos, seats[b].pos = y.pos, x.pos
			same("the swap", swapped)
		}
	})
}
