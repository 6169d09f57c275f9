// SPDX-License-Identifier: Apache-2.0

package bindevents

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// MaxDelay is how long an event waits at most for bindings to be done: who looks at a
	// pod finds it there half a minute later, however busy the scheduler is.
	MaxDelay = 30 * time.Second
	// room is how many events may wait: those of 330 pods a second for MaxDelay, in a few MB.
	room = 10_000
	// writers create events at the same time. They must keep up with the bindings when the
	// events are due, and not hold up bindings that begin meanwhile.
	writers = 8
	// As client-go's recorder, when the API server does not answer.
	tries      = 12
	retryAfter = 10 * time.Second
)

// Writer creates the events that its recorders have left to it, the oldest first. All its
// methods may be called at any time from everywhere.
type Writer struct {
	client eventsv1.EventsV1Interface
	calm   func() <-chan struct{}
	// writers is how many create events at the same time.
	writers int

	mu      sync.Mutex // guards closed, and queue against being sent to when it is
	closed  bool
	queue   chan *binding
	closing chan struct{} // closed with queue
	done    chan struct{} // closed when Run has ended
}

// NewWriter makes a writer that creates events when the channel that calm returns is
// closed. Its client should have limits of its own: those of the client that binds are for
// bindings.
func NewWriter(client eventsv1.EventsV1Interface, calm func() <-chan struct{}) *Writer {
	return &Writer{
		client: client, calm: calm, writers: writers,
		queue: make(chan *binding, room), closing: make(chan struct{}), done: make(chan struct{}),
	}
}

// add reports whether there was room.
func (w *Writer) add(b *binding) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	select {
	case w.queue <- b:
		return true
	default:
		return false
	}
}

// Run writes events until ctx ends, or until Close has been called and all are written.
// It is called once.
func (w *Writer) Run(ctx context.Context) {
	defer close(w.done)
	var running sync.WaitGroup
	defer running.Wait()
	for range w.writers {
		running.Go(func() {
			for {
				select {
				case b, ok := <-w.queue:
					if !ok {
						return
					}
					w.await(ctx, b)
					w.write(ctx, b)
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// Close takes no more events, and has Run write those that wait at once, each with one try.
// It returns when Run has ended or ctx ends, and says how many are left in the queue.
func (w *Writer) Close(ctx context.Context) (left int) {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
		close(w.closing)
	}
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	return len(w.queue)
}

// await waits until the event can be written.
func (w *Writer) await(ctx context.Context, b *binding) {
	due := time.NewTimer(time.Until(b.at.Add(MaxDelay)))
	defer due.Stop()
	select {
	case <-w.calm():
	case <-due.C:
	case <-w.closing:
	case <-ctx.Done():
	}
}

// write creates the event, again and again while the API server cannot be reached.
func (w *Writer) write(ctx context.Context, b *binding) {
	logger := klog.FromContext(ctx)
	event := b.event()
	for try := 1; ctx.Err() == nil; try++ {
		_, err := w.client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		switch {
		case err == nil, apierrors.IsAlreadyExists(err): // written by a try whose answer was lost
			return
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			// The namespace is gone, or about to be; or the role lacks the right to it.
			logger.V(3).Info("Event of a binding is not accepted", "pod", klog.KRef(b.pod.Namespace, b.pod.Name), "err", err)
			return
		case !isTemporary(err), try == tries:
			logger.Error(err, "Cannot write the event of a binding, it is lost", "pod", klog.KRef(b.pod.Namespace, b.pod.Name), "tries", try)
			return
		}
		select {
		case <-time.After(wait.Jitter(retryAfter, 0.25)):
		case <-w.closing: // there is no time for another try
			return
		case <-ctx.Done():
			return
		}
	}
}

// isTemporary reports whether the same request may succeed later: the API server could not
// be reached or has too much to do.
func isTemporary(err error) bool {
	if construction := (*rest.RequestConstructionError)(nil); errors.As(err, &construction) {
		return false
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	return true
}
