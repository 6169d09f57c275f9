// SPDX-License-Identifier: Apache-2.0

package inflight

import "sync"

// traffic counts writes from when they ask for a slot until they are answered, and tells
// when there are few.
type traffic struct {
	mu   sync.Mutex // guards all below
	open int
	// calm is open while there are no writes, easy while fewer than Backlog.
	calm, easy gate
}

// gate is open while there are at most so many writes.
type gate struct {
	most int
	// opened is closed while the gate is open; the write that shuts the gate makes a new one.
	opened chan struct{}
}

func newTraffic() *traffic {
	return &traffic{calm: newGate(0), easy: newGate(Backlog - 1)}
}

func newGate(most int) gate {
	g := gate{most: most, opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (t *traffic) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open++
	t.calm.begin(t.open)
	t.easy.begin(t.open)
}

func (t *traffic) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	t.calm.end(t.open)
	t.easy.end(t.open)
}

// begin and end are told how many writes there are since one more has begun or ended.
func (g *gate) begin(open int) {
	if open == g.most+1 {
		g.opened = make(chan struct{})
	}
}

func (g *gate) end(open int) {
	if open == g.most {
		close(g.opened)
	}
}

// calmed is closed when there are no writes, or as soon as there are none.
func (t *traffic) calmed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calm.opened
}

// eased is closed when there are fewer writes than Backlog, or as soon as there are.
func (t *traffic) eased() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.easy.opened
}

func (t *traffic) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}
