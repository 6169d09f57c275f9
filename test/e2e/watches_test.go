// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podgang/podgang-scheduler/test/testlab"
)

// A watch is one request with an answer that does not end, so its rules are not about
// the request but about what is delivered meanwhile.

// streamRule is what happens to the events of the watches that match.
type streamRule struct {
	// match is about the request of the watch.
	match func(*http.Request) bool
	// lose says which events are not delivered; nil means that all are delayed.
	lose func(metav1.WatchEvent) bool
	// late says by how much what arrives is delayed; nil means until ended is closed.
	late func() time.Duration
	*rule
}

// delay keeps the events of the watches that match from the scheduler until release.
func (g *gate) delay(match func(*http.Request) bool) *rule {
	return g.addStreamRule(streamRule{match: match})
}

// late delivers the events of the watches that match later, in order, each time by what
// the function says then.
func (g *gate) late(match func(*http.Request) bool, by func() time.Duration) *rule {
	return g.addStreamRule(streamRule{match: match, late: by})
}

// lose keeps events of the watches that match from the scheduler for ever. The watches
// are those of clients that ask for protobuf.
func (g *gate) lose(match func(*http.Request) bool, which func(metav1.WatchEvent) bool) *rule {
	return g.addStreamRule(streamRule{match: match, lose: which})
}

func (g *gate) addStreamRule(r streamRule) *rule {
	r.rule = &rule{gate: g, ended: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.streamRules = append(g.streamRules, r)
	return r.rule
}

// watchOf matches the watches of a resource, in all namespaces.
func watchOf(resource string) func(*http.Request) bool {
	return func(r *http.Request) bool { return testlab.IsWatch(r) && strings.HasSuffix(r.URL.Path, "/"+resource) }
}

// stream is the answer to a watch.
type stream struct {
	http.ResponseWriter
	gate    *gate
	request *http.Request
	// rest is the beginning of a frame that has not arrived in full.
	rest []byte
}

// Unwrap lets the proxy flush what it has written.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write passes events on as the rules say.
func (s *stream) Write(data []byte) (int, error) {
	for _, r := range s.gate.streamRulesFor(s.request) {
		if r.lose != nil {
			continue
		}
		r.meet()
		var due <-chan time.Time // never, without late
		if r.late != nil {
			due = time.After(r.late())
		}
		select {
		case <-due:
		case <-r.ended:
		case <-s.request.Context().Done():
			return 0, s.request.Context().Err()
		}
	}
	if !strings.Contains(s.Header().Get("Content-Type"), "protobuf") {
		return s.ResponseWriter.Write(data)
	}
	kept, err := s.frames(data)
	if err != nil {
		return 0, err
	}
	if len(kept) > 0 {
		if _, err := s.ResponseWriter.Write(kept); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// frameHeader is the length of a frame's length.
const frameHeader = 4

// frames returns the frames that are complete with the data, without events to lose.
func (s *stream) frames(data []byte) ([]byte, error) {
	s.rest = append(s.rest, data...)
	var kept []byte
	for len(s.rest) >= frameHeader {
		size := frameHeader + int(binary.BigEndian.Uint32(s.rest))
		if len(s.rest) < size {
			break
		}
		lost, err := s.loses(s.rest[frameHeader:size])
		if err != nil {
			return nil, err
		}
		if !lost {
			kept = append(kept, s.rest[:size]...)
		}
		s.rest = bytes.Clone(s.rest[size:])
	}
	return kept, nil
}

func (s *stream) loses(frame []byte) (bool, error) {
	for _, r := range s.gate.streamRulesFor(s.request) {
		if r.lose == nil {
			continue
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal(frame); err != nil {
			return false, errors.New("a frame of a watch is no event: " + err.Error())
		}
		if r.lose(event) {
			r.meet()
			return true, nil
		}
	}
	return false, nil
}

// streamRulesFor returns the rules that have not ended and match.
func (g *gate) streamRulesFor(request *http.Request) []streamRule {
	g.mu.Lock()
	defer g.mu.Unlock()
	var rules []streamRule
	for _, r := range g.streamRules {
		select {
		case <-r.ended:
			continue
		default:
		}
		if r.match(request) {
			rules = append(rules, r)
		}
	}
	return rules
}

// changesOf matches the event of a change, not of creation or deletion, of an object
// whose name or content holds the word.
func changesOf(word string) func(metav1.WatchEvent) bool {
	return func(e metav1.WatchEvent) bool {
		return e.Type == string(watch.Modified) && bytes.Contains(e.Object.Raw, []byte(word))
	}
}

// untilEnd has a rule end with the scenario at the latest, and returns it.
func (s *scenario) untilEnd(r *rule) *rule {
	s.rulesOpen = append(s.rulesOpen, r)
	return r
}

// delay keeps the events of watches from the scheduler until the rule is released; at
// the latest at the end of the scenario.
func (s *scenario) delay(match func(*http.Request) bool) *rule {
	return s.untilEnd(s.c.gate.delay(match))
}

// late delivers the events of watches to the scheduler later, until the rule is released.
func (s *scenario) late(match func(*http.Request) bool, by func() time.Duration) *rule {
	return s.untilEnd(s.c.gate.late(match, by))
}

// lose keeps events of watches from the scheduler for ever.
func (s *scenario) lose(match func(*http.Request) bool, which func(metav1.WatchEvent) bool) *rule {
	return s.untilEnd(s.c.gate.lose(match, which))
}
