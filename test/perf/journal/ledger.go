// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"maps"
	"slices"
	"sync"
)

// Ledger knows who holds what, and finds what was given away twice. Holders are claims,
// or pods where GPUs are counted by a device plugin.
type Ledger struct {
	mu sync.Mutex // guards the fields below
	// capacity is how many of a thing there are; 1 where it is not said.
	capacity map[string]int
	held     map[string]map[string]int // holder → thing → count
	used     map[string]int            // thing → count
	// over are the things of which more was given away than there are, ever, by the most
	// that was too much.
	over map[string]int
}

// NewLedger makes a ledger in which nothing is held. capacity is how many of a thing
// there are, such as GPUs of a node; a device that it does not name is there once.
func NewLedger(capacity map[string]int) *Ledger {
	return &Ledger{capacity: capacity, held: map[string]map[string]int{}, used: map[string]int{}, over: map[string]int{}}
}

// Set says what the holder has now; nil: nothing.
func (l *Ledger) Set(holder string, things map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for thing, n := range l.held[holder] {
		l.used[thing] -= n
	}
	delete(l.held, holder)
	if len(things) == 0 {
		return
	}
	l.held[holder] = things
	for thing, n := range things {
		l.used[thing] += n
		limit, known := l.capacity[thing]
		if !known {
			limit = 1
		}
		if excess := l.used[thing] - limit; excess > l.over[thing] {
			l.over[thing] = excess
		}
	}
}

// Doubly is how many devices were given to two holders at a time, ever.
func (l *Ledger) Doubly() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, excess := range l.over {
		n += excess
	}
	return n
}

// Contested names the things that were given away twice, sorted.
func (l *Ledger) Contested() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.over))
}

// Used is how many of the thing are held now.
func (l *Ledger) Used(thing string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[thing]
}
