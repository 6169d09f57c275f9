// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var randomSeed = flag.Uint64("seed", 0, "seed of the scenarios that draw lots; 0 draws one")

// lots returns a source of random numbers, and tells its seed.
func (s *scenario) lots() *rand.Rand {
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	s.t.Logf("-seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // lots for a test
}

// devices gives the pod a claim for n devices of the scenario's own driver. See slots.
func devices(n int) podOption { return fromTemplate("devices", fmt.Sprintf("devices-%d", n)) }

// slots adds nodes with devices of the scenario's own driver each, and templates for
// claims of 1 to that many of them.
func (s *scenario) slots(nodes, each int) []string {
	s.t.Helper()
	return s.slotsOn(s.node, nodes, each)
}

// slotsOn is slots on nodes that are added by a function.
func (s *scenario) slotsOn(add func(suffix string, opts ...nodeOption) string, nodes, each int, opts ...nodeOption) []string {
	s.t.Helper()
	class := s.ownClass()
	for n := 1; n <= each; n++ {
		s.template(fmt.Sprintf("devices-%d", n), claimSpec(request("devices", class, int64(n))))
	}
	var list []string
	for _, suffix := range names("n", nodes) {
		list = append(list, add(suffix, append(opts, publishes(class, like(device("d"), each)...))...))
	}
	return list
}

const (
	// atOnce bounds what should happen at once, on a machine that is busy with other
	// things. It is less than the longest back-off of the queue, any flush or resync.
	atOnce = 5 * time.Second
	// mostly bounds what should happen at once in most of many cases.
	mostly = time.Second
)

// tookAtOnce checks how long things took that should happen at once.
func (s *scenario) tookAtOnce(what string, took []time.Duration) {
	s.t.Helper()
	if len(took) == 0 {
		s.t.Fatalf("%s has not happened", what)
	}
	sorted := slices.Sorted(slices.Values(took))
	median, longest := sorted[len(sorted)/2], sorted[len(sorted)-1]
	s.t.Logf("%s: %d times, median %v, longest %v", what, len(sorted), median.Round(time.Millisecond), longest.Round(time.Millisecond))
	if longest > atOnce || median > mostly {
		s.t.Errorf("%s took %v at the median and %v at most, want %v and %v", what, median, longest, mostly, atOnce)
	}
}

// boundAt is when the last of the pods, as they are now, was seen to be bound. All are.
func (s *scenario) boundAt(list ...string) time.Time {
	s.t.Helper()
	first := map[string]time.Time{}
	for _, r := range s.c.history.of(s.ns) {
		if pod, ok := r.object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			if _, known := first[string(pod.UID)]; !known {
				first[string(pod.UID)] = r.at
			}
		}
	}
	var last time.Time
	for _, name := range list {
		at, ok := first[string(s.getPod(name).UID)]
		if !ok {
			s.t.Fatalf("%s", s.describe(name))
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

// step is something that happens at a time after the start.
type step struct {
	at time.Duration
	do func()
}

// play makes the steps happen in the order of their times, none earlier than its time.
func (s *scenario) play(steps []step) {
	s.t.Helper()
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	start := time.Now()
	for _, next := range steps {
		select {
		case <-time.After(time.Until(start.Add(next.at))):
		case <-s.ctx.Done():
			s.t.Fatal(s.ctx.Err())
		}
		next.do()
	}
}
