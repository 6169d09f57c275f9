// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// A gang that has failed is in back-off, and the more often it has failed the longer.
// When something comes free, pods that have failed less often are taken out of the
// queue before it, whatever the order of the queue says; and a gang that has lost a
// member to a node would not get that node back. So a pod gives way, once, to a gang
// that is before it in the order and has been woken since its last attempt.
//
// Attempts that gangs get in this way take a tenth of the scheduler's time at most:
// after one there is a pause of passPause times its duration. A gang that is bound in
// part need not wait for the end of it.
const passPause = 9

// turnBook knows which gangs have been woken since their last attempt.
type turnBook struct {
	// mu guards the fields below, but for what yielded guards itself. It is taken under
	// the lock of the scheduling queue, and no other is taken under it.
	mu sync.Mutex
	// due are the leaders of gangs that were woken since their last attempt.
	due map[gang.Key]*v1.Pod
	// passed is the gang that somebody has given way to last, until it was tried.
	passed gang.Key
	// next is the earliest time at which a pod gives way again.
	next time.Time
	// yielded are the pods that have given way and have not been tried since.
	yielded *bystanderBook
}

func newTurnBook() *turnBook {
	return &turnBook{due: make(map[gang.Key]*v1.Pod), yielded: newBystanderBook()}
}

// wake notes that something has happened that the gang was waiting for.
func (b *turnBook) wake(key gang.Key, leader *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due[key] = leader
}

// began notes that the gang is being tried, or that it is gone.
func (b *turnBook) began(key gang.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.due, key)
}

// ended notes how long a gang's attempt to find a place took, and returns the pods that
// may have been waiting for it.
func (b *turnBook) ended(key gang.Key, now time.Time, took time.Duration) []*v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key == b.passed {
		b.passed, b.next = gang.Key{}, now.Add(passPause*took)
	}
	return b.yielded.take()
}

// first returns the gang that is first in the order of those that are due and come
// before the pod with the key; ok is false if there is none, or if it is too early. The gang
// is not due any more: it has its turn now.
func (b *turnBook) first(now time.Time, before gang.SortKey, keyOf func(*v1.Pod) gang.SortKey) (key gang.Key, leader *v1.Pod, ok bool) {
	b.mu.Lock()
	due, early := maps.Clone(b.due), now.Before(b.next)
	b.mu.Unlock()
	for other, pod := range due {
		k := keyOf(pod)
		if early && k.Rank != gang.RankTopUp {
			continue
		}
		if k.Compare(before) < 0 {
			key, leader, before, ok = other, pod, k, true
		}
	}
	if !ok {
		return key, nil, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.due, key)
	b.passed = key
	return key, leader, true
}

// givesWay has a pod go back into the queue when it is the turn of a gang that is in
// back-off; nil means that the pod goes on. It runs in the pod's scheduling cycle.
func (pl *Plugin) givesWay(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Status.NominatedNodeName != "" {
		// Room has been made for it, which it would lose.
		return nil
	}
	key, leader, ok := pl.turns.first(time.Now(), pl.turnKey(pod), pl.turnKey)
	if !ok || leader.UID == pod.UID {
		return nil
	}
	logger := klog.FromContext(ctx)
	pl.turns.yielded.add(pod)
	// The gang may be gone by now, and nobody would call for the pod again.
	time.AfterFunc(yieldTime, func() { pl.activate(logger, []*v1.Pod{pod}) })
	pl.activate(logger, []*v1.Pod{leader})
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("gives way to PodGang %s for a moment", key))
}

// turnKey is where a pod is in the order of the queue. The age of a pod in no gang is
// that of the object: when it was queued last is not known here.
func (pl *Plugin) turnKey(pod *v1.Pod) gang.SortKey {
	if key, member := pl.index.SortKey(pod); member {
		key.Priority = pl.priorityOf(key.PriorityClass, pod)
		return key
	}
	return gang.SortKey{Priority: corev1.PodPriority(pod), Rank: gang.RankFloor, Since: pod.CreationTimestamp.Time}
}
