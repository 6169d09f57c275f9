// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// event is one of the things that have to happen until a gang can be bound.
type event struct {
	name string
	// after are the events that it comes after.
	after []string
	do    func()
}

// shuffled draws an order in which every event comes after those that it needs.
func shuffled(lots *rand.Rand, events []event) []event {
	var order []event
	done := map[string]bool{}
	for len(order) < len(events) {
		next := events[lots.IntN(len(events))]
		ready := !done[next.name] && !slices.ContainsFunc(next.after, func(name string) bool { return !done[name] })
		if ready {
			done[next.name] = true
			order = append(order, next)
		}
	}
	return order
}

// Fifty gangs, each with a node of its own. What they need comes in any order and with
// any gap. Each is bound at once when the last of it has come.
func TestGangIsBoundAtOnceAfterAnyOrderOfEvents(t *testing.T) {
	const (
		gangs  = 50
		within = 4 * time.Second
		maxGap = 400 * time.Millisecond
	)
	s := shared(t)
	lots := s.lots()
	class := s.ownClass()
	s.template("devices-1", claimSpec(request("devices", class, 1)))
	completed := make([]time.Time, gangs)
	orders := make([]string, gangs)
	var steps []step
	for i := range gangs {
		at := time.Duration(lots.Int64N(int64(within)))
		for _, e := range shuffled(lots, s.eventsOf(i, class)) {
			at += time.Duration(lots.Int64N(int64(maxGap)))
			orders[i] += e.name + " "
			steps = append(steps, step{at, func() { completed[i] = time.Now(); e.do() }})
		}
	}
	s.play(steps)
	took := make([]time.Duration, gangs)
	for i := range gangs {
		pods := names(fmt.Sprintf("g%d", i), 2)
		s.bound(pods...)
		if took[i] = s.boundAt(pods...).Sub(completed[i]); took[i] > mostly {
			t.Logf("gang %d took %v after %s", i, took[i], orders[i])
		}
	}
	s.tookAtOnce("binding after the last event", took)
}

// eventsOf are what has to happen for a gang of two pods on a node of its own.
func (s *scenario) eventsOf(i int, class string) []event {
	gang, suffix := fmt.Sprintf("g%d", i), fmt.Sprintf("n%d", i)
	node, pods := s.ns+"-"+suffix, names(gang, 2)
	events := []event{
		{"gang", nil, func() { s.gang(gang, group("w", 2)); s.setInitialized(gang, false) }},
		{"references", []string{"gang"}, func() { s.setReferences(gang, pods...) }},
		{"initialized", []string{"gang"}, func() { s.setInitialized(gang, true) }},
		{"node", nil, func() { s.node(suffix) }},
		{"devices", nil, func() { s.publish(node, class, 2) }},
	}
	for n, name := range pods {
		created, ungated := fmt.Sprintf("pod-%d", n), fmt.Sprintf("gate-%d", n)
		events = append(events,
			event{created, nil, func() { s.pod(name, of(gang), onHost(node), devices(1), gated) }},
			event{ungated, []string{created}, func() { s.ungate(name) }})
	}
	return events
}

// publish writes the ResourceSlice of a node that may not be there yet.
func (s *scenario) publish(node, driver string, n int) {
	s.t.Helper()
	slice := newNode(node, s.ns, publishes(driver, like(device("d"), n)...)).Slices[0]
	_, err := s.client().ResourceV1().ResourceSlices().Create(s.ctx, slice, metav1.CreateOptions{})
	s.must(err)
}

// The second pod comes up to five seconds after the first.
func TestGangIsBoundAtOnceAfterItsLatePod(t *testing.T) {
	s := shared(t)
	var steps []step
	var took []time.Duration
	last := map[string]time.Time{}
	for i, gap := range []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second} {
		gang := fmt.Sprintf("g%d", i)
		s.gang(gang, group("w", 2, names(gang, 2)...))
		for n, name := range names(gang, 2) {
			steps = append(steps, step{time.Duration(n) * gap, func() { last[gang] = time.Now(); s.pod(name, of(gang), cpu("1")) }})
		}
	}
	s.play(steps)
	for gang, at := range last {
		s.bound(names(gang, 2)...)
		took = append(took, s.boundAt(names(gang, 2)...).Sub(at))
	}
	s.tookAtOnce("binding after the second pod", took)
}
