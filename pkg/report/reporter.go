// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/gang"
)

const (
	// workers write reports of different gangs at the same time.
	workers = 4
	// gather is how long changes of a gang are gathered before they are reported.
	gather = 20 * time.Millisecond
	// writers is how many members of one gang are told at a time.
	writers = 16
	// calm is how long the reasons that lie with a gang itself must stay the same
	// before they are reported: while it is being created they change with every
	// pod.
	calm = time.Second
	// pause is the least time between two events on one gang.
	pause = 2 * time.Second
)

// Reasons of events on a PodGang and of the condition PodScheduled of its pods.
const (
	// ReasonUnschedulable: the gang is ready and does not fit.
	ReasonUnschedulable = v1.PodReasonUnschedulable
	// ReasonNotReady: the gang lacks members, or is wrong.
	ReasonNotReady = "GangNotReady"
	// ReasonUndone: an attempt to place the gang was undone.
	ReasonUndone = "GangUndone"
	// ReasonNotBound: a member of a gang that was let go could not be bound.
	ReasonNotBound = "MemberNotBound"
	// ReasonReuseIgnored: the gang whose place is to be reused is not known.
	ReasonReuseIgnored = "ReuseReservationIgnored"
	// ReasonScheduled: every group of the gang has its floor bound.
	ReasonScheduled = "GangScheduled"
)

// Reporter writes reports on gangs.
type Reporter struct {
	// name is the scheduler's, for events.
	name   string
	index  *gang.Index
	client kubernetes.Interface
	gangs  dynamic.Interface
	policy config.StatusPolicy
	queue  workqueue.TypedRateLimitingInterface[gang.Key]
	clock  clock.PassiveClock

	// mu guards notes.
	mu    sync.Mutex
	notes map[gang.Key]*note
}

// note is what the reporter knows about a gang besides what the index tells.
type note struct {
	// verdict is the last answer of the scheduler, empty if there was none since
	// the gang last lacked members or was last bound.
	verdict verdict
	// undone is why the last attempt was undone, empty once that is told.
	undone string
	// notBound is why a member could not be bound, empty once that is told.
	notBound string
	// ignored is why a hint is not followed, ignoredTold what was told of that.
	ignored, ignoredTold string
	// told is the verdict that was last told with an event, at toldAt.
	told   verdict
	toldAt time.Time
	// waited is set when the gang has been seen without its floors: of one that
	// had them when the scheduler started there is nothing to tell.
	waited bool
	// seen are the reasons that lie with the gang itself, as last looked at, and
	// since is when they came to be that.
	seen  string
	since time.Time
	// readySince is when the gang was first seen with its members and without its
	// floors, zero if it has its floors or lacks members.
	readySince time.Time
	// passing is the state of a gang that is not expected to stay in it.
	passing passing
	// score is the placement score of the last plan, nil if there was none since the
	// scheduler started, or it was undone.
	score *float64
	// patched is the version of the PodGang to which its status was last written.
	patched string
}

// verdict is a reason for a gang to wait, or that it is scheduled.
type verdict struct {
	reason string
	// message is for the PodGang, podMessage for its pods.
	message, podMessage string
}

// New returns a reporter for the gangs of one scheduler name. It does nothing
// until Run.
func New(name string, index *gang.Index, client kubernetes.Interface, gangs dynamic.Interface, policy config.StatusPolicy) *Reporter {
	registerMetrics()
	return &Reporter{
		name:   name,
		index:  index,
		client: client,
		gangs:  gangs,
		policy: policy,
		clock:  clock.RealClock{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[gang.Key](200*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[gang.Key]{Name: "podgang-report"}),
		notes: make(map[gang.Key]*note),
	}
}

// Run writes reports until the context ends.
func (r *Reporter) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for r.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	r.queue.ShutDown()
	wg.Wait()
}

// Changed notes that something about the gang has changed.
func (r *Reporter) Changed(key gang.Key) {
	r.queue.AddAfter(key, gather)
}

// Waits notes that the gang was found not to fit, with the reason for the
// PodGang and the one for its pods.
func (r *Reporter) Waits(key gang.Key, message, podMessage string) {
	r.update(key, func(n *note) {
		n.verdict = verdict{reason: ReasonUnschedulable, message: message, podMessage: podMessage}
	})
	r.queue.Add(key)
}

// Scored notes the placement score of a plan. It is written when the floor is bound.
func (r *Reporter) Scored(key gang.Key, score float64) {
	r.update(key, func(n *note) { n.score = &score })
	r.queue.AddAfter(key, gather)
}

// Undone notes that an attempt to place the gang was undone.
func (r *Reporter) Undone(key gang.Key, cause gang.Cause, reason string) {
	rollbacks.WithLabelValues(string(cause)).Inc()
	r.update(key, func(n *note) { n.undone, n.score = reason, nil })
	r.queue.AddAfter(key, gather)
}

// ReuseIgnored notes that the gang's hint to reuse the place of another is not followed.
// It is told once; the empty reason says that there is nothing to tell any more.
func (r *Reporter) ReuseIgnored(key gang.Key, reason string) {
	if reason == "" && !r.known(key) {
		return
	}
	changed := false
	r.update(key, func(n *note) { changed, n.ignored = n.ignored != reason, reason })
	if changed && reason != "" {
		r.queue.AddAfter(key, gather)
	}
}

// NotBound notes that a member of a gang that was let go could not be bound.
func (r *Reporter) NotBound(key gang.Key, reason string) {
	r.update(key, func(n *note) { n.notBound = reason })
	r.queue.AddAfter(key, gather)
}

func (r *Reporter) update(key gang.Key, change func(*note)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.notes[key]
	if n == nil {
		n = &note{}
		r.notes[key] = n
	}
	change(n)
}

// known reports whether there is a note on the gang.
func (r *Reporter) known(key gang.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notes[key] != nil
}

func (r *Reporter) forget(key gang.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.notes, key)
}

func (r *Reporter) next(ctx context.Context) bool {
	key, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(key)
	err := r.report(ctx, key)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		r.queue.Forget(key)
	case ctx.Err() != nil:
	default:
		// A conflict means that the object has changed: its event is on the way.
		if !apierrors.IsConflict(err) {
			klog.FromContext(ctx).Error(err, "Report on a gang failed, trying again", "podGang", klog.KRef(key.Namespace, key.Name))
		}
		r.queue.AddRateLimited(key)
	}
	return true
}

// report writes what is due for one gang.
func (r *Reporter) report(ctx context.Context, key gang.Key) error {
	view, ok := r.index.View(key)
	if !ok || !view.Ours {
		// Gone, another scheduler's, or without members so far.
		r.forget(key)
		return nil
	}
	due := r.due(key, view)
	if due.again > 0 {
		r.queue.AddAfter(key, due.again)
	}
	var wg sync.WaitGroup
	var object error
	wg.Go(func() { object = r.tellGang(ctx, key, view, due) })
	members := r.tellMembers(ctx, view, due)
	wg.Wait()
	return errors.Join(object, members)
}

// tellGang writes the events and the status of the PodGang.
func (r *Reporter) tellGang(ctx context.Context, key gang.Key, view gang.View, due dueReport) error {
	if view.Object == nil {
		return nil
	}
	events := r.writeEvents(ctx, view.Object, due.events)
	if events != nil {
		r.update(key, func(n *note) { n.untell(due.events) })
	}
	if due.passing {
		return events
	}
	return errors.Join(events, r.writeStatus(ctx, key, view))
}

// tellMembers writes the condition of every member that waits.
func (r *Reporter) tellMembers(ctx context.Context, view gang.View, due dueReport) error {
	errs := make([]error, len(view.Waiting))
	workqueue.ParallelizeUntil(ctx, writers, len(view.Waiting), func(i int) {
		waiting, v := view.Waiting[i], due.verdict
		if waiting.Reason != "" {
			v = verdict{}
			if due.calm {
				v = verdict{reason: ReasonNotReady, podMessage: waiting.Reason}
			}
		}
		if v.podMessage != "" {
			errs[i] = r.writeCondition(ctx, waiting.Pod, v)
		}
	})
	return errors.Join(errs...)
}

// dueReport is what is to be written for a gang now.
type dueReport struct {
	// verdict is for members that wait for room.
	verdict verdict
	// calm is set when the reasons of members that wait for something else have
	// settled.
	calm bool
	// events are to be created on the PodGang.
	events []event
	// passing is set when the status is likely to be another one soon, and is not written.
	passing bool
	// again is when to look again, zero for not before something changes.
	again time.Duration
}

func (r *Reporter) due(key gang.Key, view gang.View) dueReport {
	var due dueReport
	r.update(key, func(n *note) {
		now := r.clock.Now()
		due.calm, due.again = n.calm(reasonsOf(view), now)
		var tell verdict
		switch {
		case view.Blocked != "":
			n.verdict = verdict{}
			if due.calm {
				tell = verdict{reason: ReasonNotReady, message: view.Blocked}
			}
		case view.Satisfied && view.AnyBound:
			n.verdict = verdict{}
			if n.waited {
				tell = verdict{reason: ReasonScheduled, message: "every group has its floor bound"}
			}
		default:
			tell, due.verdict = n.verdict, n.verdict
		}
		if wait := n.passes(view, now); wait > 0 {
			due.passing, due.again = true, sooner(due.again, wait)
		}
		n.waited = n.waited || !view.Satisfied
		n.measureWait(view, now)
		if wait := n.toldAt.Add(pause).Sub(now); wait > 0 && (tell != n.told || n.undone != "" || n.notBound != "" || n.ignored != n.ignoredTold) {
			due.again = sooner(due.again, wait)
			return
		}
		due.events = n.tell(tell, now)
	})
	return due
}

// sooner returns the shorter of two times to wait, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

// measureWait notes when the gang is ready, and observes how long it has waited
// when it gets its floors.
func (n *note) measureWait(view gang.View, now time.Time) {
	switch {
	case view.Blocked != "":
		n.readySince = time.Time{}
	case !view.Satisfied && n.readySince.IsZero():
		n.readySince = now
	case view.Satisfied && !n.readySince.IsZero():
		gangWait.Observe(now.Sub(n.readySince).Seconds())
		n.readySince = time.Time{}
	}
}

// calm tells whether the reasons have been the same for long enough, and if not,
// when to look again.
func (n *note) calm(reasons string, now time.Time) (settled bool, again time.Duration) {
	if reasons != n.seen {
		n.seen, n.since = reasons, now
	}
	wait := n.since.Add(calm).Sub(now)
	if reasons == "" || wait <= 0 {
		return true, 0
	}
	return false, wait
}

// tell returns the events that are due: an attempt that was undone, a member that could
// not be bound, and a verdict that differs from the one last told.
func (n *note) tell(v verdict, now time.Time) []event {
	var due []event
	if n.undone != "" {
		due = append(due, event{kind: v1.EventTypeWarning, reason: ReasonUndone, note: n.undone})
		n.undone = ""
	}
	if n.notBound != "" {
		due = append(due, event{kind: v1.EventTypeWarning, reason: ReasonNotBound, note: n.notBound})
		n.notBound = ""
	}
	if n.ignored != "" && n.ignored != n.ignoredTold {
		due = append(due, event{kind: v1.EventTypeWarning, reason: ReasonReuseIgnored, note: n.ignored})
	}
	n.ignoredTold = n.ignored
	if v.reason != "" && v != n.told {
		kind := v1.EventTypeWarning
		if v.reason == ReasonScheduled {
			kind = v1.EventTypeNormal
		}
		due = append(due, event{kind: kind, reason: v.reason, note: v.message})
		n.told = v
	}
	if len(due) > 0 {
		n.toldAt = now
	}
	return due
}

// untell takes back events that could not be created, so that they are due again.
func (n *note) untell(failed []event) {
	for _, e := range failed {
		switch {
		case e.reason == ReasonUndone && n.undone == "":
			n.undone = e.note
		case e.reason == ReasonNotBound && n.notBound == "":
			n.notBound = e.note
		case e.reason == ReasonReuseIgnored:
			n.ignoredTold = ""
		case e.reason == n.told.reason:
			n.told = verdict{}
		}
	}
	n.toldAt = time.Time{}
}

// reasonsOf joins the reasons of a gang and its members that do not wait for
// room.
func reasonsOf(view gang.View) string {
	reasons := view.Blocked
	for _, waiting := range view.Waiting {
		if waiting.Reason != view.Blocked {
			reasons += "\n" + waiting.Reason
		}
	}
	return reasons
}
