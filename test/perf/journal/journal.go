// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"sync"
	"time"
)

// Entry is what happened to one pod; a time that is zero has not come.
type Entry struct {
	Pod string
	// Gang is empty for a pod outside gangs.
	Gang string
	// Node that the pod was bound to.
	Node string

	Created, Bound, Deleted time.Time
	// Refused is when the pod was first told that it is unschedulable.
	Refused time.Time
	// Claims: the pod's claims exist.
	Claims bool
}

// Journal is the record of one run.
type Journal struct {
	mu      sync.Mutex // guards the fields below
	entries map[string]*Entry
	order   []string // names of entries, by creation
	counts  Counts
	changed chan struct{} // closed and made anew at each change
	// told is when a gang was first told that it does not fit.
	told map[string]time.Time
}

// Counts are totals of a journal.
type Counts struct {
	// Created, Bound, Deleted and Refused count pods; Bound those deleted since too.
	Created, Bound, Deleted, Refused int
	// WithClaims counts the pods whose claims exist, of those that have any.
	WithClaims int
	// LastBound is when a pod was last bound.
	LastBound time.Time
}

// New makes an empty journal.
func New() *Journal {
	return &Journal{entries: map[string]*Entry{}, told: map[string]time.Time{}, changed: make(chan struct{})}
}

// State is what a pod looks like.
type State struct {
	Pod, Gang, Node string
	Refused, Claims bool
	Deleted         bool
}

// Observe enters the state of a pod as it was seen at that time.
func (j *Journal) Observe(s State, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[s.Pod]
	if e == nil {
		if s.Deleted {
			return
		}
		e = &Entry{Pod: s.Pod, Gang: s.Gang, Created: at}
		j.entries[s.Pod] = e
		j.order = append(j.order, s.Pod)
		j.counts.Created++
	}
	if s.Claims && !e.Claims {
		e.Claims = true
		j.counts.WithClaims++
	}
	if s.Node != "" && e.Bound.IsZero() {
		e.Node, e.Bound = s.Node, at
		j.counts.Bound++
		j.counts.LastBound = at
	}
	if s.Refused && e.Refused.IsZero() {
		e.Refused = at
		j.counts.Refused++
	}
	if s.Deleted && e.Deleted.IsZero() {
		e.Deleted = at
		j.counts.Deleted++
	}
	j.wake()
}

// Tell enters that a gang was told that it does not fit.
func (j *Journal) Tell(gang string, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, known := j.told[gang]; !known {
		j.told[gang] = at
		j.wake()
	}
}

// wake tells those who wait; mu is held.
func (j *Journal) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// Counts returns the totals, and a channel that is closed at the next change.
func (j *Journal) Counts() (Counts, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts, j.changed
}

// Told is when the gang was told that it does not fit; zero if it was not.
func (j *Journal) Told(gang string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.told[gang]
}

// Entries are copies of all entries, in the order of creation.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := make([]Entry, 0, len(j.order))
	for _, name := range j.order {
		entries = append(entries, *j.entries[name])
	}
	return entries
}
