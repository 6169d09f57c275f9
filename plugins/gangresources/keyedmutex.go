// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// keyedMutex is a mutex for each of a set of UIDs. The zero value is ready.
type keyedMutex struct {
	// mu guards locks.
	mu    sync.Mutex
	locks map[types.UID]*countedMutex
}

type countedMutex struct {
	sync.Mutex
	users int
}

// lock takes the mutexes of all given UIDs, in an order that cannot deadlock,
// and returns the function that releases them.
func (k *keyedMutex) lock(uids []types.UID) (unlock func()) {
	uids = slices.Compact(slices.Sorted(slices.Values(uids)))
	held := make([]*countedMutex, 0, len(uids))
	for _, uid := range uids {
		m := k.acquire(uid)
		m.Lock()
		held = append(held, m)
	}
	return func() {
		for i, uid := range uids {
			held[i].Unlock()
			k.dispose(uid)
		}
	}
}

func (k *keyedMutex) acquire(uid types.UID) *countedMutex {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.locks == nil {
		k.locks = make(map[types.UID]*countedMutex)
	}
	m := k.locks[uid]
	if m == nil {
		m = &countedMutex{}
		k.locks[uid] = m
	}
	m.users++
	return m
}

func (k *keyedMutex) dispose(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.locks[uid]
	if m.users--; m.users == 0 {
		delete(k.locks, uid)
	}
}
