// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

func TestOrderOfCandidates(t *testing.T) {
	seats := func(nodes ...int) []score.Seats {
		var s []score.Seats
		for _, n := range nodes {
			s = append(s, score.Seats{Node: n, Count: 1})
		}
		return s
	}
	// Each is better than the next in one thing, and worse in all that come after.
	order := []candidate{
		{missed: []int{0, 2}, time: score.Result{Time: 9, Pairs: true}},
		{missed: []int{1, 0}, time: score.Result{Time: 1, Pairs: true}},
		{missed: []int{1, 0}, time: score.Result{Time: 1.025, Pairs: true}, reused: 2, companions: 1},
		{missed: []int{1, 0}, time: score.Result{Time: 1.022, Pairs: true}, reused: 1, companions: 3},
		{missed: []int{1, 0}, time: score.Result{Time: 1.022, Pairs: true}, reused: 1, companions: 2, near: 1},
		{missed: []int{1, 0}, time: score.Result{Time: 1.025, Pairs: true}, reused: 1, companions: 1, near: 5, leftover: 9},
		{missed: []int{1, 0}, time: score.Result{Time: 1.025, Pairs: true}, reused: 1, companions: 1, near: 4, leftover: 1, opened: 3},
		{missed: []int{1, 0}, time: score.Result{Time: 1.025, Pairs: true}, reused: 1, companions: 1, near: 4, leftover: 2, opened: 1, avoidable: 4},
		{missed: []int{1, 0}, time: score.Result{Time: 1.025, Pairs: true}, reused: 1, companions: 1, near: 4, leftover: 2, opened: 2, avoidable: 1, rank: 8},
		{missed: []int{1, 0}, time: score.Result{Time: 1.025, Pairs: true}, reused: 1, companions: 1, near: 4, leftover: 2, opened: 2, avoidable: 2, rank: 6, seats: seats(5, 6)},
		{missed: []int{1, 0}, time: score.Result{Time: 1.025, Pairs: true}, reused: 1, companions: 1, near: 4, leftover: 2, opened: 2, avoidable: 2, rank: 7, seats: seats(1, 3)},
		{missed: []int{1, 0}, time: score.Result{Time: 1.025, Pairs: true}, reused: 1, companions: 1, near: 4, leftover: 2, opened: 2, avoidable: 2, rank: 7, seats: seats(2, 3)},
	}
	for i := range order {
		for j := range order {
			got := better(&order[i], &order[j], 1)
			if i < j && got >= 0 || i > j && got <= 0 || i == j && got != 0 {
				t.Errorf("comparing candidates %d and %d gives %d", i, j, got)
			}
		}
	}
}

func TestWiderScopesPreferFirst(t *testing.T) {
	// One block holds the gang, in two racks for each config; the racks that hold a
	// config are in two blocks.
	levels := []*topology.Level{levelOf("block", "1 1 1 1 2 3"), levelOf("rack", "1 2 3 4 5 6")}
	slots := []int{1, 1, 1, 1, 2, 2}
	scopes := []string{"gang", "config-0", "config-1"}
	packs := map[string]pack{
		"gang":     {preferred: []string{"block"}},
		"config-0": {preferred: []string{"rack"}},
		"config-1": {preferred: []string{"rack"}},
	}
	groups := []group{
		{count: 2, scopes: []string{"gang", "config-0"}, domain: none},
		{count: 2, scopes: []string{"gang", "config-1"}, domain: none, unit: 1},
	}
	for _, enumerable := range []bool{true, false} {
		p := gangOf(levels, slots, scopes, packs, groups...)
		s := newSearch(p, clusterOf(t, p))
		s.enumerable = enumerable
		solution, shortage := s.run()
		if shortage != nil {
			t.Fatalf("got shortage %+v", shortage)
		}
		for _, n := range solution.Nodes {
			if levels[0].Of[n] != 0 {
				t.Errorf("all ways looked at: %v: got nodes %v, want the block that holds the gang", enumerable, solution.Nodes)
				break
			}
		}
	}
}

func TestPlaceToReuseIsPreferredAmongEquals(t *testing.T) {
	levels := []*topology.Level{levelOf("rack", "1 1 2 2 3 3")}
	for _, tc := range []struct {
		name  string
		slots []int
		reuse []int
		want  []int
	}{
		{"as good as others", []int{1, 1, 1, 1, 1, 1}, []int{2, 3}, []int{2, 3}},
		{"less tight than others", []int{1, 1, 3, 3, 1, 1}, []int{2, 3}, []int{2, 2}},
		{"worse than others", []int{1, 1, 1, 1, 1, 1}, []int{1, 2}, []int{0, 1}},
		{"without room", []int{1, 1, 1, 0, 1, 1}, []int{2, 3}, []int{0, 1}},
		{"in part", []int{1, 1, 1, 1, 1, 1}, []int{5}, []int{4, 5}},
	} {
		for _, enumerable := range []bool{true, false} {
			p := gangOf(levels, tc.slots, []string{"gang"}, map[string]pack{"gang": {preferred: []string{"rack"}}},
				group{count: 2, scopes: []string{"gang"}, domain: none})
			p.Reuse = tc.reuse
			s := newSearch(p, clusterOf(t, p))
			s.enumerable = enumerable
			solution, shortage := s.run()
			if shortage != nil {
				t.Fatalf("%s: got shortage %+v", tc.name, shortage)
			}
			if slices.Sort(solution.Nodes); !slices.Equal(solution.Nodes, tc.want) {
				t.Errorf("%s, all ways looked at: %v: got nodes %v, want %v", tc.name, enumerable, solution.Nodes, tc.want)
			}
		}
	}
}

func TestCandidatesAreAssessed(t *testing.T) {
	p := gangOf([]*topology.Level{levelOf("rack", "1 1 2 2"), levelOf("clique", "1 2 - -")}, []int{4, 1, 1, 1}, []string{"gang"}, nil,
		group{count: 2, scopes: []string{"gang"}, domain: none})
	f := newField(p, clusterOf(t, p))
	for _, tc := range []struct {
		name  string
		nodes []int
		want  candidate
	}{
		{name: "one node", nodes: []int{0, 0}, want: candidate{leftover: 2, opened: 1, avoidable: 2}},
		{name: "one rack, two NVLink domains", nodes: []int{0, 1}, want: candidate{leftover: 3, opened: 2, avoidable: 2, rank: 1}},
		{name: "one rack without NVLink", nodes: []int{2, 3}, want: candidate{leftover: 0, rank: 5}},
		{name: "two racks", nodes: []int{1, 2}, want: candidate{leftover: 1 << 40, opened: 1, avoidable: 1, rank: 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seats := []score.Seats{{Node: tc.nodes[0], Count: 2}}
			if tc.nodes[1] != tc.nodes[0] {
				seats = []score.Seats{{Node: tc.nodes[0], Count: 1}, {Node: tc.nodes[1], Count: 1}}
			}
			got := f.assess(seats, f.nodes, f.rate(seats))
			if got.leftover != tc.want.leftover || got.opened != tc.want.opened || got.avoidable != tc.want.avoidable || got.rank != tc.want.rank {
				t.Errorf("got leftover %d, opened %d, avoidable %d, rank %d; want %d, %d, %d, %d", got.leftover, got.opened, got.avoidable, got.rank,
					tc.want.leftover, tc.want.opened, tc.want.avoidable, tc.want.rank)
			}
		})
	}
}

// manyRacks is 40 blocks of two racks of one node each.
func manyRacks() []*topology.Level {
	return []*topology.Level{benchLevel("block", 80, 2), benchLevel("rack", 80, 1)}
}

func TestConfigsWithARackEachShareABlock(t *testing.T) {
	// Only the last block has two racks that hold a config; the tightest racks for
	// one are spread over the others.
	slots := make([]int, 80)
	for n := range slots {
		slots[n] = 1 + n%2
	}
	slots[78], slots[79] = 3, 3
	p := gangOf(manyRacks(), slots, []string{"gang", "config-0", "config-1"},
		map[string]pack{"config-0": {required: "rack"}, "config-1": {required: "rack"}},
		group{count: 2, scopes: []string{"gang", "config-0"}, domain: none}, group{count: 2, scopes: []string{"gang", "config-1"}, domain: none, unit: 1})
	solution, shortage := Search(p, clusterOf(t, p))
	if shortage != nil {
		t.Fatalf("got shortage %+v", shortage)
	}
	if least := min(solution.Nodes[0], solution.Nodes[2]); least < 78 {
		t.Errorf("got nodes %v, want those of the last block", solution.Nodes)
	}
}

func TestOneOfManyRacksIsNearCompanions(t *testing.T) {
	slots := make([]int, 80)
	for n := range slots {
		slots[n] = 2
	}
	slots[60] = 4
	p := gangOf(manyRacks(), slots, []string{"gang"}, map[string]pack{"gang": {required: "rack"}}, group{count: 2, scopes: []string{"gang"}, domain: none})
	p.Near = []int{60}
	solution, shortage := Search(p, clusterOf(t, p))
	if shortage != nil {
		t.Fatalf("got shortage %+v", shortage)
	}
	if solution.Nodes[0] != 60 || solution.Nodes[1] != 60 {
		t.Errorf("got nodes %v, want those where a companion is", solution.Nodes)
	}
}
