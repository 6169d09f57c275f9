// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// levelOf makes a level from the label values of the nodes, "-" for none.
func levelOf(key, values string) *topology.Level {
	level := &topology.Level{Key: key}
	for _, value := range strings.Fields(values) {
		d := topology.None
		if value != "-" {
			at := slices.Index(level.Values, value)
			if at < 0 {
				at = len(level.Values)
				level.Values = append(level.Values, value)
			}
			d = int32(at)
		}
		level.Of = append(level.Of, d)
	}
	return level
}

// pack is what a test says of a scope.
type pack struct {
	required  string
	preferred []string
}

// group is a class of pods that take one slot and one accelerator each.
type group struct {
	count int
	// scopes are names of scopes.
	scopes []string
	domain int32
	unit   int32
	// bound are the nodes of bound members.
	bound []int
}

// gangOf makes a problem from label values by level, broad to narrow, the free slots
// of the nodes, and scopes by name, the wider before the narrower.
func gangOf(levels []*topology.Level, slots []int, names []string, packs map[string]pack, groups ...group) *Problem {
	byKey := func(key string) *topology.Level {
		for _, level := range levels {
			if level.Key == key {
				return level
			}
		}
		return nil
	}
	model := score.DefaultModel()
	p := &Problem{Budget: 10000, Model: &model}
	var clique *topology.Level
	var fabric []*topology.Level
	for _, level := range levels {
		if level.Key != "clique" {
			fabric = append([]*topology.Level{level}, fabric...)
		} else if clique = level; !slices.ContainsFunc(groups, func(g group) bool { return g.domain != none }) {
			continue
		}
		p.Split = append(p.Split, level)
	}
	p.Facts = score.FactsOf(len(slots), clique, fabric)
	all := make([]int, len(slots))
	for n, free := range slots {
		all[n] = n
		p.Nodes = append(p.Nodes, Node{Free: []int64{int64(free)}, Total: []int64{int64(max(free, 1))}})
	}
	for _, name := range names {
		s := Scope{Name: name, Required: byKey(packs[name].required)}
		for _, key := range packs[name].preferred {
			s.Preferred = append(s.Preferred, byKey(key))
		}
		p.Scopes = append(p.Scopes, s)
	}
	for _, g := range groups {
		c := Class{Weight: 1, Nodes: all, Requests: []int64{1}, G: 1, RDMA: true, Unit: g.unit, Domain: g.domain, Channel: topology.None}
		for _, name := range g.scopes {
			c.Scopes = append(c.Scopes, slices.Index(names, name))
		}
		for _, n := range g.bound {
			p.Pins = append(p.Pins, Pin{Scopes: c.Scopes, Class: len(p.Classes), Member: score.Member{
				Node: n, G: 1, Unit: g.unit, Domain: g.domain, Channel: topology.None, RDMA: true, Align: 1,
			}})
		}
		for range g.count {
			p.Pods = append(p.Pods, len(p.Classes))
		}
		p.Classes = append(p.Classes, c)
	}
	return p
}

// clusterOf makes a cluster with the capacities that the problem says.
func clusterOf(t *testing.T, p *Problem) *fakeCluster {
	tc := caseOf(p)
	return newFakeCluster(t, p, tc.requests, tc.capacity)
}

// onePerNode admits one pod of the gang on a node.
func onePerNode(c *fakeCluster, _, node int) bool { return !slices.Contains(c.on, node) }

var (
	sixNodes = "1 1 2 2 3 3"
	none     = topology.None
)

func TestSearchInScopes(t *testing.T) {
	gang := []string{"gang"}
	for _, tc := range []struct {
		name   string
		levels []*topology.Level
		slots  []int
		scopes []string
		packs  map[string]pack
		groups []group
		admits func(*fakeCluster, int, int) bool
		// want is the nodes of the pods in order; sorted if sets is set.
		want     []int
		sets     bool
		shortage *Shortage
	}{
		{
			name:   "a rack required for a group config holds its group, the others go elsewhere (volcano#5189)",
			levels: []*topology.Level{levelOf("rack", "1 2 3")},
			slots:  []int{2, 4, 2},
			scopes: []string{"gang", "config", "a", "b"},
			packs:  map[string]pack{"config": {required: "rack"}},
			groups: []group{{count: 4, scopes: []string{"gang", "config", "a"}, domain: none}, {count: 4, scopes: []string{"gang", "b"}, domain: none, unit: 1}},
			want:   []int{1, 1, 1, 1, 0, 0, 2, 2},
		},
		{
			name:   "a rack required for a group holds it, the others go elsewhere (volcano#5189)",
			levels: []*topology.Level{levelOf("rack", "1 2 3")},
			slots:  []int{2, 4, 2},
			scopes: []string{"gang", "a", "b"},
			packs:  map[string]pack{"a": {required: "rack"}},
			groups: []group{{count: 4, scopes: []string{"gang", "a"}, domain: none}, {count: 4, scopes: []string{"gang", "b"}, domain: none, unit: 1}},
			want:   []int{1, 1, 1, 1, 0, 0, 2, 2},
		},
		{
			name:   "three levels hold at once",
			levels: []*topology.Level{levelOf("zone", "1 1 1 1 2 2 2 2"), levelOf("block", "1 1 2 2 3 3 4 4"), levelOf("rack", "1 2 3 4 5 6 7 8")},
			slots:  []int{3, 1, 3, 1, 2, 2, 2, 2},
			scopes: []string{"gang", "config-0", "config-1", "a", "b"},
			packs:  map[string]pack{"gang": {required: "zone"}, "config-0": {required: "block"}, "config-1": {required: "block"}, "a": {required: "rack"}, "b": {required: "rack"}},
			groups: []group{{count: 2, scopes: []string{"gang", "config-0", "a"}, domain: none}, {count: 2, scopes: []string{"gang", "config-0", "b"}, domain: none}, {count: 4, scopes: []string{"gang", "config-1"}, domain: none, unit: 1}},
			// The first zone has no block with two racks for two pods each.
			want: []int{4, 4, 5, 5, 6, 6, 7, 7},
		},
		{
			name:   "the preferred rack is the one that has room (volcano#4343, #5205)",
			levels: []*topology.Level{levelOf("rack", sixNodes)},
			slots:  []int{8, 8, 8, 0, 8, 0},
			scopes: gang,
			packs:  map[string]pack{"gang": {preferred: []string{"rack"}}},
			groups: []group{{count: 2, scopes: gang, domain: none}},
			admits: onePerNode,
			want:   []int{0, 1},
			sets:   true,
		},
		{
			name:   "what a rack does not hold uses two, never three (volcano#4343, #5205)",
			levels: []*topology.Level{levelOf("rack", sixNodes)},
			slots:  []int{8, 8, 8, 8, 8, 8},
			scopes: gang,
			packs:  map[string]pack{"gang": {preferred: []string{"rack"}}},
			groups: []group{{count: 4, scopes: gang, domain: none}},
			admits: onePerNode,
			want:   []int{0, 1, 2, 3},
			sets:   true,
		},
		{
			name:   "a replacement joins the bound members' rack",
			levels: []*topology.Level{levelOf("rack", sixNodes)},
			slots:  []int{0, 1, 4, 4, 4, 4},
			scopes: gang,
			packs:  map[string]pack{"gang": {required: "rack"}},
			groups: []group{{count: 1, scopes: gang, domain: none, bound: []int{0, 0}}},
			want:   []int{1},
		},
		{
			name:     "a replacement waits while the bound members' rack is full (volcano#3877)",
			levels:   []*topology.Level{levelOf("rack", sixNodes)},
			slots:    []int{0, 0, 4, 4, 4, 4},
			scopes:   gang,
			packs:    map[string]pack{"gang": {required: "rack"}},
			groups:   []group{{count: 1, scopes: gang, domain: none, bound: []int{0, 1}}},
			shortage: &Shortage{Placed: 0, Wanted: 1, Scope: 0, Domain: 0},
		},
		{
			name:   "bound members in two domains confine the scope to both",
			levels: []*topology.Level{levelOf("rack", sixNodes)},
			slots:  []int{1, 0, 1, 0, 4, 4},
			scopes: gang,
			packs:  map[string]pack{"gang": {required: "rack"}},
			groups: []group{{count: 2, scopes: gang, domain: none, bound: []int{1, 3}}},
			want:   []int{0, 2},
		},
		{
			name:   "a bound member without the label confines nothing",
			levels: []*topology.Level{levelOf("rack", "1 1 2 2 - -")},
			slots:  []int{1, 0, 1, 1, 0, 4},
			scopes: gang,
			packs:  map[string]pack{"gang": {required: "rack"}},
			groups: []group{{count: 2, scopes: gang, domain: none, bound: []int{4}}},
			want:   []int{2, 3},
		},
		{
			name:   "preferred is drawn to bound members, and falls back",
			levels: []*topology.Level{levelOf("block", "1 1 1 1 2 2"), levelOf("rack", sixNodes)},
			slots:  []int{0, 1, 1, 0, 2, 2},
			scopes: gang,
			packs:  map[string]pack{"gang": {preferred: []string{"rack", "block"}}},
			groups: []group{{count: 2, scopes: gang, domain: none, bound: []int{0}}},
			want:   []int{1, 2},
		},
		{
			name:   "rack preferred and block required: a rack if possible",
			levels: []*topology.Level{levelOf("block", "1 1 1 1 2 2"), levelOf("rack", sixNodes)},
			slots:  []int{1, 1, 1, 2, 1, 1},
			scopes: gang,
			packs:  map[string]pack{"gang": {required: "block", preferred: []string{"rack"}}},
			groups: []group{{count: 3, scopes: gang, domain: none}},
			want:   []int{2, 3, 3},
		},
		{
			name:   "rack preferred and block required: else within one block",
			levels: []*topology.Level{levelOf("block", "1 1 1 1 2 2"), levelOf("rack", sixNodes)},
			slots:  []int{1, 1, 1, 1, 1, 1},
			scopes: gang,
			packs:  map[string]pack{"gang": {required: "block", preferred: []string{"rack"}}},
			groups: []group{{count: 3, scopes: gang, domain: none}},
			want:   []int{0, 1, 2},
		},
		{
			name:   "levels that do not nest hold by intersection",
			levels: []*topology.Level{levelOf("block", "1 1 1 2 2 2"), levelOf("rack", "1 1 2 2 3 3")},
			slots:  []int{1, 0, 2, 3, 1, 1},
			scopes: []string{"gang", "a"},
			packs:  map[string]pack{"gang": {required: "block"}, "a": {required: "rack"}},
			groups: []group{{count: 3, scopes: []string{"gang", "a"}, domain: none}},
			// The rack of five lies in two blocks.
			want: []int{3, 3, 3},
		},
		{
			name:   "nodes without the label are in no domain",
			levels: []*topology.Level{levelOf("rack", "- - 1 1 2 2")},
			slots:  []int{4, 4, 1, 1, 1, 0},
			scopes: gang,
			packs:  map[string]pack{"gang": {required: "rack"}},
			groups: []group{{count: 2, scopes: gang, domain: none}},
			want:   []int{2, 3},
		},
		{
			name:     "no node carries the label",
			levels:   []*topology.Level{levelOf("rack", "- - -")},
			slots:    []int{4, 4, 4},
			scopes:   gang,
			packs:    map[string]pack{"gang": {required: "rack"}},
			groups:   []group{{count: 2, scopes: gang, domain: none}},
			shortage: &Shortage{Placed: 0, Wanted: 2, Scope: 0, Domain: topology.None},
		},
		{
			name:   "a value that repeats in two blocks is one domain",
			levels: []*topology.Level{levelOf("block", "1 1 2 2"), levelOf("rack", "1 2 1 2")},
			slots:  []int{1, 2, 1, 0},
			scopes: gang,
			packs:  map[string]pack{"gang": {required: "rack"}},
			groups: []group{{count: 2, scopes: gang, domain: none, bound: []int{2}}},
			want:   []int{0, 2},
		},
		{
			name:     "the domain that comes nearest is named",
			levels:   []*topology.Level{levelOf("rack", sixNodes)},
			slots:    []int{1, 1, 2, 3, 1, 1},
			scopes:   []string{"gang", "a"},
			packs:    map[string]pack{"a": {required: "rack"}},
			groups:   []group{{count: 6, scopes: []string{"gang", "a"}, domain: none}},
			shortage: &Shortage{Placed: 5, Wanted: 6, Scope: 1, Domain: 1},
		},
		{
			name:     "of the racks in either block, the one that comes nearest is named",
			levels:   []*topology.Level{levelOf("block", "1 1 2 2"), levelOf("rack", "1 3 2 3")},
			slots:    []int{2, 2, 3, 2},
			scopes:   []string{"gang", "a"},
			packs:    map[string]pack{"gang": {required: "block"}, "a": {required: "rack"}},
			groups:   []group{{count: 4, scopes: []string{"gang", "a"}, domain: none}},
			shortage: &Shortage{Placed: 3, Wanted: 4, Scope: 1, Domain: 2},
		},
		{
			name:     "what does not fit without constraints is not put down to them",
			levels:   []*topology.Level{levelOf("rack", sixNodes)},
			slots:    []int{1, 0, 2, 0, 0, 1},
			scopes:   gang,
			packs:    map[string]pack{"gang": {required: "rack"}},
			groups:   []group{{count: 6, scopes: gang, domain: none}},
			shortage: &Shortage{Placed: 4, Wanted: 6, Alone: true, Scope: -1, Domain: topology.None},
		},
		{
			name:   "members of a ComputeDomain that cut across groups stay in one NVLink domain",
			levels: []*topology.Level{levelOf("rack", "1 1 1 1"), levelOf("clique", "1 1 2 2")},
			slots:  []int{2, 1, 2, 2},
			scopes: []string{"gang", "domain"},
			packs:  map[string]pack{"domain": {required: "clique"}},
			groups: []group{{count: 2, scopes: []string{"gang", "domain"}}, {count: 2, scopes: []string{"gang", "domain"}, unit: 1}, {count: 1, scopes: []string{"gang"}, domain: none, unit: 1}},
			want:   []int{0, 2, 2, 3, 3},
			sets:   true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := gangOf(tc.levels, tc.slots, tc.scopes, tc.packs, tc.groups...)
			p.Interacts = tc.admits != nil
			for _, enumerable := range []bool{true, false} {
				c := clusterOf(t, p)
				c.admits = tc.admits
				s := newSearch(p, c)
				s.enumerable = s.enumerable && enumerable
				solution, shortage := s.run()
				if tc.shortage != nil {
					if shortage == nil {
						t.Fatalf("got %+v, want shortage %+v", solution, tc.shortage)
					}
					if diff := cmp.Diff(tc.shortage, shortage); diff != "" {
						t.Errorf("shortage (-want +got):\n%s", diff)
					}
					c.expectEmpty(t, caseOf(p).capacity)
					continue
				}
				if shortage != nil {
					t.Fatalf("got shortage %+v, want nodes %v", shortage, tc.want)
				}
				c.expectPlaced(t, p, solution.Nodes)
				got := slices.Clone(solution.Nodes)
				if tc.sets {
					slices.Sort(got)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("nodes, all ways looked at: %v (-want +got):\n%s", enumerable, diff)
				}
			}
		})
	}
}

func TestSearchPrefersRoomForCompanionsThenClosenessToThem(t *testing.T) {
	gang := []string{"gang"}
	blocks := []*topology.Level{levelOf("block", "1 1 2 2 3 3")}
	packs := map[string]pack{"gang": {required: "block"}}
	// Block 1 is the tightest for two pods, block 3 has most room.
	slots := []int{1, 1, 1, 2, 3, 3}
	base := func() *Problem {
		p := gangOf(blocks, slots, gang, packs, group{count: 2, scopes: gang, domain: none}, group{scopes: gang, domain: none})
		p.Facts[3].Clique = 0
		return p
	}
	for _, tc := range []struct {
		name   string
		change func(p *Problem)
		want   []int
	}{
		{name: "the tightest domain without companions", change: func(*Problem) {}, want: []int{0, 1}},
		{name: "one that has room for one more", change: func(p *Problem) { p.Companions = []Companion{{Class: 1, Count: 1}} }, want: []int{2, 3}},
		{name: "one that has room for four more", change: func(p *Problem) { p.Companions = []Companion{{Class: 1, Count: 4}} }, want: []int{4, 4}},
		{name: "one that is near those bound", change: func(p *Problem) { p.Near = []int{5} }, want: []int{4, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, enumerable := range []bool{true, false} {
				p := base()
				tc.change(p)
				c := clusterOf(t, p)
				c.requestsOfClass = map[int]resources{1: {1}}
				s := newSearch(p, c)
				s.enumerable = enumerable
				solution, shortage := s.run()
				if shortage != nil {
					t.Fatalf("got shortage %+v", shortage)
				}
				for at, n := range solution.Nodes {
					if blocks[0].Of[n] != blocks[0].Of[tc.want[at]] {
						t.Errorf("all ways looked at: %v: got nodes %v, want the block of %v", enumerable, solution.Nodes, tc.want)
						break
					}
				}
			}
		})
	}
}

func TestPodsWithoutNVLinkAvoidNVLinkDomains(t *testing.T) {
	p := gangOf([]*topology.Level{levelOf("rack", "1 1 1 1"), levelOf("clique", "1 1 - -")}, []int{1, 1, 1, 1}, []string{"gang"}, nil,
		group{count: 2, scopes: []string{"gang"}, domain: none})
	for _, enumerable := range []bool{true, false} {
		s := newSearch(p, clusterOf(t, p))
		s.enumerable = enumerable
		solution, shortage := s.run()
		if shortage != nil {
			t.Fatalf("got shortage %+v", shortage)
		}
		if diff := cmp.Diff([]int{2, 3}, solution.Nodes); diff != "" {
			t.Errorf("nodes, all ways looked at: %v (-want +got):\n%s", enumerable, diff)
		}
	}
}
