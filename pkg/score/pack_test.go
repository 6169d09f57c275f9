// SPDX-License-Identifier: Apache-2.0

package score

import (
	"fmt"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// puzzle is a small Pack problem.
type puzzle struct {
	model *Model
	kinds []Kind
	fixed []Member
	room  *Room
}

// drawPuzzle draws a room of a few domains and a gang of a few kinds.
func drawPuzzle(t *rapid.T) *puzzle {
	nodes := rapid.IntRange(2, 7).Draw(t, "nodes")
	facts := drawFacts(t, nodes)
	free := make([][]int64, nodes)
	for i := range free {
		free[i] = []int64{rapid.Int64Range(0, 4).Draw(t, "free"), 3}
	}
	p := &puzzle{model: drawModel(t), room: &Room{Facts: facts, Free: free}}
	for i := range nodes {
		p.room.Nodes = append(p.room.Nodes, i)
	}
	pods := rapid.IntRange(1, 7).Draw(t, "pods")
	for pods > 0 && len(p.kinds) < 3 {
		kind := Kind{
			Count:  rapid.IntRange(1, pods).Draw(t, "count"),
			G:      rapid.SampledFrom([]float64{1, 4, 8, 0}).Draw(t, "g"),
			Unit:   rapid.Int32Range(0, 1).Draw(t, "unit"),
			Domain: rapid.Int32Range(topology.None, 1).Draw(t, "computeDomain"),
			RDMA:   rapid.IntRange(0, 3).Draw(t, "rdma") > 0,
		}
		kind.Requests = []int64{rapid.Int64Range(1, 3).Draw(t, "request"), 1}
		pods -= kind.Count
		p.kinds = append(p.kinds, kind)
	}
	if rapid.IntRange(0, 2).Draw(t, "withFixed") == 0 {
		for range rapid.IntRange(1, 2).Draw(t, "fixed") {
			p.fixed = append(p.fixed, drawMember(t, nodes))
		}
	}
	limits := rapid.SliceOfN(rapid.IntRange(0, 9), len(p.kinds)*nodes, len(p.kinds)*nodes).Draw(t, "limits")
	p.room.Limit = func(kind, node int) int { return (limits[kind*nodes+node] + 3) / 4 }
	p.room.Levels = levelsOf(facts)
	return p
}

// levelsOf makes levels of the facts, broad to narrow.
func levelsOf(facts []Facts) []*topology.Level {
	var levels []*topology.Level
	level := func(key string, of func(f *Facts) int32) {
		l := &topology.Level{Key: key, Values: []string{"0", "1", "2"}}
		for i := range facts {
			l.Of = append(l.Of, of(&facts[i]))
		}
		levels = append(levels, l)
	}
	for n := len(facts[0].Fabric) - 1; n >= 0; n-- {
		level(fmt.Sprintf("tier-%d", n), func(f *Facts) int32 { return f.Fabric[n] })
	}
	level("clique", func(f *Facts) int32 { return f.Clique })
	return levels
}

// least looks at every packing and returns the least time, and whether there is a
// packing.
func (p *puzzle) least() (best float64, found bool) {
	var pods []int
	for k := range p.kinds {
		for range p.kinds[k].Count {
			pods = append(pods, k)
		}
	}
	free := make([][]int64, len(p.room.Free))
	for i := range free {
		free[i] = append([]int64(nil), p.room.Free[i]...)
	}
	counts := make(map[[2]int]int)
	members := append([]Member(nil), p.fixed...)
	best = math.Inf(1)
	var place func(i, from int)
	place = func(i, from int) {
		if i == len(pods) {
			t, _, feasible := plainTime(p.model, members, p.room.Facts)
			if feasible {
				found, best = true, min(best, t)
			}
			return
		}
		k := pods[i]
		if i > 0 && pods[i-1] != k {
			from = 0
		}
		for node := from; node < len(free); node++ {
			at := [2]int{k, node}
			if counts[at] >= p.room.Limit(k, node) || !take(free[node], p.kinds[k].Requests, 1) {
				continue
			}
			counts[at]++
			members = append(members, withSeats(p.kinds, nil, []Seats{{Kind: k, Node: node, Count: 1}})...)
			place(i+1, node)
			members = members[:len(members)-1]
			counts[at]--
			take(free[node], p.kinds[k].Requests, -1)
		}
	}
	place(0, 0)
	return best, found
}

// take takes what a number of pods need, if it is there.
func take(free, requests []int64, count int64) bool {
	for r := range requests {
		if free[r] < requests[r]*count {
			return false
		}
	}
	for r := range requests {
		free[r] -= requests[r] * count
	}
	return true
}

// check fails the test unless the seats are a packing.
func (p *puzzle) check(t rapid.TB, seats []Seats) {
	t.Helper()
	placed := make([]int, len(p.kinds))
	used := make(map[int][]int64)
	for _, s := range seats {
		placed[s.Kind] += s.Count
		if s.Count > p.room.Limit(s.Kind, s.Node) {
			t.Fatalf("%d pods of kind %d on node %d, above its limit", s.Count, s.Kind, s.Node)
		}
		if used[s.Node] == nil {
			used[s.Node] = append([]int64(nil), p.room.Free[s.Node]...)
		}
		if !take(used[s.Node], p.kinds[s.Kind].Requests, int64(s.Count)) {
			t.Fatalf("too many pods on node %d: %+v", s.Node, seats)
		}
	}
	for k := range p.kinds {
		if placed[k] != p.kinds[k].Count {
			t.Fatalf("%d of %d pods of kind %d were placed", placed[k], p.kinds[k].Count, k)
		}
	}
}

func TestPackAgainstEveryPacking(t *testing.T) {
	cases, missed, unsolved := 0, 0, 0
	worst := 1.0
	rapid.Check(t, func(t *rapid.T) {
		p := drawPuzzle(t)
		least, found := p.least()
		seats, result, ok := p.model.Pack(p.kinds, p.fixed, p.room)
		if ok && !found {
			t.Fatalf("packed what cannot be packed: %+v", seats)
		}
		if !found {
			return
		}
		cases++
		if !ok {
			unsolved++
			return
		}
		p.check(t, seats)
		if plain, _, _ := plainTime(p.model, withSeats(p.kinds, p.fixed, seats), p.room.Facts); math.Abs(plain-result.Time) > 1e-9*plain {
			t.Fatalf("time = %v, want %v", result.Time, plain)
		}
		if least > 0 {
			worst = max(worst, result.Time/least)
			if result.Time > 1.02*least {
				missed++
			}
		}
	})
	fmt.Fprintln(os.Stderr, "cases", cases, "missed", missed, "unsolved", unsolved, "worst", worst)
}
