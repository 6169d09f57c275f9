// SPDX-License-Identifier: Apache-2.0

package target

import (
	"slices"

	"github.com/podgang/podgang-scheduler/test/perf/contender"
	"github.com/podgang/podgang-scheduler/test/perf/result"
)

// Names of contenders that targets compare.
const (
	ours    = contender.PodGang
	shipped = "podgang-shipped"
	native  = "native"
	stock   = "kube-scheduler"
	cosched = "coscheduling"
	oracle  = contender.Oracle
)

// Entry is how often the schedulers run one workload.
type Entry struct {
	Workload string
	// Schedulers take turns; each has its number of rounds.
	Schedulers []Rounds
}

// Rounds of one scheduler.
type Rounds struct {
	Scheduler string
	Rounds    int
}

// three rounds of each give a median; one is for peers that are slow, or that no ratio
// but the memory's needs.
func rounds(n int, schedulers ...string) []Rounds {
	var list []Rounds
	for _, s := range schedulers {
		list = append(list, Rounds{s, n})
	}
	return list
}

// Plan is all that the targets need, what matters most first.
func Plan() []Entry {
	return []Entry{
		{"dra-500", slices.Concat(rounds(3, ours, shipped, native, oracle), rounds(1, stock, cosched))},
		{"dp-500", rounds(3, ours, shipped, native, oracle)},
		{"dra-fill-empty", slices.Concat(rounds(3, ours, oracle), rounds(1, native))},
		{"dra-fill-half", slices.Concat(rounds(3, ours, oracle), rounds(1, native))},
		{"topology-512", slices.Concat(rounds(3, ours, oracle), rounds(1, native))},
		{"refuse", rounds(3, ours, native)},
		{"plain", slices.Concat(rounds(3, ours, stock), rounds(1, native))},
		{"gang-1000x3", rounds(3, ours, native)},
		{"gang-3x1000", rounds(3, ours, native)},
		{"tas-750x4", slices.Concat(rounds(3, ours), rounds(1, native))},
		{"tas-3x1000", slices.Concat(rounds(3, ours), rounds(1, native))},
		{"dra-1600", rounds(1, ours)},
		{"dra-5000", rounds(1, ours)},
		{"nvl72", rounds(1, ours, native)},
		{"small", rounds(1, ours, native)},
		{"mixed", rounds(1, ours, native)},
		{"churn", rounds(1, ours, native)},
	}
}

// Run is one run that is due.
type Run struct {
	Workload, Scheduler string
	Round               int
}

// Due lists the runs of the plan, round by round within a workload, without those that
// done has of the same build already. only are names of workloads; none means all.
// build tells the build of a scheduler.
func Due(plan []Entry, only []string, scale float64, done []result.Result, build func(scheduler string) string) []Run {
	type key struct {
		workload, scheduler string
	}
	have := map[key]int{}
	for i := range done {
		r := &done[i]
		if r.Scale == scale && r.Build == build(r.Scheduler) && standard(r) {
			have[key{r.Workload, r.Scheduler}]++
		}
	}
	var due []Run
	for _, entry := range plan {
		if len(only) > 0 && !slices.Contains(only, entry.Workload) {
			continue
		}
		for round := 1; ; round++ {
			more := false
			for _, s := range entry.Schedulers {
				more = more || s.Rounds > round
				if s.Rounds >= round && round > have[key{entry.Workload, s.Scheduler}] {
					due = append(due, Run{entry.Workload, s.Scheduler, round})
				}
			}
			if !more {
				break
			}
		}
	}
	return due
}

// standard reports whether the run was in the mode that targets are about.
func standard(r *result.Result) bool {
	return r.Mode == result.Drain || r.Refusal != nil || r.Churn != nil
}
