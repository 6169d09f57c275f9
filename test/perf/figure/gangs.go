// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"slices"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/journal"
)

// Gang is what became of one gang, all of whose pods are its floor.
type Gang struct {
	Name  string
	Size  int
	Bound int
	// Ready is when the last of its pods was created.
	Ready time.Time
	// Whole is when the last of its pods was bound; zero while one is not.
	Whole time.Time
	// Partial is how long some but not all of its pods were bound, up to its end: the
	// first deletion of a member, or the end of the run.
	Partial time.Duration
	// Stalled is the part of Partial in which StallAfter had passed since the last pod of
	// the gang was bound: nobody was at work on the rest.
	Stalled time.Duration
}

// StallAfter is the pause between two bindings of one gang from which on it counts as
// stalled. Bindings are one API call each, so that any gang is partly bound while its
// calls are on their way; one call takes milliseconds, and tens of them on a busy server.
const StallAfter = time.Second

// Gangs sums up the gangs of a journal, in the order in which they were created. sizes
// are the floors by name; end is when the run ended.
func Gangs(entries []journal.Entry, sizes map[string]int, end time.Time) []Gang {
	members := map[string][]journal.Entry{}
	var names []string
	for _, e := range entries {
		if e.Gang == "" {
			continue
		}
		if members[e.Gang] == nil {
			names = append(names, e.Gang)
		}
		members[e.Gang] = append(members[e.Gang], e)
	}
	gangs := make([]Gang, 0, len(names))
	for _, name := range names {
		gangs = append(gangs, gangOf(name, sizes[name], members[name], end))
	}
	return gangs
}

func gangOf(name string, size int, members []journal.Entry, end time.Time) Gang {
	g := Gang{Name: name, Size: size}
	var bound []time.Time
	for _, m := range members {
		if m.Created.After(g.Ready) {
			g.Ready = m.Created
		}
		if !m.Bound.IsZero() {
			bound = append(bound, m.Bound)
		}
		if !m.Deleted.IsZero() && m.Deleted.Before(end) {
			end = m.Deleted
		}
	}
	slices.SortFunc(bound, time.Time.Compare)
	g.Bound = len(bound)
	if g.Bound == 0 {
		return g
	}
	if g.Bound >= size {
		g.Whole = bound[size-1]
		end = g.Whole
	}
	if end.After(bound[0]) {
		g.Partial = end.Sub(bound[0])
	}
	for i, at := range bound {
		next := end
		if i+1 < len(bound) && bound[i+1].Before(end) {
			next = bound[i+1]
		}
		if pause := next.Sub(at); pause > StallAfter {
			g.Stalled += pause - StallAfter
		}
	}
	return g
}

// Wait is the time from when the gang could be scheduled, which is not before start,
// until it was whole; false if it never was.
func (g *Gang) Wait(start time.Time) (time.Duration, bool) {
	if g.Whole.IsZero() {
		return 0, false
	}
	from := g.Ready
	if start.After(from) {
		from = start
	}
	return max(0, g.Whole.Sub(from)), true
}
