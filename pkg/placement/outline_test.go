// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOutlineGoesByWhatIsFreeInTheProblem(t *testing.T) {
	for _, tc := range []struct {
		name string
		pods int
		// taken nodes of two racks of 18, of which one is required.
		taken []int
		bound []int
		want  bool
	}{
		{name: "a free rack", pods: 18, taken: []int{0, 18}, want: true},
		{name: "a node of each rack in use", pods: 18, taken: []int{1, 3}},
		{name: "more than a rack has", pods: 19, taken: []int{0, 0}},
		{name: "bound members stay, in the fuller rack", pods: 17, taken: []int{0, 1}, bound: []int{18}, want: true},
		{name: "bound members stay, in a rack that is too full", pods: 17, taken: []int{0, 2}, bound: []int{18}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := nvl72(tc.pods, tc.taken, false, tc.bound...)
			solution, shortage := Outline(p)
			if got := shortage == nil; got != tc.want {
				t.Fatalf("found a way: %v, want %v", got, tc.want)
			}
			if shortage != nil {
				return
			}
			used := slices.Sorted(slices.Values(solution.Nodes))
			if len(slices.Compact(used)) != tc.pods {
				t.Errorf("%d pods that need a node each are on %v", tc.pods, solution.Nodes)
			}
			for _, n := range solution.Nodes {
				if p.Nodes[n].Free[0] == 0 {
					t.Errorf("node %d is in use", n)
				}
			}
		})
	}
}

func TestOutlineFindsAPlacementExactlyWhenThereIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tc := drawGang(func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) })
		solution, shortage := Outline(tc.problem)
		if exists := tc.exhaust().exists; exists != (shortage == nil) {
			t.Fatalf("a placement exists: %v; got %+v, shortage %+v", exists, solution, shortage)
		}
		if shortage == nil && !obeys(tc.problem, solution.Nodes) {
			t.Fatalf("nodes %v are not what the scopes require", solution.Nodes)
		}
	})
}
