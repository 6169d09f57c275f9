// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/journal"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func near(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-9
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	ten := []float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	for _, tc := range []struct {
		values  []float64
		p, want float64
	}{
		{ten, 50, 5}, {ten, 90, 9}, {ten, 99, 10}, {ten, 100, 10}, {ten, 0, 1},
		{[]float64{7}, 50, 7}, {[]float64{7}, 99, 7}, {nil, 50, math.NaN()},
	} {
		if got := Percentile(tc.values, tc.p); !near(got, tc.want) {
			t.Errorf("p%.0f of %v is %v, want %v", tc.p, tc.values, got, tc.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}, {[]float64{5}, 5}, {nil, math.NaN()},
	} {
		if got := Median(tc.values); !near(got, tc.want) {
			t.Errorf("median of %v is %v, want %v", tc.values, got, tc.want)
		}
	}
}

func TestExponent(t *testing.T) {
	for name, tc := range map[string]struct {
		x, y []float64
		want float64
	}{
		"linear":          {[]float64{500, 1600, 5000}, []float64{1, 3.2, 10}, 1},
		"square":          {[]float64{1, 2, 4}, []float64{3, 12, 48}, 2},
		"constant":        {[]float64{500, 5000}, []float64{4, 4}, 0},
		"one point":       {[]float64{500, 500}, []float64{4, 5}, math.NaN()},
		"nothing":         {nil, nil, math.NaN()},
		"a zero":          {[]float64{1, 2}, []float64{0, 1}, math.NaN()},
		"unequal lengths": {[]float64{1, 2}, []float64{1}, math.NaN()},
	} {
		if got := Exponent(tc.x, tc.y); !near(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// entry is a pod that was created and bound at these milliseconds; below 0: never.
func entry(pod, gang, node string, created, bound, deleted int) journal.Entry {
	e := journal.Entry{Pod: pod, Gang: gang, Node: node, Created: at(created)}
	if bound >= 0 {
		e.Bound = at(bound)
	}
	if deleted >= 0 {
		e.Deleted = at(deleted)
	}
	return e
}

func TestGangs(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, tc := range map[string]struct {
		entries []journal.Entry
		want    Gang
	}{
		"bound in a burst": {
			[]journal.Entry{entry("a", "g", "n", 0, 5000, -1), entry("b", "g", "n", 40, 5100, -1), entry("c", "g", "n", 20, 5300, -1)},
			Gang{Name: "g", Size: 3, Bound: 3, Ready: at(40), Whole: at(5300), Partial: ms(300)},
		},
		"stalled before the last": {
			[]journal.Entry{entry("a", "g", "n", 0, 1000, -1), entry("b", "g", "n", 0, 1500, -1), entry("c", "g", "n", 0, 4000, -1)},
			Gang{Name: "g", Size: 3, Bound: 3, Ready: at(0), Whole: at(4000), Partial: ms(3000), Stalled: ms(1500)},
		},
		"never whole": {
			[]journal.Entry{entry("a", "g", "n", 0, 1000, -1), entry("b", "g", "", 0, -1, -1), entry("c", "g", "", 0, -1, -1)},
			Gang{Name: "g", Size: 3, Bound: 1, Ready: at(0), Partial: ms(9000), Stalled: ms(8000)},
		},
		"a member not yet created": {
			[]journal.Entry{entry("a", "g", "n", 0, 9500, -1)},
			Gang{Name: "g", Size: 3, Bound: 1, Ready: at(0), Partial: ms(500)},
		},
		"nothing bound": {
			[]journal.Entry{entry("a", "g", "", 0, -1, -1)},
			Gang{Name: "g", Size: 3, Ready: at(0)},
		},
		"whole, then deleted": {
			[]journal.Entry{entry("a", "g", "n", 0, 100, 5000), entry("b", "g", "n", 0, 200, 5001), entry("c", "g", "n", 0, 200, 5002)},
			Gang{Name: "g", Size: 3, Bound: 3, Ready: at(0), Whole: at(200), Partial: ms(100)},
		},
		"deleted before it was whole": {
			[]journal.Entry{entry("a", "g", "n", 0, 100, 5000), entry("b", "g", "", 0, -1, 600), entry("c", "g", "", 0, -1, 700)},
			Gang{Name: "g", Size: 3, Bound: 1, Ready: at(0), Partial: ms(500)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Gangs(append(tc.entries, entry("single", "", "n", 0, 1, -1)), map[string]int{"g": 3}, at(10000))
			if len(got) != 1 || got[0] != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestWaitStartsWhenTheGangCouldBeScheduled(t *testing.T) {
	g := Gang{Ready: at(1000), Whole: at(4000)}
	if got, ok := g.Wait(at(0)); !ok || got != 3*time.Second {
		t.Errorf("got %v, want 3s from the last pod", got)
	}
	if got, ok := g.Wait(at(3500)); !ok || got != time.Second/2 {
		t.Errorf("got %v, want 0.5s from the start of the scheduler", got)
	}
	if _, ok := (&Gang{Ready: at(0)}).Wait(at(0)); ok {
		t.Error("a gang that is not whole has a wait")
	}
}

func TestRateIsOverTheTimeToTheLastBinding(t *testing.T) {
	entries := []journal.Entry{
		entry("a", "", "n", 0, 1500, -1), entry("b", "", "n", 0, 3000, -1), entry("c", "", "n", 0, 2000, -1), entry("d", "", "", 0, -1, -1),
	}
	if got := Rate(entries, at(1000)); !near(got, 1.5) {
		t.Errorf("got %v, want 3 pods in 2 s", got)
	}
	if got := Rate(entries[3:], at(0)); got != 0 {
		t.Errorf("got %v for no pod bound", got)
	}
	if got, want := BoundBy(entries, at(1000), 500*time.Millisecond), []int{1, 2, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("the curve is %v, want %v", got, want)
	}
}

func TestSplitGangs(t *testing.T) {
	labels := map[string]map[string]string{"n0": {"rack": "r0"}, "n1": {"rack": "r0"}, "n2": {"rack": "r1"}, "bare": {}}
	entries := []journal.Entry{
		entry("a0", "together", "n0", 0, 1, -1), entry("a1", "together", "n1", 0, 1, -1),
		entry("b0", "apart", "n0", 0, 1, -1), entry("b1", "apart", "n2", 0, 1, -1), entry("b2", "apart", "n2", 0, 1, -1),
		entry("c0", "outside", "bare", 0, 1, -1),
		entry("d0", "free", "n0", 0, 1, -1), entry("d1", "free", "n2", 0, 1, -1),
	}
	required := map[string]string{"together": "rack", "apart": "rack", "outside": "rack"}
	if got := Split(entries, required, labels); got != 2 {
		t.Errorf("%d gangs are split, want 2", got)
	}
}

func TestLargestFit(t *testing.T) {
	if got := LargestFit([]int{8, 7, 4, 0, -1}, 4); got != 4 {
		t.Errorf("got %d pods of 4 GPUs, want 2+1+1", got)
	}
	if got := LargestFit([]int{8, 7, 4}, 8); got != 1 {
		t.Errorf("got %d pods of 8 GPUs, want 1", got)
	}
}
