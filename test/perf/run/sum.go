// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"slices"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/figure"
	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/probe"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// curveStep is the resolution of the throughput curve.
const curveStep = 100 * time.Millisecond

// sumUp computes the figures at the end of a run.
func (r *run) sumUp(ctx context.Context) error {
	end := time.Now()
	after, err := r.requests(ctx)
	if err != nil {
		return err
	}
	r.out.Requests = probe.Since(r.before, after)
	if c := r.scheduler(); c != nil && c.Running() {
		usage, err := probe.ReadUsage(c.PID())
		if err != nil {
			return err
		}
		r.out.CPUSeconds, r.out.PeakRSS = usage.CPU.Seconds(), usage.PeakRSS
	}
	r.figures(r.record.Entries(), end)
	r.out.DoublyAllocated = r.record.Ledger.Doubly()
	return nil
}

// figures are those that come from the journal.
func (r *run) figures(entries []journal.Entry, end time.Time) {
	for _, e := range entries {
		// What was bound before the scheduler answered that it is ready shows that it was.
		if !e.Bound.IsZero() && e.Bound.Before(r.begin) {
			r.begin = e.Bound
		}
	}
	counts, _ := r.record.Counts()
	r.out.Bound = counts.Bound
	if counts.Bound > 0 {
		r.out.Took = counts.LastBound.Sub(r.begin).Seconds()
	}
	r.out.PodsPerSecond = figure.Rate(entries, r.begin)
	r.out.Curve, r.out.CurveStep = figure.BoundBy(entries, r.begin, curveStep), curveStep.Seconds()

	gangs := figure.Gangs(entries, sizes(&r.set), end)
	for i := range gangs {
		g := &gangs[i]
		r.out.PartialSeconds += g.Partial.Seconds()
		r.out.StalledSeconds += g.Stalled.Seconds()
		if g.Bound > 0 && g.Bound < g.Size {
			r.out.PartialGangs++
		}
	}
	r.waits(entries, gangs)
	r.out.SplitGangs = figure.Split(entries, required(&r.set), r.labels())
	waiting := map[string]bool{}
	for _, p := range r.set.Pods() {
		waiting[p.Name] = p.Waits
	}
	for _, e := range entries {
		if waiting[e.Pod] && !e.Bound.IsZero() {
			r.out.WronglyBound++
		}
	}
}

// waits are those of gangs; of pods, where no gang is to be bound.
func (r *run) waits(entries []journal.Entry, gangs []figure.Gang) {
	var waits []float64
	for i := range gangs {
		if wait, ok := gangs[i].Wait(r.begin); ok {
			waits = append(waits, wait.Seconds())
		}
	}
	for _, e := range entries {
		if !r.gangsToBind() && e.Gang == "" && !e.Bound.IsZero() {
			from := e.Created
			if r.begin.After(from) {
				from = r.begin
			}
			waits = append(waits, max(0, e.Bound.Sub(from)).Seconds())
		}
	}
	if len(waits) == 0 {
		return
	}
	slices.Sort(waits)
	r.out.Waits = waits
	r.out.WaitP50, r.out.WaitP90, r.out.WaitP99 = figure.Percentile(waits, 50), figure.Percentile(waits, 90), figure.Percentile(waits, 99)
}

func (r *run) gangsToBind() bool {
	return slices.ContainsFunc(r.set.Gangs, func(g workload.Gang) bool { return !g.Waits })
}

func sizes(set *workload.Set) map[string]int {
	floors := map[string]int{}
	for i := range set.Gangs {
		floors[set.Gangs[i].Name] = len(set.Gangs[i].Pods)
	}
	return floors
}

func required(set *workload.Set) map[string]string {
	keys := map[string]string{}
	for i := range set.Gangs {
		keys[set.Gangs[i].Name] = set.Gangs[i].Required
	}
	return keys
}

func (r *run) labels() map[string]map[string]string {
	labels := map[string]map[string]string{}
	for _, n := range r.cluster.Nodes {
		labels[n.Name] = n.Labels
	}
	return labels
}
