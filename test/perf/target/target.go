// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/podgang/podgang-scheduler/test/perf/figure"
	"github.com/podgang/podgang-scheduler/test/perf/report"
	"github.com/podgang/podgang-scheduler/test/perf/result"
)

// Verdicts on a target.
const (
	Pass        = "pass"
	Short       = "short"
	NotMeasured = "not measured"
)

// Outcome is a target with what was measured.
type Outcome struct {
	// Name of the target, and the bound that Measured is held against.
	Name, Bound string
	Measured    string
	Verdict     string
	// Note has the medians that Measured comes from, and what went wrong.
	Note string
}

// data are the results by workload and scheduler, of the newest build of each.
type data map[[2]string][]result.Result

// newest groups the results in the mode and at the scale of the targets.
func newest(results []result.Result, scale float64) data {
	d := data{}
	for _, r := range result.Newest(results) {
		if r.Scale == scale && standard(&r) {
			key := [2]string{r.Workload, r.Scheduler}
			d[key] = append(d[key], r)
		}
	}
	return d
}

// metric is a figure of a run.
type metric struct {
	name, unit string
	value      func(*result.Result) float64
}

var (
	podsPerSecond = metric{"pods/s", "", func(r *result.Result) float64 { return r.PodsPerSecond }}
	took          = metric{"time to the last pod", " s", func(r *result.Result) float64 { return r.Took }}
	cpu           = metric{"CPU", " s", func(r *result.Result) float64 { return r.CPUSeconds }}
	peak          = metric{"peak RSS", " MB", func(r *result.Result) float64 { return float64(r.PeakRSS) / 1e6 }}
	membersTold   = metric{"all members told after", " ms", func(r *result.Result) float64 {
		return told(r, func(v *result.Refusal) float64 { return v.MembersTold })
	}}
	gangTold = metric{"gang told after", " ms", func(r *result.Result) float64 { return told(r, func(v *result.Refusal) float64 { return v.GangTold }) }}
)

// told is a time in milliseconds, endless where it never was.
func told(r *result.Result, value func(*result.Refusal) float64) float64 {
	if r.Refusal == nil || value(r.Refusal) < 0 {
		return math.Inf(1)
	}
	return 1000 * value(r.Refusal)
}

// median of the metric; false without a run.
func (d data) median(workload, scheduler string, m metric) (float64, bool) {
	runs := d[[2]string{workload, scheduler}]
	values := make([]float64, 0, len(runs))
	for i := range runs {
		values = append(values, m.value(&runs[i]))
	}
	return figure.Median(values), len(values) > 0
}

// unfinished says how far a scheduler got that did not finish.
func (d data) unfinished(workload, scheduler string) string {
	for _, r := range d[[2]string{workload, scheduler}] {
		if !r.Finished {
			return fmt.Sprintf("; %s bound %d of %d pods: %s", scheduler, r.Bound, r.Pods, r.Error)
		}
	}
	return ""
}

// bound is the most or the least that a target allows.
type bound struct {
	least bool
	value float64
}

func atLeast(x float64) bound { return bound{true, x} }
func atMost(x float64) bound  { return bound{false, x} }

func (b bound) String() string {
	if b.least {
		return "≥ " + report.Number(b.value)
	}
	return "≤ " + report.Number(b.value)
}

func (b bound) holds(x float64) bool {
	if b.least {
		return x >= b.value
	}
	return x <= b.value
}

func verdict(ok bool) string {
	if ok {
		return Pass
	}
	return Short
}

// ratio judges a scheduler's median over another's. Ours has to have finished.
func (d data) ratio(workload, one, other string, m metric, b bound) Outcome {
	o := Outcome{Name: fmt.Sprintf("%s: %s, %s ÷ %s", workload, m.name, one, other), Bound: b.String(), Measured: "–", Verdict: NotMeasured}
	x, haveOne := d.median(workload, one, m)
	y, haveOther := d.median(workload, other, m)
	if !haveOne || !haveOther {
		return o
	}
	r := x / y
	o.Measured = report.Number(r)
	o.Note = fmt.Sprintf("%s%s ÷ %s%s, medians of %d and %d", report.Number(x), m.unit, report.Number(y), m.unit,
		len(d[[2]string{workload, one}]), len(d[[2]string{workload, other}])) + d.unfinished(workload, one) + d.unfinished(workload, other)
	o.Verdict = verdict(b.holds(r) && d.unfinished(workload, one) == "")
	return o
}

// worst judges the largest figure of ours over all workloads.
func (d data) worst(name string, m metric, b bound) Outcome {
	o := Outcome{Name: name, Bound: b.String(), Measured: "–", Verdict: NotMeasured}
	most := math.Inf(-1)
	var above []string
	for _, key := range d.keys() {
		if key[1] != ours {
			continue
		}
		high := math.Inf(-1)
		for i := range d[key] {
			high = max(high, m.value(&d[key][i]))
		}
		if most = max(most, high); !b.holds(high) {
			above = append(above, key[0]+" "+report.Number(high)+m.unit)
		}
	}
	if math.IsInf(most, -1) {
		return o
	}
	o.Measured, o.Note, o.Verdict = report.Number(most)+m.unit, strings.Join(above, ", "), verdict(len(above) == 0)
	return o
}

func (d data) keys() [][2]string {
	var keys [][2]string
	for key := range d {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	return keys
}

// growth judges the exponent with which the metric grows with the nodes.
func (d data) growth(m metric, workloads ...string) Outcome {
	b := atMost(1)
	o := Outcome{Name: fmt.Sprintf("growth of %s with nodes: exponent", m.name), Bound: b.String(), Measured: "–", Verdict: NotMeasured}
	var x, y []float64
	var note []string
	for _, w := range workloads {
		runs := d[[2]string{w, ours}]
		value, have := d.median(w, ours, m)
		if !have {
			return o
		}
		x, y = append(x, float64(runs[0].Nodes)), append(y, value)
		note = append(note, fmt.Sprintf("%s%s at %d", report.Number(value), m.unit, runs[0].Nodes))
	}
	exponent := figure.Exponent(x, y)
	if math.IsNaN(exponent) {
		return o
	}
	o.Measured, o.Note, o.Verdict = report.Number(exponent), strings.Join(note, ", "), verdict(b.holds(exponent))
	return o
}
