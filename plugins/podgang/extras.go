// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// Room often comes piece by piece, and an extra can use a piece that is of no use
// to a floor alone. So an extra gives way while the floor of another gang has been
// refused within the last yieldTime, but not for longer than yieldLimit in all.
const (
	yieldTime  = time.Second
	yieldLimit = 5 * time.Second
)

// floorsFirst reports whether the floor of another gang of the same or a higher
// priority waits: the extras of this one come after it.
func (pl *Plugin) floorsFirst(key gang.Key, groups []gang.GroupSnapshot) bool {
	for _, group := range groups {
		for _, extra := range group.Extras {
			return pl.floorWaits(key, extra)
		}
	}
	return false
}

// floorWaits reports whether the floor of another gang of no lower priority than
// the pod's waits.
func (pl *Plugin) floorWaits(key gang.Key, pod *v1.Pod) bool {
	priority := pl.priorityIn(pod)
	for _, other := range pl.index.FloorsWaiting(key) {
		if pl.priorityIn(other) >= priority {
			return true
		}
	}
	return false
}

// priorityIn returns the priority of a pod as a member of its gang.
func (pl *Plugin) priorityIn(pod *v1.Pod) int32 {
	key, _ := pl.index.SortKey(pod)
	return pl.priorityOf(key.PriorityClass, pod)
}

// yields reports whether an extra is to give way now; it is then activated again
// later.
func (pl *Plugin) yields(logger klog.Logger, key gang.Key, extra *v1.Pod) bool {
	now := time.Now()
	if now.Sub(pl.waits.lastRefusal(key)) >= yieldTime || !pl.floorWaits(key, extra) {
		pl.extras.proceed(extra.UID)
		return false
	}
	if !pl.extras.yield(extra.UID, now) {
		return false
	}
	time.AfterFunc(yieldTime, func() { pl.activate(logger, []*v1.Pod{extra}) })
	return true
}

// extraBook knows since when extras have been giving way.
type extraBook struct {
	// mu guards since and is a leaf.
	mu    sync.Mutex
	since map[types.UID]time.Time
}

func newExtraBook() *extraBook {
	return &extraBook{since: make(map[types.UID]time.Time)}
}

// yield notes that the pod gives way, unless it has done so for long enough.
func (b *extraBook) yield(pod types.UID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, yielding := b.since[pod]
	if !yielding {
		b.since[pod] = now
		return true
	}
	if now.Sub(since) < yieldLimit {
		return true
	}
	delete(b.since, pod)
	return false
}

// proceed notes that the pod does not give way any more.
func (b *extraBook) proceed(pod types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.since, pod)
}
