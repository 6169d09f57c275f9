// SPDX-License-Identifier: Apache-2.0

package target

import (
	"slices"

	"github.com/podgang/podgang-scheduler/test/perf/report"
	"github.com/podgang/podgang-scheduler/test/perf/result"
)

// Judge holds the results at the scale against all targets. only are the workloads that
// are of interest; none means all.
func Judge(results []result.Result, scale float64, only []string) []Outcome {
	if len(only) > 0 {
		results = slices.DeleteFunc(slices.Clone(results), func(r result.Result) bool { return !slices.Contains(only, r.Workload) })
	}
	d := newest(results, scale)
	outcomes := slices.Concat(d.speed(), d.refusals(), d.memory(), d.safety(), d.scaling())
	if len(only) == 0 {
		return outcomes
	}
	// What is not measured was not asked for.
	return slices.DeleteFunc(outcomes, func(o Outcome) bool { return o.Verdict == NotMeasured })
}

func (d data) speed() []Outcome {
	return []Outcome{
		d.ratio("dra-500", ours, oracle, podsPerSecond, atLeast(0.75)),
		d.ratio("dra-500", ours, native, podsPerSecond, atLeast(4)),
		d.ratio("dra-500", ours, native, cpu, atMost(1.0/6)),
		d.ratio("dp-500", ours, native, podsPerSecond, atLeast(1)),
		d.ratio("dp-500", ours, oracle, podsPerSecond, atLeast(0.7)),
		d.ratio("dra-500", shipped, ours, podsPerSecond, atLeast(0.9)),
		d.ratio("dp-500", shipped, ours, podsPerSecond, atLeast(0.9)),
		d.ratio("dra-fill-empty", ours, oracle, podsPerSecond, atLeast(0.7)),
		d.ratio("dra-fill-half", ours, oracle, podsPerSecond, atLeast(0.7)),
		d.ratio("gang-1000x3", ours, native, podsPerSecond, atLeast(1)),
		d.ratio("gang-3x1000", ours, native, podsPerSecond, atLeast(1.3)),
		d.ratio("tas-750x4", ours, native, podsPerSecond, atLeast(3)),
		d.ratio("tas-3x1000", ours, native, podsPerSecond, atLeast(3)),
		d.ratio("topology-512", ours, oracle, took, atMost(1.5)),
		d.ratio("plain", ours, stock, podsPerSecond, atLeast(0.97)),
	}
}

func (d data) refusals() []Outcome {
	perAttempt := metric{"CPU for each further attempt", " ms", func(r *result.Result) float64 {
		if r.Refusal == nil || r.Refusal.Attempts == 0 {
			return 0
		}
		return 1000 * r.Refusal.CPUPerAttempt
	}}
	o := Outcome{Name: "refuse: " + perAttempt.name, Bound: "< 5 ms", Measured: "–", Verdict: NotMeasured}
	if value, have := d.median("refuse", ours, perAttempt); have {
		attempts := 0
		for _, r := range d[[2]string{"refuse", ours}] {
			if r.Refusal != nil {
				attempts += r.Refusal.Attempts
			}
		}
		o.Note = report.Number(float64(attempts)) + " attempts in all rounds"
		if attempts > 0 {
			o.Measured, o.Verdict = report.Number(value)+perAttempt.unit, verdict(value < 5)
		}
	}
	return []Outcome{
		d.ratio("refuse", ours, native, membersTold, atMost(1)),
		d.ratio("refuse", ours, native, gangTold, atMost(1)),
		o,
	}
}

func (d data) memory() []Outcome {
	var outcomes []Outcome
	for _, key := range d.keys() {
		if _, both := d[[2]string{key[0], native}]; key[1] == ours && both {
			outcomes = append(outcomes, d.ratio(key[0], ours, native, peak, atMost(1.3)))
		}
	}
	return outcomes
}

// safety is what may not happen on any workload.
func (d data) safety() []Outcome {
	count := func(value func(*result.Result) int) metric {
		return metric{value: func(r *result.Result) float64 { return float64(value(r)) }}
	}
	return []Outcome{
		d.worst("all: runs that did not finish", count(func(r *result.Result) int {
			if r.Finished {
				return 0
			}
			return 1
		}), atMost(0)),
		d.worst("all: devices allocated twice", count(func(r *result.Result) int { return r.DoublyAllocated }), atMost(0)),
		d.worst("all: gangs left partly bound", count(func(r *result.Result) int { return r.PartialGangs }), atMost(0)),
		d.worst("all: gangs outside their domain", count(func(r *result.Result) int { return r.SplitGangs }), atMost(0)),
		d.worst("all: pods bound that do not fit whole", count(func(r *result.Result) int { return r.WronglyBound }), atMost(0)),
		d.worst("all: partial-gang seconds", metric{unit: " s", value: func(r *result.Result) float64 { return r.PartialSeconds }}, atMost(0)),
		d.worst("all: partial-gang seconds without a binding for 1 s", metric{unit: " s", value: func(r *result.Result) float64 { return r.StalledSeconds }}, atMost(0)),
	}
}

func (d data) scaling() []Outcome {
	sizes := []string{"dra-500", "dra-1600", "dra-5000"}
	return []Outcome{d.growth(took, sizes...), d.growth(cpu, sizes...), d.growth(peak, sizes...)}
}

// Table shows outcomes.
func Table(outcomes []Outcome) *report.Table {
	t := &report.Table{Header: []string{"target", "bound", "measured", "verdict", "from"}}
	for _, o := range outcomes {
		t.Rows = append(t.Rows, []string{o.Name, o.Bound, o.Measured, o.Verdict, o.Note})
	}
	return t
}
