// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/podgang/podgang-scheduler/test/perf/contender"
	"github.com/podgang/podgang-scheduler/test/perf/figure"
	"github.com/podgang/podgang-scheduler/test/perf/probe"
	"github.com/podgang/podgang-scheduler/test/perf/result"
)

// missing stands in a cell without a value.
const missing = "–"

// Runs is the table of results: one row for each workload, scheduler and mode, with the
// medians over its rounds; what may not happen at all (devices allocated twice, gangs
// left partly bound, split or wrongly bound) is the worst of the rounds.
func Runs(results []result.Result) *Table {
	t := &Table{Header: []string{
		"workload", "scheduler", "rounds", "bound", "pods/s", "took s", "start-up s", "wait p50", "p90", "p99",
		"CPU s", "peak MB", "writes/pod", "partial s", "stalled s", "twice", "faults",
	}}
	groups := result.Group(results)
	for _, key := range slices.SortedFunc(maps.Keys(groups), compareKeys) {
		t.Rows = append(t.Rows, runsRow(key, groups[key]))
	}
	return t
}

func compareKeys(a, b result.Key) int {
	order := contender.Names()
	return cmp.Or(
		cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Scale, b.Scale),
		cmp.Compare(slices.Index(order, a.Scheduler), slices.Index(order, b.Scheduler)), cmp.Compare(a.Scheduler, b.Scheduler),
	)
}

func runsRow(key result.Key, rounds []result.Result) []string {
	median := func(value func(*result.Result) float64) float64 {
		values := make([]float64, 0, len(rounds))
		for i := range rounds {
			values = append(values, value(&rounds[i]))
		}
		return figure.Median(values)
	}
	noProcess := key.Scheduler == contender.Oracle
	return []string{
		name(key), key.Scheduler, fmt.Sprint(len(rounds)), bound(rounds),
		Number(median(func(r *result.Result) float64 { return r.PodsPerSecond })),
		Number(median(func(r *result.Result) float64 { return r.Took })),
		orMissing(noProcess, median(func(r *result.Result) float64 { return r.Startup })),
		Number(median(func(r *result.Result) float64 { return r.WaitP50 })),
		Number(median(func(r *result.Result) float64 { return r.WaitP90 })),
		Number(median(func(r *result.Result) float64 { return r.WaitP99 })),
		orMissing(noProcess, median(func(r *result.Result) float64 { return r.CPUSeconds })),
		orMissing(noProcess, median(func(r *result.Result) float64 { return float64(r.PeakRSS) / 1e6 })),
		Number(median(writesPerPod)),
		Number(median(func(r *result.Result) float64 { return r.PartialSeconds })),
		Number(worst(rounds, func(r *result.Result) float64 { return r.StalledSeconds })),
		Number(worst(rounds, func(r *result.Result) float64 { return float64(r.DoublyAllocated) })),
		faults(rounds),
	}
}

func name(key result.Key) string {
	s := key.Workload
	if key.Mode != result.Drain {
		s += " (" + key.Mode + ")"
	}
	if key.Scale != 1 {
		s += fmt.Sprintf(" ×%g", key.Scale)
	}
	return s
}

// bound is "896", or "412 of 896" where a round did not finish.
func bound(rounds []result.Result) string {
	for i := range rounds {
		if r := &rounds[i]; !r.Finished {
			return fmt.Sprintf("%d of %d", r.Bound, r.Pods)
		}
	}
	return fmt.Sprint(rounds[0].Bound)
}

// writesPerPod counts the requests that change something, in the whole run, by all
// clients that act while it lasts.
func writesPerPod(r *result.Result) float64 {
	if r.Bound == 0 {
		return math.NaN()
	}
	return float64(probe.Writes(r.Requests)) / float64(r.Bound)
}

// faults are what should not be: why a round did not finish, and gangs or pods that are
// not where they should be.
func faults(rounds []result.Result) string {
	var list []string
	for i := range rounds {
		if message := rounds[i].Error; message != "" {
			list = append(list, message)
			break
		}
	}
	for _, f := range []struct {
		what  string
		value func(*result.Result) float64
	}{
		{"gangs left partly bound", func(r *result.Result) float64 { return float64(r.PartialGangs) }},
		{"gangs split", func(r *result.Result) float64 { return float64(r.SplitGangs) }},
		{"pods wrongly bound", func(r *result.Result) float64 { return float64(r.WronglyBound) }},
	} {
		if n := worst(rounds, f.value); n > 0 {
			list = append(list, fmt.Sprintf("%.0f %s", n, f.what))
		}
	}
	return strings.Join(list, "; ")
}

func worst(rounds []result.Result, value func(*result.Result) float64) float64 {
	most := 0.0
	for i := range rounds {
		most = max(most, value(&rounds[i]))
	}
	return most
}

func orMissing(leaveOut bool, x float64) string {
	if leaveOut {
		return missing
	}
	return Number(x)
}

// Number writes a figure with three digits that matter.
func Number(x float64) string {
	switch abs := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return missing
	case x == math.Trunc(x) || abs >= 100:
		return fmt.Sprintf("%.0f", x)
	case abs >= 10:
		return fmt.Sprintf("%.1f", x)
	case abs >= 0.1:
		return fmt.Sprintf("%.2f", x)
	default:
		return fmt.Sprintf("%.2g", x)
	}
}

// Special is the table of what only some workloads measure.
func Special(results []result.Result) *Table {
	t := &Table{Header: []string{"workload", "scheduler", "round", "figure", "value"}}
	for i := range results {
		r := &results[i]
		add := func(figure, value string) {
			t.Rows = append(t.Rows, []string{name(r.Key()), r.Scheduler, fmt.Sprint(r.Round), figure, value})
		}
		if v := r.Refusal; v != nil {
			add("last pod created → all members told", told(v.MembersTold))
			add("last pod created → gang told", told(v.GangTold))
			add("CPU for each of "+fmt.Sprint(v.Attempts)+" further attempts", Number(1000*v.CPUPerAttempt)+" ms")
		}
		if v := r.Churn; v != nil {
			add("gangs that came, went", fmt.Sprintf("%d, %d", v.Came, v.Went))
			add("largest gang of pods with 8 GPUs that still fits", fmt.Sprintf("%d pods; %d if the %d free GPUs were side by side", v.WholeFit, v.BestFit, v.FreeGPUs))
		}
	}
	return t
}

func told(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return Number(1000*seconds) + " ms"
}

// Line sums up one run.
func Line(r *result.Result) string {
	s := fmt.Sprintf("%s, %s, round %d: %d of %d pods in %s s, %s pods/s, CPU %s s, peak %s MB, partial %s s, %d allocated twice",
		name(r.Key()), r.Scheduler, r.Round, r.Bound, r.Pods, Number(r.Took), Number(r.PodsPerSecond), Number(r.CPUSeconds),
		Number(float64(r.PeakRSS)/1e6), Number(r.PartialSeconds), r.DoublyAllocated)
	if f := faults([]result.Result{*r}); f != "" {
		s += " (" + f + ")"
	}
	return s
}
