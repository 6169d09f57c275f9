// SPDX-License-Identifier: Apache-2.0

package inflight

import "sync"

// traffic counts writes from when they ask for a slot until they are answered, and tells
// when there are none.
type traffic struct {
	mu   sync.Mutex // guards all below
	open int
	// calm is closed when open becomes 0; the next write makes a new one.
	calm chan struct{}
}

func newTraffic() *traffic {
	t := &traffic{calm: make(chan struct{})}
	close(t.calm)
	return t
}

func (t *traffic) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == 0 {
		t.calm = make(chan struct{})
	}
	t.open++
}

func (t *traffic) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	if t.open == 0 {
		close(t.calm)
	}
}

// calmed is closed when there are no writes, or as soon as there are none.
func (t *traffic) calmed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calm
}

func (t *traffic) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}
