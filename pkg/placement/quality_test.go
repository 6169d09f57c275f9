// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// examine runs a search and fails the test if it is wrong about whether there is a
// placement, or the placement is not allowed. It returns what it found and what
// there is.
func examine(t rapid.TB, tc gangCase, slack int, search func(*Problem, Cluster) (*Solution, *Shortage)) (found, best outcome) {
	t.Helper()
	best = tc.exhaust()
	c := newFakeCluster(t, tc.problem, tc.requests, tc.capacity)
	c.slack = slack
	solution, shortage := search(tc.problem, c)
	if (shortage == nil) != best.exists {
		t.Fatalf("a placement exists: %v; got %+v, shortage %+v", best.exists, solution, shortage)
	}
	if shortage != nil {
		c.expectEmpty(t, tc.capacity)
		if shortage.Placed >= shortage.Wanted && !shortage.Infeasible {
			t.Fatalf("got shortage %+v", shortage)
		}
		return found, best
	}
	c.expectPlaced(t, tc.problem, solution.Nodes)
	if !obeys(tc.problem, solution.Nodes) {
		t.Fatalf("nodes %v are not what the scopes require", solution.Nodes)
	}
	r := rated(tc.problem, solution.Nodes)
	if r.Time != solution.Time.Time {
		t.Fatalf("got time %v for nodes %v, want %v", solution.Time.Time, solution.Nodes, r.Time)
	}
	return outcome{exists: true, missed: missedBy(tc.problem, solution.Nodes), time: r.Time}, best
}

func TestSearchObeysScopesAndFindsAPlacementExactlyWhenThereIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tc := drawGang(func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) })
		slack := rapid.IntRange(0, 1).Draw(t, "slack")
		examine(t, tc, slack, Search)
		examine(t, tc, slack, searchByRegions)
	})
}

// tally counts how good placements are compared to the best.
type tally struct {
	placed, levels, close int
	worst                 float64
}

func tallyOf(t *testing.T, seeds uint64, search func(*Problem, Cluster) (*Solution, *Shortage)) tally {
	var sum tally
	sum.worst = 1
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		tc := drawGang(func(n int, _ string) int { return random.IntN(n) })
		found, best := examine(t, tc, int(seed%2), search)
		if !found.exists {
			continue
		}
		sum.placed++
		if !slices.Equal(found.missed, best.missed) {
			continue
		}
		sum.levels++
		score := 1.0
		if found.time > 0 {
			score = best.time / found.time
		}
		if score >= 0.98 {
			sum.close++
		}
		sum.worst = min(sum.worst, score)
	}
	return sum
}

func TestSearchComesCloseToTheBestScore(t *testing.T) {
	sum := tallyOf(t, 2000, Search)
	t.Logf("%+v", sum)
	if sum.placed < 500 {
		t.Errorf("only %d gangs can be placed, which says little", sum.placed)
	}
	if float64(sum.levels) < 0.99*float64(sum.placed) {
		t.Errorf("%d of %d gangs reach the best preferred levels", sum.levels, sum.placed)
	}
	if float64(sum.close) < 0.99*float64(sum.levels) || sum.worst < 0.9 {
		t.Errorf("%d of %d gangs come within 2 %% of the best score, the worst has %v of it", sum.close, sum.levels, sum.worst)
	}
}

// searchByRegions is Search without looking at all placements of tiny problems.
func searchByRegions(p *Problem, c Cluster) (*Solution, *Shortage) {
	s := newSearch(p, c)
	s.enumerable = false
	return s.run()
}

func TestSearchByRegionsComesCloseToTheBestScore(t *testing.T) {
	sum := tallyOf(t, 2000, searchByRegions)
	t.Logf("%+v", sum)
	if float64(sum.levels) < 0.98*float64(sum.placed) {
		t.Errorf("%d of %d gangs reach the best preferred levels", sum.levels, sum.placed)
	}
	if float64(sum.close) < 0.97*float64(sum.levels) {
		t.Errorf("%d of %d gangs come within 2 %% of the best score, the worst has %v of it", sum.close, sum.levels, sum.worst)
	}
}
