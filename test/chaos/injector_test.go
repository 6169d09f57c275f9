// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// requestClass tells requests apart.
type requestClass struct {
	name  string
	match func(*http.Request) bool
}

func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
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
	reading    = requestClass{"read", func(r *http.Request) bool { return r.Method == http.MethodGet && !isWatch(r) }}
)

// watchOf matches the start of watches of a resource, "" for all.
func watchOf(resource string) requestClass {
	return requestClass{"watch of " + orAll(resource), func(r *http.Request) bool {
		return isWatch(r) && (resource == "" || path.Base(r.URL.Path) == resource)
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
	journal   *journal
	server    *http.Server
	proxy     *httputil.ReverseProxy
	transport *http.Transport

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
	return &injector{
		journal: j, inARow: map[string]int{}, streams: map[*stream]struct{}{},
		held: map[string]time.Time{}, conns: map[net.Conn]struct{}{},
	}
}

// serve starts the injector; it is a lab.Scheduler's Server.
func (i *injector) serve(_ context.Context, upstream lab.Upstream) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	quiet := log.New(io.Discard, "", 0) // broken connections are its business
	i.transport = upstream.Transport
	i.proxy = newProxy(upstream.URL, upstream.Transport, quiet)
	i.server = &http.Server{
		Handler: i, ReadHeaderTimeout: time.Minute, ErrorLog: quiet, ConnState: i.noteConn,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{upstream.Certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = i.server.ServeTLS(listener, "", "") }() // ends with close
	return "https://" + listener.Addr().String(), nil
}

func newProxy(to *url.URL, transport http.RoundTripper, errorLog *log.Logger) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1, // watches are streams
		Transport:     transport,
		// What the client of a server that is gone sees: no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     errorLog,
	}
}

func (i *injector) close() {
	if i.server != nil {
		_ = i.server.Close() // its connections are of no use any more
		i.transport.CloseIdleConnections()
	}
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
		if isWatch(r) && !strings.HasPrefix(f.class.name, "watch") || !f.class.match(r) {
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
	case isWatch(r):
		i.stream(w, r)
	default:
		i.proxy.ServeHTTP(w, r)
	}
}

func (i *injector) harm(w http.ResponseWriter, r *http.Request, f *requestFault) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !pause(r.Context(), f.wait) && f.effect != cutAfter {
		panic(http.ErrAbortHandler)
	}
	switch f.effect {
	case answer:
		refuse(w, r, f.code)
	case cutBefore:
		panic(http.ErrAbortHandler)
	case cutAfter, answerAfter:
		// Carried out whether or not the client has patience.
		i.proxy.ServeHTTP(&discarded{header: http.Header{}}, r.WithContext(context.WithoutCancel(r.Context())))
		if f.effect == cutAfter {
			panic(http.ErrAbortHandler)
		}
		refuse(w, r, f.code)
	case slow:
		i.proxy.ServeHTTP(w, r)
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

var reasons = map[int]metav1.StatusReason{
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusGone:                metav1.StatusReasonExpired,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

func refuse(w http.ResponseWriter, r *http.Request, code int) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // a client that is gone needs no answer
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code],
		Message: fmt.Sprintf("chaos: %s %s", r.Method, r.URL.Path),
	})
}

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
	i.proxy.ServeHTTP(s, r.WithContext(ctx))
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
