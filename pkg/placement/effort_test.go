// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

func TestSearchCountsOnceAndRefusesWithoutTrying(t *testing.T) {
	gang := []string{"gang"}
	for _, tc := range []struct {
		name     string
		required string
		slots    []int
		fits     bool
	}{
		{name: "no room at all", slots: []int{1, 1, 1, 1, 0, 0}},
		{name: "no room in any rack", required: "rack", slots: []int{2, 2, 1, 1, 0, 4}},
		{name: "room", required: "rack", slots: []int{4, 4, 1, 1, 0, 4}, fits: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := gangOf([]*topology.Level{levelOf("rack", sixNodes)}, tc.slots, gang,
				map[string]pack{"gang": {required: tc.required}}, group{count: 3, scopes: gang, domain: none}, group{count: 2, scopes: gang, domain: none})
			c := clusterOf(t, p)
			solution, shortage := Search(p, c)
			if (shortage == nil) != tc.fits {
				t.Fatalf("got %+v, shortage %+v", solution, shortage)
			}
			if most := len(p.Classes) * len(p.Nodes); c.counted > most {
				t.Errorf("%d counts were asked for, more than one for each class and node, which are %d", c.counted, most)
			}
			want := 0
			if tc.fits {
				want = len(p.Pods)
			}
			if c.calls != want {
				t.Errorf("%d placements were tried, want %d", c.calls, want)
			}
		})
	}
}

func TestSearchSeesThatTwoClassesDoNotFitTogether(t *testing.T) {
	gang := []string{"gang"}
	slots := make([]int, 20)
	for n := range slots {
		slots[n] = 5
	}
	p := gangOf([]*topology.Level{levelOf("rack", strings.Repeat("1 ", 20))}, slots, gang,
		map[string]pack{"gang": {required: "rack"}}, group{count: 12, scopes: gang, domain: none}, group{count: 12, scopes: gang, domain: none})
	for class := range p.Classes {
		p.Classes[class].Requests[0] = 3
	}
	c := clusterOf(t, p)
	_, shortage := Search(p, c)
	want := &Shortage{Class: 1, Placed: 8, Wanted: 12, Scope: -1, Domain: topology.None}
	if diff := cmp.Diff(want, shortage); diff != "" {
		t.Errorf("shortage (-want +got):\n%s", diff)
	}
	if c.calls > 0 {
		t.Errorf("%d placements were tried", c.calls)
	}
}

func TestSearchLearnsFromRefusals(t *testing.T) {
	gang := []string{"gang"}
	packs := map[string]pack{"gang": {preferred: []string{"rack"}}}
	t.Run("one per node", func(t *testing.T) {
		// The first rack has a node too few, which the figures do not tell.
		slots := make([]int, 19)
		for n := range slots {
			slots[n] = 9
		}
		p := gangOf([]*topology.Level{levelOf("rack", strings.Repeat("1 ", 9)+strings.Repeat("2 ", 10))}, slots, gang, packs, group{count: 10, scopes: gang, domain: none})
		p.Interacts = true
		c := clusterOf(t, p)
		c.admits = onePerNode
		solution, shortage := Search(p, c)
		if shortage != nil {
			t.Fatalf("got shortage %+v", shortage)
		}
		if least := slices.Min(solution.Nodes); least < 9 {
			t.Errorf("got nodes %v, want those of the second rack", solution.Nodes)
		}
		if c.calls > 60 {
			t.Errorf("%d placements were tried for 10 pods", c.calls)
		}
	})
	t.Run("tiny", func(t *testing.T) {
		p := gangOf([]*topology.Level{levelOf("rack", sixNodes)}, []int{2, 0, 2, 0, 2, 2}, gang, packs, group{count: 2, scopes: gang, domain: none})
		c := clusterOf(t, p)
		c.admits = onePerNode
		solution, shortage := Search(p, c)
		if shortage != nil {
			t.Fatalf("got shortage %+v", shortage)
		}
		if least := slices.Min(solution.Nodes); least < 4 {
			t.Errorf("got nodes %v, want those of the third rack", solution.Nodes)
		}
		if c.calls > 12 {
			t.Errorf("%d placements were tried for 2 pods", c.calls)
		}
	})
}

func TestSearchReconsidersByFiguresFirst(t *testing.T) {
	// A node holds one pod of either class, though the sums, and the least that any
	// asks for, would have it that it holds two.
	gang := []string{"gang"}
	p := gangOf([]*topology.Level{levelOf("rack", strings.Repeat("1 ", 9))}, make([]int, 9), gang,
		map[string]pack{"gang": {required: "rack"}}, group{count: 5, scopes: gang, domain: none}, group{count: 5, scopes: gang, domain: none})
	for n := range p.Nodes {
		p.Nodes[n].Free = []int64{3, 2}
	}
	p.Classes[0].Requests, p.Classes[1].Requests = []int64{2, 1}, []int64{1, 2}
	c := clusterOf(t, p)
	_, shortage := Search(p, c)
	want := &Shortage{Class: 1, Placed: 4, Wanted: 5, Scope: 0, Domain: 0}
	if diff := cmp.Diff(want, shortage); diff != "" {
		t.Errorf("shortage (-want +got):\n%s", diff)
	}
	if c.calls > 0 {
		t.Errorf("%d placements were tried", c.calls)
	}
}

// alignedCluster is one whose pods reach their NICs well on some nodes only.
type alignedCluster struct {
	*fakeCluster
	align []float64
}

func (c *alignedCluster) Align(pod int) float64 {
	for at, placed := range c.placed {
		if placed == pod {
			return c.align[c.on[at]]
		}
	}
	c.t.Fatalf("pod %d is not placed", pod)
	return 0
}

func TestSearchTakesAnotherPlaceWhereNICsAreFar(t *testing.T) {
	gang := []string{"gang"}
	for _, enumerable := range []bool{true, false} {
		p := gangOf([]*topology.Level{levelOf("spine", "1 1 1 1"), levelOf("rack", "1 1 2 2")}, []int{1, 1, 1, 2}, gang,
			map[string]pack{"gang": {required: "rack"}}, group{count: 2, scopes: gang, domain: none})
		c := &alignedCluster{fakeCluster: clusterOf(t, p), align: []float64{0.55, 1, 1, 1}}
		s := newSearch(p, c)
		s.enumerable = enumerable
		solution, shortage := s.run()
		if shortage != nil {
			t.Fatalf("got shortage %+v", shortage)
		}
		c.expectPlaced(t, p, solution.Nodes)
		if solution.Time.Time > 1.0/50*1.0001 {
			t.Errorf("all ways looked at: %v: got nodes %v with time %v, want those where NICs are near", enumerable, solution.Nodes, solution.Time.Time)
		}
	}
}

// A narrow domain that reaches over both halves carries RDMA across: sums prove nothing.
func TestGangInADomainThatReachesOverTheHalvesIsNotRefused(t *testing.T) {
	levels := []*topology.Level{levelOf("group", "1 1 2 2"), levelOf("leaf", "1 2 2 3")}
	p := gangOf(levels, []int{1, 1, 1, 1}, []string{"gang"}, nil, group{count: 2, scopes: []string{"gang"}, domain: none})
	p.Model.StrictTop = true
	p.Classes[0].Nodes = []int{1, 2}
	if _, shortage := Search(p, clusterOf(t, p)); shortage != nil {
		t.Errorf("got shortage %+v", shortage)
	}
}

// Where RDMA does not work between the two halves of a cluster, sums tell that neither
// has room for the gang: nothing is tried.
func TestGangThatNoPartOfABrokenFabricHoldsIsRefusedBySums(t *testing.T) {
	for _, tc := range []struct {
		name  string
		bound []int
		count int
		fits  bool
	}{
		{"one half", nil, 30, true},
		{"more than one half", nil, 31, false},
		{"bound to the lesser half", []int{0}, 20, false},
		{"bound to the greater half", []int{39}, 30, true},
	} {
		slots := append(slices.Repeat([]int{1}, 30), slices.Repeat([]int{2}, 10)...)
		slots[0] = 0
		p := gangOf([]*topology.Level{levelOf("group", strings.Repeat("1 ", 20)+strings.Repeat("2 ", 20))}, slots, []string{"gang"}, nil,
			group{count: tc.count, scopes: []string{"gang"}, domain: none, bound: tc.bound})
		p.Model.StrictTop = true
		_, shortage := Search(p, clusterOf(t, p))
		if fits := shortage == nil; fits != tc.fits {
			t.Errorf("%s: got shortage %+v, fits: want %v", tc.name, shortage, tc.fits)
		}
		if shortage != nil && (shortage.Tried != 0 || shortage.Exhausted) {
			t.Errorf("%s: got shortage %+v, want one that nothing was tried for", tc.name, shortage)
		}
	}
}
