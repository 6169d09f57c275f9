// SPDX-License-Identifier: Apache-2.0

package placement

import (
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
