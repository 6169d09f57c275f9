// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/placement"
)

// scratch is the memory that a plan needs for each node of the cluster. One plan after
// the other uses the same: with thousands of nodes it would otherwise be most of what the
// scheduler allocates, and its peak memory grows with that. It belongs to the goroutine of
// the scheduling cycle, and what it hands out to the world that has been made last.
type scratch struct {
	stock   pieces[placement.Node]
	amounts pieces[int64]
	flags   pieces[bool]
	indices pieces[int]
	answers pieces[*fwk.Status]
}

// reset takes back all that has been handed out. Nothing of the last plan may be in use
// any more.
func (s *scratch) reset() {
	s.stock.handed, s.amounts.handed, s.flags.handed, s.indices.handed, s.answers.handed = 0, 0, 0, 0, 0
}

// keptPieces bounds the pieces of a kind that are kept: those of a gang of a few classes.
const keptPieces = 16

// pieces are slices to be used again and again.
type pieces[T any] struct {
	kept [][]T
	// handed is how many of those kept are in use.
	handed int
}

// take returns an empty slice with room for count elements.
func (p *pieces[T]) take(count int) []T {
	if p.handed == keptPieces {
		return make([]T, 0, count)
	}
	if p.handed == len(p.kept) {
		p.kept = append(p.kept, nil)
	}
	piece := &p.kept[p.handed]
	p.handed++
	if cap(*piece) < count {
		*piece = make([]T, 0, count)
	}
	return (*piece)[:0:count]
}

// zeroed returns a slice of count zeros.
func (p *pieces[T]) zeroed(count int) []T {
	zeros := p.take(count)[:count]
	clear(zeros)
	return zeros
}
