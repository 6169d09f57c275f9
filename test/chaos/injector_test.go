// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podgang/podgang-scheduler/test/testlab"
)

// requestClass tells requests apart.
type requestClass struct {
	name  string
	match func(*http.Request) bool
}

// writeTo matches writes to a resource, or to a subresource of it.
func writeTo(name string, parts ...string) requestClass {
	return requestClass{name, func(r *http.Request) bool {
		return r.Method != http.MethodGet && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(r.URL.Path, part) })
	}}
}

var (
	binding    = writeTo("binding", "/pods/", "/binding")
	claimWrite = writeTo("write of a claim", "/resourceclaims/")
	podStatus  = writeTo("write of a pod's status", "/pods/", "/status")
	gangStatus = writeTo("write of a PodGang's status", "/podgangs/")
	eventWrite = writeTo("write of an event", "/events")
	anyWrite   = writeTo("write")
	reading    = requestClass{"read", func(r *http.Request) bool { return r.Method == http.MethodGet && !testlab.IsWatch(r) }}
)

// watchOf matches the start of watches of a resource, "" for all.
func watchOf(resource string) requestClass {
	return requestClass{"watch of " + orAll(resource), func(r *http.Request) bool {
		return testlab.IsWatch(r) && (resource == "" || path.Base(r.URL.Path) == resource)
	}}
}

// effect is what happens to a request.
type effect string

const (
	answer      effect = "answered" // the server does not get it
	answerAfter effect = "carried out and answered"
	cutBefore   effect = "cut off before the server gets it"
	cutAfter    effect = "carried out and cut off"
	slow        effect = "delayed"
)

// requestFault is a fault in store for requests of a class.
type requestFault struct {
	class  requestClass
	effect effect
	code   int           // for answers
	wait   time.Duration // before the request is passed on, or cut off
	left   int           // how many requests it befalls
}

func (f requestFault) String() string {
	s := fmt.Sprintf("%d × %s: %s", f.left, f.class.name, f.effect)
	if f.code != 0 {
		s += fmt.Sprintf(" with %d", f.code)
	}
	if f.wait != 0 {
		s += fmt.Sprintf(" after %v", f.wait)
	}
	return s
}

// mostInARow is how often one and the same request fails one time after the other. The
// scheduler promises whole gangs only if a binding does not fail for ever.
const mostInARow = 4

// injector is a proxy between the scheduler and the API server that does harm.
type injector struct {
	testlab.Proxy
	journal *journal

	mu      sync.Mutex // guards what follows
	faults  []*armed
	inARow  map[string]int        // failures of a request, by method and path
	streams map[*stream]struct{}  // watches under way
	held    map[string]time.Time  // until when watches are held back, by resource
	conns   map[net.Conn]struct{} // open connections
	down    time.Time             // until when no connection is taken
}

type armed struct {
	requestFault
	until time.Time
}

// stream is the answer to a watch.
type stream struct {
	http.ResponseWriter
	injector *injector
	ctx      context.Context
	resource string
	cancel   context.CancelFunc
}

func newInjector(j *journal) *injector {
	i := &injector{
		journal: j, inARow: map[string]int{}, streams: map[*stream]struct{}{},
		held: map[string]time.Time{}, conns: map[net.Conn]struct{}{},
	}
	i.Handler, i.ConnState = i, i.noteConn
	return i
}

// noteConn keeps the book of connections, and closes those that come in an outage.
func (i *injector) noteConn(c net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch state {
	case http.StateNew:
		if time.Now().Before(i.down) {
			_ = c.Close() // that is the fault
			return
		}
		i.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(i.conns, c)
	case http.StateActive, http.StateIdle:
	}
}

// outage closes all connections, and those that come for a while.
func (i *injector) outage(length time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = time.Now().Add(length)
	for c := range i.conns {
		_ = c.Close() // that is the fault
	}
	i.journal.fault(fmt.Sprintf("no connection to the API server for %v", length))
}

// arm puts a fault in store.
func (i *injector) arm(f requestFault, life time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults = append(i.faults, &armed{requestFault: f, until: time.Now().Add(life)})
}

// dropWatches ends the watches of a resource, "" for all.
func (i *injector) dropWatches(resource string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := 0
	for s := range i.streams {
		if resource == "" || s.resource == resource {
			s.cancel()
			n++
		}
	}
	if n > 0 {
		i.journal.fault(fmt.Sprintf("dropped %d watches of %s", n, orAll(resource)))
	}
}

// holdWatches keeps what the watches of a resource deliver for a while, "" for all.
func (i *injector) holdWatches(resource string, length time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held[resource] = time.Now().Add(length)
	i.journal.fault(fmt.Sprintf("holding back the watches of %s for %v", orAll(resource), length))
}

// peace ends all faults.
func (i *injector) peace() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults, i.down = nil, time.Time{}
	clear(i.held)
	clear(i.inARow)
}

// take returns the fault that befalls the request, nil for none.
func (i *injector) take(r *http.Request) *requestFault {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	i.faults = slices.DeleteFunc(i.faults, func(f *armed) bool { return f.left == 0 || now.After(f.until) })
	request := r.Method + " " + r.URL.Path
	for _, f := range i.faults {
		if testlab.IsWatch(r) && !strings.HasPrefix(f.class.name, "watch") || !f.class.match(r) {
			continue
		}
		if f.effect != slow && i.inARow[request] >= mostInARow {
			continue
		}
		f.left--
		if f.effect != slow {
			i.inARow[request]++
		}
		found := f.requestFault
		found.left = 1
		return &found
	}
	delete(i.inARow, request)
	return nil
}

// ServeHTTP passes a request on, or does harm to it.
func (i *injector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := i.take(r)
	switch {
	case f != nil:
		i.journal.faultOn(r.URL.Path, fmt.Sprintf("%s %s: %s", r.Method, r.URL.Path, f))
		i.harm(w, r, f)
	case testlab.IsWatch(r):
		i.stream(w, r)
	default:
		i.Pass(w, r)
	}
}

func (i *injector) harm(w http.ResponseWriter, r *http.Request, f *requestFault) {
	if !pause(r.Context(), f.wait) && f.effect != cutAfter {
		panic(http.ErrAbortHandler)
	}
	switch f.effect {
	case answer:
		testlab.Refuse(w, r, f.code)
	case cutBefore:
		panic(http.ErrAbortHandler)
	case cutAfter, answerAfter:
		// Carried out whether or not the client has patience.
		i.Pass(&discarded{header: http.Header{}}, r.WithContext(context.WithoutCancel(r.Context())))
		if f.effect == cutAfter {
			panic(http.ErrAbortHandler)
		}
		testlab.Refuse(w, r, f.code)
	case slow:
		i.Pass(w, r)
	}
}

// pause waits; it is false when ctx has ended first.
func pause(ctx context.Context, length time.Duration) bool {
	if length <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// discarded swallows an answer.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) WriteHeader(int)             {}
func (d *discarded) Flush()                      {}

// stream serves a watch, which can be dropped or held back.
func (i *injector) stream(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := &stream{ResponseWriter: w, injector: i, ctx: ctx, resource: path.Base(r.URL.Path), cancel: cancel}
	i.mu.Lock()
	i.streams[s] = struct{}{}
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.streams, s)
	}()
	i.Pass(s, r.WithContext(ctx))
}

// Write delivers events, later if they are held back.
func (s *stream) Write(b []byte) (int, error) {
	for {
		s.injector.mu.Lock()
		until := s.injector.held[s.resource]
		if all := s.injector.held[""]; all.After(until) {
			until = all
		}
		s.injector.mu.Unlock()
		left := time.Until(until)
		if left <= 0 {
			return s.ResponseWriter.Write(b)
		}
		if !pause(s.ctx, min(left, 100*time.Millisecond)) { // peace ends it earlier
			return 0, context.Cause(s.ctx)
		}
	}
}

// Unwrap lets the proxy flush.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
