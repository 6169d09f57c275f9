// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A watch is one request with an answer that does not end, so its rules are not about
// the request but about what is delivered meanwhile.

// streamRule is what happens to the events of the watches that match.
type streamRule struct {
	// match is about the request of the watch.
	match func(*http.Request) bool
	// lose says which events are not delivered; nil means that all are delayed until
	// ended is closed.
	lose func(metav1.WatchEvent) bool
	*rule
}

// delay keeps the events of the watches that match from the scheduler until release.
func (g *gate) delay(match func(*http.Request) bool) *rule {
	return g.addStreamRule(match, nil)
}

// lose keeps events of the watches that match from the scheduler for ever. The watches
// are those of clients that ask for protobuf.
func (g *gate) lose(match func(*http.Request) bool, which func(metav1.WatchEvent) bool) *rule {
	return g.addStreamRule(match, which)
}

func (g *gate) addStreamRule(match func(*http.Request) bool, lose func(metav1.WatchEvent) bool) *rule {
	r := &rule{gate: g, ended: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.streamRules = append(g.streamRules, streamRule{match: match, lose: lose, rule: r})
	return r
}

// delayClaimEvents has the scheduler see what happens to claims late, from now on,
// each event by what the function says then; nil ends that.
func (g *gate) delayClaimEvents(late func() time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.late = late
}

// delayEvents slows down the answer to a watch of claims.
func (g *gate) delayEvents(r *http.Response) error {
	if watchOf("resourceclaims")(r.Request) {
		body := &lateBody{ReadCloser: r.Body, parts: make(chan latePart, 1000)}
		go body.receive(g)
		r.Body = body
	}
	return nil
}

// lateBody hands on what it receives some time later, in order.
type lateBody struct {
	io.ReadCloser
	parts chan latePart
	// rest is what was received and not yet handed on.
	rest []byte
}

// latePart is what was received at once; the last has an error.
type latePart struct {
	data []byte
	due  time.Time
	err  error
}

// receive ends with the body, which the proxy closes.
func (b *lateBody) receive(g *gate) {
	for {
		buffer := make([]byte, 32<<10)
		n, err := b.ReadCloser.Read(buffer)
		part := latePart{data: buffer[:n], due: time.Now(), err: err}
		g.mu.Lock()
		if g.late != nil {
			part.due = part.due.Add(g.late())
		}
		g.mu.Unlock()
		b.parts <- part
		if err != nil {
			close(b.parts)
			return
		}
	}
}

func (b *lateBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		part, open := <-b.parts
		if !open {
			return 0, io.EOF
		}
		<-time.After(time.Until(part.due))
		if len(part.data) == 0 && part.err != nil {
			return 0, part.err
		}
		b.rest = part.data
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// watchOf matches the watches of a resource, in all namespaces.
func watchOf(resource string) func(*http.Request) bool {
	return func(r *http.Request) bool { return isWatch(r) && strings.HasSuffix(r.URL.Path, "/"+resource) }
}

func isWatch(r *http.Request) bool {
	value := r.URL.Query().Get("watch")
	return value == "true" || value == "1"
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
		select {
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

// delay keeps the events of watches from the scheduler until the rule is released; at
// the latest at the end of the scenario.
func (s *scenario) delay(match func(*http.Request) bool) *rule {
	r := s.c.gate.delay(match)
	s.rulesOpen = append(s.rulesOpen, r)
	return r
}

// lose keeps events of watches from the scheduler for ever.
func (s *scenario) lose(match func(*http.Request) bool, which func(metav1.WatchEvent) bool) *rule {
	r := s.c.gate.lose(match, which)
	s.rulesOpen = append(s.rulesOpen, r)
	return r
}
