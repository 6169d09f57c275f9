// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// blockers are the plugins that kept a gang from being placed, each with the
// pods that it refused: one of every class, or the very pod where it refused
// that pod on all nodes.
type blockers map[string][]*v1.Pod

// add notes that the plugins, joined by commas, have refused the pod.
func (b blockers) add(plugins string, pod *v1.Pod) {
	for plugin := range strings.SplitSeq(plugins, ",") {
		if !slices.ContainsFunc(b[plugin], func(known *v1.Pod) bool { return known.UID == pod.UID }) {
			b[plugin] = append(b[plugin], pod)
		}
	}
}

// waitBook remembers, for each gang that did not fit at its last attempt, what
// blocked it.
type waitBook struct {
	// mu guards waits. It is taken under the lock of the scheduling queue and is a
	// leaf.
	mu    sync.Mutex
	waits map[gang.Key]waiting
}

type waiting struct {
	leader   *v1.Pod
	blockers blockers
	// refused is when the gang was found not to fit, zero while it is planned.
	refused time.Time
}

func newWaitBook() *waitBook {
	return &waitBook{waits: make(map[gang.Key]waiting)}
}

// set records why the gang waits. The leader is the pod to be queued again.
func (b *waitBook) set(key gang.Key, leader *v1.Pod, blockers blockers) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := waiting{leader: leader, blockers: blockers}
	if len(blockers) > 0 {
		w.refused = time.Now()
	}
	b.waits[key] = w
}

// clear forgets the gang.
func (b *waitBook) clear(key gang.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waits, key)
}

// leader returns the pod that waits on behalf of the gang, nil if the gang does not wait.
func (b *waitBook) leader(key gang.Key) *v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waits[key].leader
}

// blockedBy returns the pods of the leader's gang that the plugin refused, none
// if the pod is not the leader of a gang that waits.
func (b *waitBook) blockedBy(key gang.Key, leader types.UID, plugin string) []*v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waits[key]
	if w.leader == nil || w.leader.UID != leader {
		return nil
	}
	return w.blockers[plugin]
}

// refused reports whether the gang did not fit at its last attempt.
func (b *waitBook) refused(key gang.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waits[key].blockers) > 0
}

// lastRefusal returns when another gang was last found not to fit.
func (b *waitBook) lastRefusal(except gang.Key) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var last time.Time
	for key, w := range b.waits {
		if key != except && w.refused.After(last) {
			last = w.refused
		}
	}
	return last
}

// leaders returns the leaders of all gangs that wait.
func (b *waitBook) leaders() []*v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	leaders := make([]*v1.Pod, 0, len(b.waits))
	for _, w := range b.waits {
		leaders = append(leaders, w.leader)
	}
	return leaders
}

// bystanderBook remembers pods that lead no gang and were refused while a gang, or a
// pod that was placed alone, held room in memory.
type bystanderBook struct {
	// mu guards the fields below and is a leaf.
	mu   sync.Mutex
	pods map[types.UID]*v1.Pod
	// alone are the pods that were placed alone and are not bound yet.
	alone map[types.UID]struct{}
}

func newBystanderBook() *bystanderBook {
	return &bystanderBook{pods: make(map[types.UID]*v1.Pod), alone: make(map[types.UID]struct{})}
}

func (b *bystanderBook) add(pod *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods[pod.UID] = pod
}

func (b *bystanderBook) remove(pod *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, pod.UID)
}

// placed notes that a pod holds room alone, ended that it is bound or has given the
// room back.
func (b *bystanderBook) placed(pod *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone[pod.UID] = struct{}{}
}

func (b *bystanderBook) ended(pod *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.alone, pod.UID)
}

// anyPlaced reports whether a pod holds room alone.
func (b *bystanderBook) anyPlaced() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.alone) > 0
}

// take returns all pods and forgets them.
func (b *bystanderBook) take() []*v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(b.pods))
	for _, pod := range b.pods {
		pods = append(pods, pod)
	}
	clear(b.pods)
	return pods
}
