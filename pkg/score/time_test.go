// SPDX-License-Identifier: Apache-2.0

package score

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

func drawMember(t *rapid.T, nodes int) Member {
	return Member{
		Node:    rapid.IntRange(0, nodes-1).Draw(t, "node"),
		G:       rapid.SampledFrom([]float64{0, 3.0 / 7, 1, 4, 8}).Draw(t, "g"),
		Unit:    rapid.Int32Range(0, 2).Draw(t, "unit"),
		Domain:  rapid.Int32Range(topology.None, 1).Draw(t, "computeDomain"),
		Channel: rapid.Int32Range(topology.None, 1).Draw(t, "channel"),
		RDMA:    rapid.IntRange(0, 3).Draw(t, "rdma") > 0,
		Align:   rapid.SampledFrom([]float64{1, 1, 0.95, 0.55}).Draw(t, "align"),
	}
}

func TestTimeIsThatOfAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		facts := drawFacts(t, rapid.IntRange(1, 8).Draw(t, "nodes"))
		members := make([]Member, rapid.IntRange(0, 14).Draw(t, "members"))
		for i := range members {
			members[i] = drawMember(t, len(facts))
		}
		wantTime, wantPairs, wantFeasible := plainTime(m, members, facts)
		gotTime, gotPairs, gotFeasible := m.Time(members, facts)
		if gotPairs != wantPairs || gotFeasible != wantFeasible {
			t.Fatalf("pairs, feasible = %v, %v; want %v, %v", gotPairs, gotFeasible, wantPairs, wantFeasible)
		}
		if gotTime != wantTime && !(math.Abs(gotTime-wantTime) <= 1e-9*wantTime) {
			t.Fatalf("time = %v, want %v", gotTime, wantTime)
		}
	})
}

func TestRateTellsTheAlignmentOfTheOnlyAccelerator(t *testing.T) {
	m := DefaultModel()
	facts := []Facts{{Clique: topology.None}}
	for name, test := range map[string]struct {
		members []Member
		want    Result
	}{
		"none":     {members: []Member{{Align: 0.5}}, want: Result{Align: 1}},
		"one":      {members: []Member{{Align: 0.5}, {G: 1, Align: 0.55}}, want: Result{Align: 0.55}},
		"no pods":  {want: Result{Align: 1}},
		"two pods": {members: []Member{{G: 1, Align: 0.5}, {G: 1, Align: 1}}, want: Result{Pairs: true, Align: 1, Time: 1 / m.TCP}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := m.Rate(test.members, facts); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestScore(t *testing.T) {
	timed := func(time float64) Result { return Result{Pairs: true, Align: 1, Time: time} }
	for name, test := range map[string]struct {
		best, actual Result
		want         float64
	}{
		"half as fast":           {best: timed(1), actual: timed(2), want: 0.5},
		"better than the best":   {best: timed(2), actual: timed(1), want: 1},
		"no accelerators":        {best: Result{Align: 1}, actual: Result{Align: 1}, want: 1},
		"one, badly aligned":     {best: Result{Align: 1}, actual: Result{Align: 0.55}, want: 0.55},
		"infeasible":             {best: timed(1), actual: Result{Pairs: true, Infeasible: true, Time: math.Inf(1)}, want: 0},
		"best unknown":           {best: Result{Align: 1}, actual: timed(2), want: 1},
		"best itself infeasible": {best: Result{Pairs: true, Infeasible: true, Time: math.Inf(1)}, actual: timed(2), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Score(test.best, test.actual); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
