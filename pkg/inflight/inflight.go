// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
)

// Writes is how many writes of claims and bindings may be under way. It stays far below
// what one flow may have queued (50 requests in each of 6 queues, as the priority levels
// of the API server have it by default), and leaves room there for others of the same
// user.
const Writes = 64

// Backlog is how many writes, those that wait included, are enough to be going on with: it
// takes the API server a second or so to answer them, and until then it is of no use to
// plan further gangs. What is planned later knows more.
const Backlog = 4 * Writes

// slots and writes are those of the process, whatever profiles and plugins it has.
var (
	slots  = make(chan struct{}, Writes)
	writes = newTraffic()
)

// Calm returns a channel that is closed as soon as none of the bounded writes is under way
// or waits for its turn; it is closed already where that is so now.
func Calm() <-chan struct{} { return writes.calmed() }

// Easy returns a channel that is closed as soon as fewer than Backlog of the bounded writes
// are under way or wait for their turn; it is closed already where that is so now.
func Easy() <-chan struct{} { return writes.eased() }

// Bound returns a handle whose client keeps to the limit, together with all other
// clients that come from here, and to the rate limit of the client that the handle had. A
// handle without a configuration of the client, as in unit tests, is returned as it is.
func Bound(handle fwk.Handle) (fwk.Handle, error) {
	return bound(handle, slots, writes)
}

func bound(handle fwk.Handle, slots chan struct{}, writes *traffic) (fwk.Handle, error) {
	if handle.KubeConfig() == nil {
		return handle, nil
	}
	config := rest.AddUserAgent(rest.CopyConfig(handle.KubeConfig()), "scheduler")
	config.RateLimiter = handle.ClientSet().CoreV1().RESTClient().GetRateLimiter()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &limiter{slots: slots, writes: writes, next: next}
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build a client for %d writes at a time: %w", cap(slots), err)
	}
	return bounded{Handle: handle, client: client}, nil
}

// bounded is a handle with another client.
type bounded struct {
	fwk.Handle
	client kubernetes.Interface
}

func (b bounded) ClientSet() kubernetes.Interface { return b.client }

// limiter lets as many writes through at a time as there are slots. A request that waits
// ends with its context.
type limiter struct {
	slots  chan struct{}
	writes *traffic
	next   http.RoundTripper
}

func (l *limiter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return l.next.RoundTrip(r)
	}
	l.writes.begin()
	defer l.writes.end()
	select {
	case l.slots <- struct{}{}:
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper has to
		}
		return nil, r.Context().Err()
	}
	defer func() { <-l.slots }()
	return l.next.RoundTrip(r)
}
