// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// What a refusal teaches is good for finding the next candidate, and no proof that there
// is none.
func TestSearchDoesNotTakeARefusalForProof(t *testing.T) {
	gang := []string{"gang"}
	for _, tc := range []struct {
		name  string
		slots []int
		pods  int
		// greedy is what a pod takes while there is that much.
		greedy int
		admits func(*fakeCluster, int, int) bool
	}{
		{name: "two pods for which devices have to be rearranged", slots: []int{2}, pods: 2, greedy: 2},
		{name: "many of them, on many nodes", slots: []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, pods: 20, greedy: 2},
		{name: "pods that have to be placed in turns", slots: []int{4, 4}, pods: 8, admits: maxSkew(1)},
		{name: "many of them", slots: []int{6, 6}, pods: 12, admits: maxSkew(1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rack := levelOf("rack", strings.Repeat("1 ", len(tc.slots)))
			p := gangOf([]*topology.Level{rack}, tc.slots, gang, map[string]pack{"gang": {required: "rack"}},
				group{count: tc.pods, scopes: gang, domain: none})
			p.Interacts, p.Rearranges = tc.admits != nil, tc.greedy > 0
			c := clusterOf(t, p)
			c.admits = tc.admits
			if tc.greedy > 0 {
				c.greedy = requestsOf(p, resources{tc.greedy})
			}
			solution, shortage := Search(p, c)
			if shortage != nil {
				t.Fatalf("there is room for all; got %+v", shortage)
			}
			c.expectPlaced(t, p, solution.Nodes)
		})
	}
}

// Of a tiny problem all ways are looked at, and the cluster may refuse the last of them.
func TestSearchLeavesNothingPlacedWhereTheClusterTakesNoWay(t *testing.T) {
	gang := []string{"gang"}
	p := gangOf([]*topology.Level{levelOf("rack", "1 1")}, []int{2, 2}, gang, map[string]pack{"gang": {required: "rack"}},
		group{count: 3, scopes: gang, domain: none})
	c := clusterOf(t, p)
	c.admits = func(c *fakeCluster, _, _ int) bool { return len(c.placed) < 2 }
	if solution, shortage := Search(p, c); shortage == nil {
		t.Fatalf("two are taken of three; got %+v", solution)
	}
	c.expectEmpty(t, []resources{{2}, {2}})
}
