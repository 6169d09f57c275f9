// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/podgang/podgang-scheduler/test/testlab"
)

// gate is a proxy between a scheduler and the API server. It lets everything pass but
// the requests for which a test has set a rule.
type gate struct {
	testlab.Proxy

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
	// unanswered requests reach the API server; what is held is the answer.
	unanswered bool

	mu  sync.Mutex // guards met
	met int

	once sync.Once
	// ended is closed when the rule ends. Held requests then go on, or, with dropped set
	// before, are forgotten.
	ended   chan struct{}
	dropped bool
}

func newGate() *gate {
	g := &gate{}
	g.Handler = g
	return g
}

// ServeHTTP passes a request on, when no rule is against it.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rule := g.ruleFor(r); rule != nil {
		if rule.refuse != 0 {
			testlab.Refuse(w, r, rule.refuse)
			return
		}
		if rule.unanswered {
			g.Pass(httptest.NewRecorder(), r)
		}
		select {
		case <-rule.ended:
		case <-r.Context().Done(): // the client has given up
			return
		}
		if rule.dropped || rule.unanswered {
			panic(http.ErrAbortHandler) // no answer
		}
	}
	if testlab.IsWatch(r) {
		r.Header.Set("Accept-Encoding", "identity") // the initial list can come compressed
		w = &stream{ResponseWriter: w, gate: g, request: r}
	}
	g.Pass(w, r)
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

// hold makes requests that match wait until release, or until their client is gone.
func (g *gate) hold(match func(*http.Request) bool) *rule {
	return g.addRule(&rule{match: match})
}

// loseAnswers lets requests that match reach the API server, and gives their client no
// answer, when the rule ends.
func (g *gate) loseAnswers(match func(*http.Request) bool) *rule {
	return g.addRule(&rule{match: match, unanswered: true})
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
