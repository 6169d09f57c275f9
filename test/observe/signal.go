// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Signal wakes those who wait for a condition on what changes. Its zero value is ready
// for use.
type Signal struct {
	mu sync.Mutex // guards changed
	// changed is closed with the next change; nil if nobody waits for it.
	changed chan struct{}
}

// Raise says that something has changed.
func (s *Signal) Raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *Signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// recheck is how often a condition is looked at although nothing has changed: some
// conditions are about more than what raises the signal.
const recheck = 100 * time.Millisecond

// Wait returns when the condition holds, or an error when the time is over or ctx ends.
func (s *Signal) Wait(ctx context.Context, timeout time.Duration, holds func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not so after %v", timeout))
	defer cancel()
	again := time.NewTicker(recheck)
	defer again.Stop()
	for {
		changed := s.next() // before the look: what changes after it wakes
		if holds() {
			return nil
		}
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
