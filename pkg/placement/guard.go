// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// guard keeps pods that are placed one by one to what their scopes require.
type guard struct {
	f *field
	// domain is that of each scope, of which held pods have been placed.
	domain []int32
	held   []int
	// room tells for each scope which domains can hold it by the sums of what their
	// nodes have.
	room []map[int32]bool
}

func newGuard(f *field) *guard {
	return &guard{
		f: f, domain: make([]int32, len(f.scopes)), held: make([]int, len(f.scopes)),
		room: make([]map[int32]bool, len(f.scopes)),
	}
}

// admits reports whether a pod of the class may go to the node, in a domain that can
// hold all of each scope.
func (g *guard) admits(class, node int) bool {
	return g.allows(class, node, g.hasRoom)
}

// keeps reports whether a pod of the class may go to the node, whether or not there
// is room for others of its scopes.
func (g *guard) keeps(class, node int) bool {
	return g.allows(class, node, func(int, int32) bool { return true })
}

func (g *guard) allows(class, node int, hasRoom func(scope int, domain int32) bool) bool {
	for i := range g.f.scopes {
		s := &g.f.scopes[i]
		if s.Required == nil || !slices.Contains(s.classes, class) {
			continue
		}
		d := s.requiredOf(node)
		switch {
		case d == topology.None:
			return false
		case g.held[i] > 0:
			if g.domain[i] != d {
				return false
			}
		case !hasRoom(i, d):
			return false
		}
	}
	return true
}

// count adds a pod that is placed on the node, or takes it away.
func (g *guard) count(class, node, n int) {
	for i := range g.f.scopes {
		s := &g.f.scopes[i]
		if s.Required == nil || !slices.Contains(s.classes, class) {
			continue
		}
		g.held[i] += n
		if n > 0 {
			g.domain[i] = s.requiredOf(node)
		}
	}
}

func (g *guard) hasRoom(i int, domain int32) bool {
	if g.room[i] == nil {
		g.room[i] = make(map[int32]bool)
		s := &g.f.scopes[i]
		p := s.way(len(s.Preferred), g.f.size)
		r := &regions{f: g.f}
		holdings := r.holdings(s, p, g.f.nodes, g.f.limit)
		for at := range holdings {
			g.f.judge(s, &holdings[at])
			g.room[i][p.domain[at]] = holdings[at].missing == 0
		}
	}
	return g.room[i][domain]
}
