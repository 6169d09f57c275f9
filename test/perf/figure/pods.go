// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"slices"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/journal"
)

// Rate is how many of the pods were bound in each second from start to the last binding,
// over that time; 0 if none was.
func Rate(entries []journal.Entry, start time.Time) float64 {
	n, last := 0, start
	for _, e := range entries {
		if e.Bound.IsZero() {
			continue
		}
		n++
		if e.Bound.After(last) {
			last = e.Bound
		}
	}
	if took := last.Sub(start); n > 0 && took > 0 {
		return float64(n) / took.Seconds()
	}
	return 0
}

// BoundBy counts the pods that were bound by the end of each step since start, up to the
// last binding: the curve of the throughput.
func BoundBy(entries []journal.Entry, start time.Time, step time.Duration) []int {
	var at []time.Time
	for _, e := range entries {
		if !e.Bound.IsZero() {
			at = append(at, e.Bound)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	var curve []int
	for i := 0; i < len(at); {
		limit := start.Add(time.Duration(len(curve)+1) * step)
		for i < len(at) && !at[i].After(limit) {
			i++
		}
		curve = append(curve, i)
	}
	return curve
}

// Split counts the gangs whose bound pods are in more than one domain, or on a node
// that is in none. required is the label key of each gang that has to be in one domain,
// labels are those of the nodes.
func Split(entries []journal.Entry, required map[string]string, labels map[string]map[string]string) int {
	domain, split := map[string]string{}, map[string]bool{}
	for _, e := range entries {
		key := required[e.Gang]
		if key == "" || e.Bound.IsZero() {
			continue
		}
		value, labelled := labels[e.Node][key]
		first, seen := domain[e.Gang]
		if !seen {
			domain[e.Gang] = value
		}
		if !labelled || seen && first != value {
			split[e.Gang] = true
		}
	}
	return len(split)
}

// LargestFit is the largest gang of pods, each of so many GPUs on one node, that fits
// into the free GPUs of the nodes.
func LargestFit(free []int, each int) int {
	n := 0
	for _, f := range free {
		n += max(0, f) / each
	}
	return n
}
