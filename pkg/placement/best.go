// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/podgang/podgang-scheduler/pkg/score"
)

// Best returns the least time that a search finds for the gang if the cluster were
// empty: all its pods, the bound ones included, on their eligible nodes with all
// that these have, as the scopes require. It is infeasible if no place is found.
func Best(p *Problem) score.Result {
	best := score.Result{Infeasible: true}
	if p.Model == nil {
		return score.Result{Align: 1}
	}
	f := newEmptyField(p)
	if f.tiny() {
		if c, complete := newEnumeration(f).search(); complete {
			if c != nil {
				best = c.time
			}
			return best
		}
	}
	r := newRegions(f, func(lists nodeLists) bool {
		seats, ok := f.seat(lists, f.count, nil, nil)
		if !ok {
			return false
		}
		t := f.rate(seats)
		if t.Infeasible {
			return false
		}
		if best.Infeasible || t.Time < best.Time {
			best = t
		}
		return true
	})
	r.walk(0, f.nodes, f.leavesFor())
	return best
}
