// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// reclaimDelay is how long a gang must be left alone before claims of members
// that nobody is placing are looked at.
const reclaimDelay = time.Second

// reclaimer clears claims that an attempt has left allocated which died with its
// scheduler. While the gang can be planned, the plan reuses them. When it cannot,
// they would keep their devices from others for as long as it waits.
type reclaimer struct {
	pl    *Plugin
	queue workqueue.TypedDelayingInterface[gang.Key]

	// mu guards alone and is a leaf.
	mu sync.Mutex
	// alone are the members that were refused in their own cycle, and whose next cycle
	// has not begun.
	alone map[types.UID]struct{}
}

func newReclaimer(pl *Plugin) *reclaimer {
	return &reclaimer{
		pl:    pl,
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[gang.Key]{Name: "podgang-reclaim"}),
		alone: make(map[types.UID]struct{}),
	}
}

// changed has the gang looked at when it has been left alone for a while.
func (r *reclaimer) changed(key gang.Key) {
	r.queue.AddAfter(key, reclaimDelay)
}

// refused has the gang looked at now: its plan was made with these claims, and
// there is no place for it.
func (r *reclaimer) refused(key gang.Key) {
	r.queue.Add(key)
}

// refusedAlone has the gang looked at now: one of its members was refused in its own
// cycle.
func (r *reclaimer) refusedAlone(key gang.Key, pod types.UID) {
	r.mu.Lock()
	r.alone[pod] = struct{}{}
	r.mu.Unlock()
	r.queue.Add(key)
}

// begins notes that a cycle of the pod begins, or that the pod is gone. It comes before
// the index is asked whether the gang is held: whoever is found among the refused while
// it is held does not get further in its next cycle.
func (r *reclaimer) begins(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.alone, pod)
}

func (r *reclaimer) isRefusedAlone(pod types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, refused := r.alone[pod]
	return refused
}

// run works until the context ends.
func (r *reclaimer) run(ctx context.Context) {
	defer r.queue.ShutDown()
	go func() {
		for r.next(ctx) {
		}
	}()
	<-ctx.Done()
}

func (r *reclaimer) next(ctx context.Context) bool {
	key, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(key)
	holders := r.holders(key)
	if len(holders) == 0 {
		return true
	}
	// From here on the gang is not planned, so that no attempt counts on what is
	// being cleared. Whoever has been planned since then is not among the holders.
	if !r.pl.index.Hold(key) {
		return true
	}
	for _, pod := range r.holders(key) {
		r.reclaim(ctx, key, pod)
	}
	r.pl.apply(ctx, r.pl.index.Unhold(key))
	return true
}

// holders returns the members that wait for something that their claims do not
// help with, and whose claims are allocated all the same.
func (r *reclaimer) holders(key gang.Key) []*v1.Pod {
	view, ok := r.pl.index.View(key)
	if !ok || view.Attempting {
		return nil
	}
	refused := r.pl.waits.refused(key)
	var holders []*v1.Pod
	for _, waiting := range view.Waiting {
		waits := waiting.Reason != "" || refused || view.Satisfied && r.isRefusedAlone(waiting.Pod.UID)
		if waits && r.pl.resources.HoldsAllocation(waiting.Pod) {
			holders = append(holders, waiting.Pod)
		}
	}
	return holders
}

func (r *reclaimer) reclaim(ctx context.Context, key gang.Key, pod *v1.Pod) {
	logger := klog.FromContext(ctx)
	if err := r.pl.resources.Reclaim(ctx, pod); err != nil {
		logger.Error(err, "Claims of a pod that waits stay allocated, trying again", "pod", klog.KObj(pod))
		r.changed(key)
		return
	}
	logger.V(2).Info("Cleared claims that an earlier attempt has left allocated", "pod", klog.KObj(pod))
}
