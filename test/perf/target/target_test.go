// SPDX-License-Identifier: Apache-2.0

package target

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/contender"
	"github.com/podgang/podgang-scheduler/test/perf/result"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// finished is a run that finished, at a scale of 1.
func finished(workload, scheduler string, edit ...func(*result.Result)) result.Result {
	r := result.Result{Workload: workload, Scheduler: scheduler, Mode: result.Drain, Scale: 1, Finished: true, Build: "b", Pods: 10, Bound: 10}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func speed(x float64) func(*result.Result) {
	return func(r *result.Result) { r.PodsPerSecond = x }
}

func find(t *testing.T, outcomes []Outcome, name string) Outcome {
	t.Helper()
	i := slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("no target is named %q", name)
	}
	return outcomes[i]
}

func TestRatioIsOfMedians(t *testing.T) {
	results := []result.Result{
		finished("dra-500", ours, speed(100)), finished("dra-500", ours, speed(260)), finished("dra-500", ours, speed(280)),
		finished("dra-500", oracle, speed(300)), finished("dra-500", oracle, speed(340)), finished("dra-500", oracle, speed(900)),
		finished("dra-500", native, speed(70)),
	}
	outcomes := Judge(results, 1, nil)
	got := find(t, outcomes, "dra-500: pods/s, podgang ÷ oracle")
	if got.Measured != "0.76" || got.Verdict != Pass || got.Note != "260 ÷ 340, medians of 3 and 3" {
		t.Errorf("got %+v, want 260/340", got)
	}
	if got := find(t, outcomes, "dra-500: pods/s, podgang ÷ native"); got.Measured != "3.71" || got.Verdict != Short {
		t.Errorf("got %+v, want 260/70, which is below 4", got)
	}
	if got := find(t, outcomes, "dp-500: pods/s, podgang ÷ native"); got.Verdict != NotMeasured {
		t.Errorf("got %+v for a workload that was not run", got)
	}
}

func TestUnfinishedRunOfOursIsShort(t *testing.T) {
	cut := func(r *result.Result) { r.Finished, r.Bound, r.Error = false, 4, "not finished after 2m0s" }
	results := []result.Result{finished("dp-500", ours, speed(400), cut), finished("dp-500", native, speed(200))}
	got := find(t, Judge(results, 1, nil), "dp-500: pods/s, podgang ÷ native")
	if got.Verdict != Short || !strings.Contains(got.Note, "podgang bound 4 of 10 pods: not finished after 2m0s") {
		t.Errorf("got %+v", got)
	}
	// That a peer was cut short is said, and does not count against ours.
	results = []result.Result{finished("dp-500", ours, speed(400)), finished("dp-500", native, speed(200), cut)}
	got = find(t, Judge(results, 1, nil), "dp-500: pods/s, podgang ÷ native")
	if got.Verdict != Pass || !strings.Contains(got.Note, "native bound 4 of 10") {
		t.Errorf("got %+v", got)
	}
}

func TestOlderBuildsAndOtherScalesAreLeftOut(t *testing.T) {
	old := func(r *result.Result) { r.Build, r.Time = "old", time.Unix(1, 0) }
	recent := func(r *result.Result) { r.Time = time.Unix(2, 0) }
	small := func(r *result.Result) { r.Scale, r.Time = 0.1, time.Unix(3, 0) }
	results := []result.Result{
		finished("plain", ours, speed(1), old), finished("plain", ours, speed(99), recent), finished("plain", ours, speed(1), small),
		finished("plain", stock, speed(100)),
	}
	if got := find(t, Judge(results, 1, nil), "plain: pods/s, podgang ÷ kube-scheduler"); got.Measured != "0.99" || got.Verdict != Pass {
		t.Errorf("got %+v", got)
	}
}

func TestWorstOfAllWorkloadsCounts(t *testing.T) {
	twice := func(r *result.Result) { r.DoublyAllocated = 2 }
	results := []result.Result{finished("small", ours), finished("nvl72", ours), finished("nvl72", ours, twice), finished("nvl72", native, twice)}
	got := find(t, Judge(results, 1, nil), "all: devices allocated twice")
	if got.Measured != "2" || got.Verdict != Short || got.Note != "nvl72 2" {
		t.Errorf("got %+v", got)
	}
	if got := find(t, Judge(results[:2], 1, nil), "all: devices allocated twice"); got.Verdict != Pass {
		t.Errorf("got %+v", got)
	}
}

func TestRefusal(t *testing.T) {
	refusal := func(members, gang float64, attempts int, each float64) func(*result.Result) {
		return func(r *result.Result) {
			r.Mode, r.Refusal = result.Arrival, &result.Refusal{MembersTold: members, GangTold: gang, Attempts: attempts, CPUPerAttempt: each}
		}
	}
	results := []result.Result{finished("refuse", ours, refusal(0.03, -1, 10, 0.004)), finished("refuse", native, refusal(0.06, 0.05, 10, 0.1))}
	outcomes := Judge(results, 1, nil)
	if got := find(t, outcomes, "refuse: all members told after, podgang ÷ native"); got.Measured != "0.50" || got.Verdict != Pass {
		t.Errorf("got %+v", got)
	}
	if got := find(t, outcomes, "refuse: gang told after, podgang ÷ native"); got.Verdict != Short {
		t.Errorf("got %+v for a gang that was never told", got)
	}
	if got := find(t, outcomes, "refuse: CPU for each further attempt"); got.Measured != "4 ms" || got.Verdict != Pass {
		t.Errorf("got %+v", got)
	}
	// Without an attempt nothing was measured.
	results[0].Refusal.Attempts = 0
	if got := find(t, Judge(results, 1, nil), "refuse: CPU for each further attempt"); got.Verdict != NotMeasured {
		t.Errorf("got %+v", got)
	}
}

func TestGrowthWithNodes(t *testing.T) {
	size := func(nodes int, cpu float64) func(*result.Result) {
		return func(r *result.Result) { r.Nodes, r.CPUSeconds, r.Took, r.PeakRSS = nodes, cpu, 1, int64(nodes*nodes) }
	}
	results := []result.Result{finished("dra-500", ours, size(500, 1)), finished("dra-1600", ours, size(1600, 3)), finished("dra-5000", ours, size(5000, 9))}
	outcomes := Judge(results, 1, nil)
	if got := find(t, outcomes, "growth of CPU with nodes: exponent"); got.Measured != "0.95" || got.Verdict != Pass {
		t.Errorf("got %+v", got)
	}
	if got := find(t, outcomes, "growth of peak RSS with nodes: exponent"); got.Measured != "2.00" || got.Verdict != Short {
		t.Errorf("got %+v", got)
	}
	if got := find(t, Judge(results[:2], 1, nil), "growth of CPU with nodes: exponent"); got.Verdict != NotMeasured {
		t.Errorf("got %+v without the largest", got)
	}
}

func TestOnlyWhatWasAskedForIsJudged(t *testing.T) {
	results := []result.Result{
		finished("plain", ours, speed(1)), finished("plain", stock, speed(1)), finished("dp-500", ours, speed(1)), finished("dp-500", native, speed(1)),
	}
	for _, o := range Judge(results, 1, []string{"plain"}) {
		if strings.HasPrefix(o.Name, "dp-500") || o.Verdict == NotMeasured {
			t.Errorf("got %+v", o)
		}
	}
}

func TestDueLeavesOutWhatIsThere(t *testing.T) {
	plan := []Entry{{"a", []Rounds{{ours, 3}, {native, 1}}}, {"b", rounds(1, ours)}}
	build := func(string) string { return "b" }
	old := func(r *result.Result) { r.Build = "old" }
	arrival := func(r *result.Result) { r.Mode = result.Arrival }
	done := []result.Result{finished("a", ours), finished("a", ours, old), finished("a", ours, arrival), finished("b", native)}
	got := Due(plan, nil, 1, done, build)
	want := []Run{{"a", native, 1}, {"a", ours, 2}, {"a", ours, 3}, {"b", ours, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Due(plan, []string{"b"}, 1, done, build); !slices.Equal(got, want[3:]) {
		t.Errorf("only b: got %v", got)
	}
	if got := Due(plan, []string{"b"}, 0.1, []result.Result{finished("b", ours)}, build); len(got) != 1 {
		t.Errorf("at another scale: got %v", got)
	}
}

func TestPlanNamesWhatThereIs(t *testing.T) {
	for _, entry := range Plan() {
		if _, err := workload.Load(entry.Workload); err != nil {
			t.Error(err)
		}
		for _, s := range entry.Schedulers {
			if _, err := contender.Get(s.Scheduler); err != nil {
				t.Error(err)
			}
		}
	}
}
