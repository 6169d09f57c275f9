// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

func TestFillInScopes(t *testing.T) {
	gang := []string{"gang"}
	rack := []*topology.Level{levelOf("rack", sixNodes)}
	for _, tc := range []struct {
		name   string
		levels []*topology.Level
		slots  []int
		scopes []string
		packs  map[string]pack
		groups []group
		// floor is the number of pods that Search places first.
		floor int
		want  []int
	}{
		{
			name: "extras stay in the required rack of the floor and are left out when it is full", levels: rack,
			slots: []int{1, 1, 2, 1, 9, 0}, scopes: gang, packs: map[string]pack{"gang": {required: "rack"}},
			groups: []group{{count: 4, scopes: gang, domain: none, bound: []int{3}}}, floor: 2,
			want: []int{3, -1},
		},
		{
			name: "extras stay in the required rack of the floor", levels: rack,
			slots: []int{9, 0, 2, 1, 4, 0}, scopes: gang, packs: map[string]pack{"gang": {required: "rack"}},
			groups: []group{{count: 4, scopes: gang, domain: none}}, floor: 3,
			want: []int{-1},
		},
		{
			name: "extras join the preferred rack of their group, though most of the gang is elsewhere", levels: rack,
			slots: []int{0, 1, 0, 0, 9, 9}, scopes: []string{"gang", "a"}, packs: map[string]pack{"a": {preferred: []string{"rack"}}},
			groups: []group{{count: 2, scopes: []string{"gang", "a"}, domain: none, bound: []int{0}}, {scopes: []string{"gang"}, domain: none, bound: []int{4, 4, 5}}},
			want:   []int{1, 4},
		},
		{
			name: "extras stay in the required rack of bound members", levels: rack,
			slots: []int{1, 1, 1, 1, 9, 0}, scopes: gang, packs: map[string]pack{"gang": {required: "rack"}},
			groups: []group{{count: 3, scopes: gang, domain: none, bound: []int{3}}},
			want:   []int{2, 3, -1},
		},
		{
			name: "extras go near the rest, then where there is room", levels: []*topology.Level{levelOf("block", "1 1 1 1 2 2"), levelOf("rack", sixNodes)},
			slots: []int{9, 1, 1, 1, 9, 9}, scopes: gang, packs: map[string]pack{"gang": {preferred: []string{"rack", "block"}}},
			groups: []group{{count: 4, scopes: gang, domain: none, bound: []int{2}}},
			want:   []int{2, 3, 0, 0},
		},
		{
			name: "extras go near the rest though nothing is preferred", levels: rack,
			slots: []int{9, 1, 1, 1, 9, 9}, scopes: gang,
			groups: []group{{count: 2, scopes: gang, domain: none, bound: []int{5}}},
			want:   []int{4, 4},
		},
		{
			name: "the first extra of a group without a floor takes the rack that holds them all", levels: rack,
			slots: []int{1, 1, 3, 0, 5, 0}, scopes: []string{"gang", "a"}, packs: map[string]pack{"a": {required: "rack"}},
			groups: []group{{count: 3, scopes: []string{"gang", "a"}, domain: none}},
			want:   []int{2, 2, 2},
		},
		{
			name: "where no rack holds them all, the one that holds most", levels: rack,
			slots: []int{1, 1, 3, 0, 2, 0}, scopes: []string{"gang", "a"}, packs: map[string]pack{"a": {required: "rack"}},
			groups: []group{{count: 4, scopes: []string{"gang", "a"}, domain: none}},
			want:   []int{2, 2, 2, -1},
		},
		{
			name: "the second extra of a group without a floor follows the first to its preferred rack", levels: rack,
			slots: []int{1, 0, 2, 0, 1, 1}, scopes: []string{"gang", "a"}, packs: map[string]pack{"a": {preferred: []string{"rack"}}},
			groups: []group{{count: 0, scopes: []string{"gang"}, domain: none, bound: []int{5}}, {count: 3, scopes: []string{"gang", "a"}, domain: none}},
			want:   []int{4, 5, 0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := gangOf(tc.levels, tc.slots, tc.scopes, tc.packs, tc.groups...)
			c := clusterOf(t, p)
			var base *Solution
			if tc.floor > 0 {
				floor := *p
				floor.Pods = p.Pods[:tc.floor]
				var shortage *Shortage
				if base, shortage = Search(&floor, c); shortage != nil {
					t.Fatalf("the floor is not placed: %+v", shortage)
				}
			}
			var extras []int
			for pod := tc.floor; pod < len(p.Pods); pod++ {
				extras = append(extras, pod)
			}
			if diff := cmp.Diff(tc.want, Fill(p, c, extras, base)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// nvl72 is racks of 18 nodes with 4 GPUs each that are one NVLink domain, under one
// spine, and a gang of pods that take a node each and are in one ComputeDomain.
// taken nodes of each rack are in use.
func nvl72(pods int, taken []int, preferred bool, bound ...int) *Problem {
	var slots []int
	rack, spine := &topology.Level{Key: "clique"}, &topology.Level{Key: "spine", Values: []string{"spine"}}
	for r, n := range taken {
		rack.Values = append(rack.Values, string(rune('a'+r)))
		for node := range 18 {
			rack.Of, spine.Of = append(rack.Of, int32(r)), append(spine.Of, 0)
			if node < n {
				slots = append(slots, 0)
			} else {
				slots = append(slots, 1)
			}
		}
	}
	packs := map[string]pack{"gang": {required: "clique"}}
	if preferred {
		packs["gang"] = pack{preferred: []string{"clique"}}
	}
	p := gangOf([]*topology.Level{spine, rack}, slots, []string{"gang"}, packs, group{count: pods, scopes: []string{"gang"}, bound: bound})
	for i := range p.Classes {
		p.Classes[i].G = 4
	}
	for i := range p.Pins {
		p.Pins[i].Member.G = 4
	}
	return p
}

func TestScoreOfNVLinkRacks(t *testing.T) {
	for _, tc := range []struct {
		name      string
		pods      int
		taken     []int
		preferred bool
		bound     []int
		// want is the score, 0 if the gang has to wait; placed of its pods have room in
		// the best rack then.
		want   float64
		placed int
	}{
		{name: "a free rack", pods: 18, taken: []int{0, 0}, want: 1},
		{name: "a node of each rack in use, rack required", pods: 18, taken: []int{1, 3}, placed: 17},
		{name: "17 and 1", pods: 18, taken: []int{1, 3}, preferred: true, want: 0.3462},
		{name: "16 and 2", pods: 18, taken: []int{2, 2}, preferred: true, want: 0.2195},
		{name: "9 and 9", pods: 18, taken: []int{9, 9}, preferred: true, want: 0.1},
		{name: "16 of 18", pods: 16, taken: []int{2, 0}, want: 1},
		{name: "18 and 2 are the best of 20", pods: 20, taken: []int{0, 0}, preferred: true, want: 1},
		{name: "bound members count", pods: 17, taken: []int{1, 0}, preferred: true, bound: []int{0}, want: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := nvl72(tc.pods, tc.taken, tc.preferred, tc.bound...)
			solution, shortage := Search(p, clusterOf(t, p))
			if tc.want == 0 {
				want := &Shortage{Placed: tc.placed, Wanted: tc.pods}
				if diff := cmp.Diff(want, shortage); diff != "" {
					t.Errorf("shortage (-want +got):\n%s", diff)
				}
				return
			}
			if shortage != nil {
				t.Fatalf("got shortage %+v", shortage)
			}
			if got := score.Score(Best(p), solution.Time); got < tc.want-0.0005 || got > tc.want+0.0005 {
				t.Errorf("got score %v, want %v", got, tc.want)
			}
		})
	}
}

func TestBestIgnoresWhatIsInUse(t *testing.T) {
	p := nvl72(18, []int{18, 18}, false)
	if _, shortage := Search(p, clusterOf(t, p)); shortage == nil {
		t.Fatal("a gang is placed on nodes that are all in use")
	}
	if best, want := Best(p).Time, 1.0/900; best < want*0.9999 || best > want*1.0001 {
		t.Errorf("got time %v, want that of one NVLink domain, %v", best, want)
	}
	for n := range p.Nodes {
		if n != 0 {
			p.Classes[0].Eligible = append(p.Classes[0].Eligible, n)
		}
	}
	p.Pods = append(p.Pods, 0)
	if best := Best(p); !best.Infeasible {
		t.Errorf("got %+v for 19 pods that require one rack of 18, want it infeasible", best)
	}
}
