// SPDX-License-Identifier: Apache-2.0

package run

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/result"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

const twoRacks = `
nodeGroups:
- {name: "n${n}", for: {n: 4}, labels: {rack: "r${n / 2}"}}
`

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// handMade is a run of two gangs of two pods and one gang that is to wait.
func handMade(t *testing.T) *run {
	t.Helper()
	cluster, err := shapes.Parse("two-racks", []byte(twoRacks), nil)
	if err != nil {
		t.Fatal(err)
	}
	set := workload.Expand([]workload.Batch{
		{Name: "g", Gangs: 2, Size: 2, Required: "rack"}, {Name: "w", Gangs: 1, Size: 2, Waits: true},
	}, 1)
	return &run{
		cluster: cluster, set: set, record: &journal.Recorder{Journal: journal.New(), Ledger: journal.NewLedger(nil)},
		out: &result.Result{Pods: set.ToBind()},
	}
}

// bind enters that the pods were created at 0 s, and when each was bound, on which node.
func (r *run) bind(bindings ...journal.Entry) []journal.Entry {
	for _, pod := range r.set.Pods() {
		r.record.Observe(journal.State{Pod: pod.Name, Gang: pod.Gang}, at(0))
	}
	for _, b := range bindings {
		r.record.Observe(journal.State{Pod: b.Pod, Node: b.Node}, b.Bound)
	}
	return r.record.Entries()
}

func check(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestFiguresOfAHandMadeRun(t *testing.T) {
	r := handMade(t)
	r.begin = at(10)
	r.figures(r.bind(
		journal.Entry{Pod: "g-0-0", Node: "n0", Bound: at(11)}, journal.Entry{Pod: "g-0-1", Node: "n1", Bound: at(11.5)},
		journal.Entry{Pod: "g-1-0", Node: "n1", Bound: at(12)}, journal.Entry{Pod: "g-1-1", Node: "n2", Bound: at(18)},
	), at(20))
	check(t, "the time to the last pod", r.out.Took, 8)
	check(t, "pods/s", r.out.PodsPerSecond, 4.0/8)
	check(t, "the number of bound pods", float64(r.out.Bound), 4)
	if want := []float64{1.5, 8}; !slices.Equal(r.out.Waits, want) {
		t.Errorf("waits are %v, want %v", r.out.Waits, want)
	}
	check(t, "wait p50", r.out.WaitP50, 1.5)
	check(t, "wait p90", r.out.WaitP90, 8)
	// g-0 was partly bound from 11 to 11.5, g-1 from 12 to 18.
	check(t, "partial-gang seconds", r.out.PartialSeconds, 6.5)
	check(t, "stalled seconds", r.out.StalledSeconds, 5)
	check(t, "gangs left partly bound", float64(r.out.PartialGangs), 0)
	check(t, "gangs outside their rack", float64(r.out.SplitGangs), 1)
	check(t, "pods wrongly bound", float64(r.out.WronglyBound), 0)
	if curve := r.out.Curve; len(curve) != 80 || curve[9] != 1 || curve[14] != 2 || curve[19] != 3 || curve[79] != 4 {
		t.Errorf("the curve is %v", curve)
	}
}

func TestFiguresOfARunThatWentWrong(t *testing.T) {
	r := handMade(t)
	r.begin = at(10)
	// The first binding was seen before the scheduler was found to be ready.
	r.figures(r.bind(
		journal.Entry{Pod: "g-0-0", Node: "n0", Bound: at(9)}, journal.Entry{Pod: "w-0-0", Node: "n1", Bound: at(13)},
	), at(20))
	check(t, "the time to the last pod", r.out.Took, 4)
	check(t, "gangs left partly bound", float64(r.out.PartialGangs), 2)
	check(t, "partial-gang seconds", r.out.PartialSeconds, 11+7)
	check(t, "pods wrongly bound", float64(r.out.WronglyBound), 1)
	if len(r.out.Waits) > 0 {
		t.Errorf("waits are %v, and no gang is whole", r.out.Waits)
	}
}

func TestWaitsOfPodsWhereNoGangIsToBeBound(t *testing.T) {
	r := handMade(t)
	r.set = workload.Expand([]workload.Batch{{Name: "w", Gangs: 1, Size: 2, Waits: true}, {Name: "s", Pods: 2}}, 1)
	r.begin = at(1)
	r.figures(r.bind(journal.Entry{Pod: "s-0", Node: "n0", Bound: at(2)}, journal.Entry{Pod: "s-1", Node: "n0", Bound: at(4)}), at(5))
	if want := []float64{1, 3}; !slices.Equal(r.out.Waits, want) {
		t.Errorf("waits are %v, want %v", r.out.Waits, want)
	}
}
