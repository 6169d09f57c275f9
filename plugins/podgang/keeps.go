// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// keep is a set of nodes that are closed to pods which come after a gang. It does not
// change.
type keep struct {
	key   gang.Key
	order gang.SortKey
	nodes sets.Set[string]
	// reason is what those are told that are kept out.
	reason string
}

func newKeep(key gang.Key, order gang.SortKey, since time.Time, nodes sets.Set[string]) *keep {
	return &keep{
		key: key, order: order, nodes: nodes,
		reason: fmt.Sprintf("kept for PodGang %s, which has waited since %s", key, since.UTC().Format(time.RFC3339)),
	}
}

// keepBook knows since when gangs have been refused, and the one that nodes are kept
// for.
type keepBook struct {
	// after is how long a gang is refused before nodes are kept for it, 0 for ever.
	after time.Duration
	// current is nil while no nodes are kept. It is read without a lock.
	current atomic.Pointer[keep]
	// mu guards hungry and changes of current. It is a leaf.
	mu sync.Mutex
	// hungry are the gangs that have been refused and do not have their floors.
	hungry map[gang.Key]*hunger
}

// hunger is what is known of a gang that has been refused.
type hunger struct {
	// since is when it was refused first, next when nodes may be looked for.
	since, next time.Time
}

func newKeepBook(after time.Duration) *keepBook {
	return &keepBook{after: after, hungry: make(map[gang.Key]*hunger)}
}

// refused notes that there was no room for the floor of a gang. It reports since when
// that has been so, and whether nodes are to be looked for now: it has been refused for
// long, and no nodes are kept for a gang that comes before it.
func (b *keepBook) refused(key gang.Key, order gang.SortKey, now time.Time) (since time.Time, due bool) {
	if b.after == 0 {
		return now, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hungry[key]
	if h == nil {
		h = &hunger{since: now, next: now.Add(b.after)}
		b.hungry[key] = h
	}
	return h.since, !now.Before(h.next) && b.mayKeep(key, order)
}

// mayKeep reports whether no nodes are kept for a gang that comes before this one. The
// lock is held.
func (b *keepBook) mayKeep(key gang.Key, order gang.SortKey) bool {
	k := b.current.Load()
	return k == nil || k.key == key || order.Compare(k.order) < 0
}

// keep closes the nodes of k, unless there is a gang that comes before. It reports
// whether nodes that were closed are open now.
func (b *keepBook) keep(k *keep) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hungry[k.key] == nil || !b.mayKeep(k.key, k.order) {
		return false
	}
	before := b.current.Swap(k)
	return before != nil && !k.nodes.IsSuperset(before.nodes)
}

// postpone has no nodes looked for, for a gang, for a while.
func (b *keepBook) postpone(key gang.Key, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.hungry[key]; h != nil {
		h.next = until
	}
}

// open opens the nodes that are kept for the gang, and reports whether there were any.
func (b *keepBook) open(key gang.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openLocked(key)
}

func (b *keepBook) openLocked(key gang.Key) bool {
	if k := b.current.Load(); k == nil || k.key != key {
		return false
	}
	b.current.Store(nil)
	return true
}

// forget is open for a gang that does not wait for room any more, however long it has.
func (b *keepBook) forget(key gang.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.hungry, key)
	return b.openLocked(key)
}

// nodesOf returns the nodes that are kept for the gang, nil for none.
func (b *keepBook) nodesOf(key gang.Key) sets.Set[string] {
	if k := b.current.Load(); k != nil && k.key == key {
		return k.nodes
	}
	return nil
}
