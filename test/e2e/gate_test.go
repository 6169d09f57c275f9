// SPDX-License-Identifier: Apache-2.0

package e2e

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
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// gate is a proxy between a scheduler and the API server. It lets everything pass but
// the requests for which a test has set a rule.
type gate struct {
	server    *http.Server
	proxy     *httputil.ReverseProxy
	transport *http.Transport

	mu          sync.Mutex // guards rules and streamRules
	rules       []*rule
	streamRules []streamRule
}

// rule is what happens to the requests that match.
type rule struct {
	gate  *gate
	match func(*http.Request) bool
	// refuse is the status code to answer with; 0 means that requests are held.
	refuse int
	// left is how many more requests are refused.
	left int

	mu  sync.Mutex // guards met
	met int

	once sync.Once
	// ended is closed when the rule ends. Held requests then go on, or, with dropped set
	// before, are forgotten.
	ended   chan struct{}
	dropped bool
}

func newGate() *gate { return &gate{} }

// serve starts the gate; it is a lab.Scheduler's Server.
func (g *gate) serve(_ context.Context, upstream lab.Upstream) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	g.transport = upstream.Transport
	g.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream.URL) },
		// Watches are streams.
		FlushInterval: -1,
		Transport:     upstream.Transport,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:      log.New(io.Discard, "", 0), // a killed scheduler breaks its streams
	}
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: time.Minute, ErrorLog: g.proxy.ErrorLog,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{upstream.Certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = g.server.ServeTLS(listener, "", "") }() // ends with close
	return "https://" + listener.Addr().String(), nil
}

func (g *gate) close() {
	if g.server != nil {
		_ = g.server.Close() // its connections are of no use any more
		g.transport.CloseIdleConnections()
	}
}

// ServeHTTP passes a request on, when no rule is against it.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		// Rules may look at it, which must not wait for the client under the lock. And the
		// server notices that a client is gone only after the body has been read.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if rule := g.ruleFor(r); rule != nil {
		if rule.refuse != 0 {
			refuse(w, r, rule.refuse)
			return
		}
		select {
		case <-rule.ended:
		case <-r.Context().Done(): // the client has given up
			return
		}
		if rule.dropped {
			panic(http.ErrAbortHandler) // no answer
		}
	}
	if isWatch(r) {
		r.Header.Set("Accept-Encoding", "identity") // the initial list can come compressed
		w = &stream{ResponseWriter: w, gate: g, request: r}
	}
	g.proxy.ServeHTTP(w, r)
}

func (g *gate) ruleFor(r *http.Request) *rule {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, rule := range g.rules {
		if !rule.match(r) || rule.refuse != 0 && rule.left == 0 {
			continue
		}
		rule.left--
		rule.meet()
		return rule
	}
	return nil
}

var reasons = map[int]metav1.StatusReason{
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
}

func refuse(w http.ResponseWriter, r *http.Request, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // a client that is gone needs no answer
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code],
		Message: fmt.Sprintf("refused by the test: %s %s", r.Method, r.URL.Path),
	})
}

// hold makes requests that match wait until release, or until their client is gone.
func (g *gate) hold(match func(*http.Request) bool) *rule {
	return g.addRule(&rule{match: match})
}

// refuseNext answers the next n requests that match with a status code.
func (g *gate) refuseNext(n, code int, match func(*http.Request) bool) *rule {
	return g.addRule(&rule{match: match, refuse: code, left: n})
}

func (g *gate) addRule(r *rule) *rule {
	r.gate, r.ended = g, make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules = append(g.rules, r)
	return r
}

func (r *rule) meet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.met++
}

// count is how many requests, or events of a watch, the rule has met.
func (r *rule) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.met
}

// release ends the rule. Held requests go on.
func (r *rule) release() { r.end(false) }

// drop ends the rule. Held requests get no answer and do not reach the API server, as
// when their client was killed before it could send them.
func (r *rule) drop() { r.end(true) }

func (r *rule) end(dropped bool) {
	r.once.Do(func() {
		r.gate.mu.Lock()
		defer r.gate.mu.Unlock()
		for i, other := range r.gate.rules {
			if other == r {
				r.gate.rules = append(r.gate.rules[:i:i], r.gate.rules[i+1:]...)
				break
			}
		}
		r.gate.streamRules = slices.DeleteFunc(r.gate.streamRules, func(other streamRule) bool { return other.rule == r })
		r.dropped = dropped
		close(r.ended)
	})
}

// bindingOf matches the binding of a pod.
func bindingOf(namespace, pod string) func(*http.Request) bool {
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/binding", namespace, pod)
	return func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == path }
}

// bindingsOf matches the binding of any of the pods.
func bindingsOf(namespace string, pods ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return slices.ContainsFunc(pods, func(pod string) bool { return bindingOf(namespace, pod)(r) })
	}
}

// bindingIn matches the binding of every pod of a namespace.
func bindingIn(namespace string) func(*http.Request) bool {
	prefix := fmt.Sprintf("/api/v1/namespaces/%s/pods/", namespace)
	return func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, prefix) && strings.HasSuffix(r.URL.Path, "/binding")
	}
}

// claimWrite matches writes to the claims whose names begin with prefix.
func claimWrite(namespace, prefix string) func(*http.Request) bool {
	path := fmt.Sprintf("/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s", namespace, prefix)
	return func(r *http.Request) bool { return r.Method != http.MethodGet && strings.HasPrefix(r.URL.Path, path) }
}
