// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/test/observe"
)

// streamed runs pods one after another in a number of places for a while: the next is
// created when one has run its time. It returns how many have run, and for each how long
// it waited.
func (s *scenario) streamed(prefix string, places int, during, runTime time.Duration, opts ...podOption) []time.Duration {
	s.t.Helper()
	type place struct {
		pod          string
		created, end time.Time
	}
	running := make([]place, places)
	var waited []time.Duration
	count := 0
	for start := time.Now(); ; {
		now, busy := time.Now(), false
		for i := range running {
			p := &running[i]
			switch {
			case p.pod == "" && now.Sub(start) < during:
				*p = place{pod: fmt.Sprintf("%s-%d", prefix, count), created: now}
				count++
				s.manyPods([]string{p.pod}, opts...)
			case p.pod == "":
				continue
			case p.end.IsZero() && s.boundCount(p.pod) == 1:
				p.end = now.Add(runTime)
				waited = append(waited, s.boundAt(p.pod).Sub(p.created))
			case !p.end.IsZero() && now.After(p.end):
				s.deletePods(p.pod)
				*p = place{}
				if now.Sub(start) < during { // at once, so that places are not free together
					*p = place{pod: fmt.Sprintf("%s-%d", prefix, count), created: time.Now()}
					count++
					s.manyPods([]string{p.pod}, opts...)
				}
			}
			busy = true
		}
		if !busy && now.Sub(start) >= during {
			return waited
		}
		if now.Sub(start) > during+*patience {
			s.t.Fatalf("the stream is stuck: %v", running)
		}
		_ = s.c.history.wait(s.ctx, 5*time.Millisecond, func() bool { return false })
	}
}

// starvationAfter is that of hungryLab.
const starvationAfter = time.Second

// A large gang gets its turn beside a stream of small pods that leaves it no room, and
// the stream goes on where the gang is not. Those that are kept out say why.
func TestLargeGangGetsItsTurnBesideAStreamOfSmallPods(t *testing.T) {
	const nodes, size, runTime, during = 8, 7, 300 * time.Millisecond, 10 * time.Second
	s := newScenario(t, hungryLab)
	s.slots(nodes, 1)
	pods := names("large", size)
	s.gang("large", group("w", size, pods...))
	var created time.Time
	var g errgroup.Group
	g.Go(func() error { // the members come when the stream has all places
		first := names("small", nodes)
		if err := s.c.history.wait(s.ctx, *patience, func() bool { return s.boundCount(first...) == nodes }); err != nil {
			return err
		}
		created = time.Now()
		for _, name := range pods {
			if _, err := s.client().CoreV1().Pods(s.ns).Create(s.ctx, newPod(name, of("large"), devices(1)), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	small := s.streamed("small", nodes, during, runTime, devices(1))
	s.must(g.Wait())
	s.bound(pods...)
	took := s.boundAt(pods...).Sub(created)
	t.Logf("the gang was bound after %v, and %d small pods ran", took, len(small))
	if limit := starvationAfter + runTime + atOnce; took > limit {
		t.Errorf("the gang was bound after %v, want %v at most", took, limit)
	}
	words := fmt.Sprintf("kept for PodGang %s/large, which has waited since", s.ns)
	if !s.c.history.saw(s.ns, func(r record) bool {
		pod, ok := r.object.(*corev1.Pod)
		if !ok || !strings.HasPrefix(pod.Name, "small-") {
			return false
		}
		c := observe.Scheduled(pod)
		return c != nil && strings.Contains(c.Message, words)
	}) {
		t.Errorf("no small pod says %q", words)
	}
}

// A large gang and a stream of small pods in the room that it needs. While it could not
// run even if they had finished, they do not feel it, nothing is kept free for it, and
// it starts at once when it fits.
func TestLargeGangBesideAStreamOfSmallPods(t *testing.T) {
	const nodes, runTime, during, rounds = 8, 300 * time.Millisecond, 3 * time.Second, 2
	for _, tc := range []struct {
		name string
		size int
	}{{"that waits for a pod that was there before", nodes}, {"that can never fit", nodes + 1}} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, hungryLab)
			s.slots(nodes, 1)
			// One node is in use all the time, so that the gang waits throughout.
			s.takeSlot("solo")
			var alone, beside []time.Duration
			var pods []string
			for round := range rounds { // in turns, because the machine is not always as fast
				alone = append(alone, s.streamed(fmt.Sprintf("alone%d", round), nodes-1, during, runTime, devices(1))...)
				gang := fmt.Sprintf("large%d", round)
				pods = names(gang, tc.size)
				s.gang(gang, group("w", tc.size, pods...))
				s.members(gang, tc.size, devices(1))
				s.unschedulable(pods, fmt.Sprintf("group w needs %d pods", tc.size))
				beside = append(beside, s.streamed(fmt.Sprintf("beside%d", round), nodes-1, during, runTime, devices(1))...)
				s.holdsNothing(pods...)
				if round < rounds-1 {
					s.gone(gang, pods...)
				}
			}
			s.tookAtOnce("binding a small pod by itself", alone)
			s.tookAtOnce("binding a small pod beside the gang", beside)
			t.Logf("%d small pods ran by themselves, and %d beside the gang", len(alone), len(beside))
			if len(beside)*2 < len(alone) { // on a machine with nothing else to do, 9 of 10
				t.Errorf("%d small pods ran beside the gang, and %d without it", len(beside), len(alone))
			}
			s.deletePods("solo")
			if tc.size > nodes {
				s.unschedulable(pods, fmt.Sprintf("room for %d", nodes))
				s.holdsNothing(pods...)
				return
			}
			s.bound(pods...)
		})
	}
}

// Ten pods on nine places hold none of them, and single pods run there.
func TestGangOfTenOnNinePlacesBesideGangsOfOne(t *testing.T) {
	s := shared(t)
	s.slots(9, 1)
	pods := names("g", 10)
	s.gang("g", group("w", 10, pods...))
	s.members("g", 10, devices(1))
	s.unschedulable(pods, "group w needs 10 pods", "room for 9")
	for round := range 3 {
		var singles []string
		for _, gang := range names(fmt.Sprintf("single%d", round), 9) {
			singles = append(singles, s.gangOfOne(gang)...)
		}
		s.bound(singles...)
		s.deletePods(singles...)
	}
	s.holdsNothing(pods...)
}

// The free devices are enough in sum, and their nodes are not. The gang fails whole, in
// one attempt, and pods that need none of it are bound as if it were not there.
func TestGangThatFitsInSumAlone(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	for i, n := range []int{6, 2, 2, 2} {
		s.node(fmt.Sprint(i), publishes(class, like(device("d"), n)...))
	}
	s.template("devices-4", claimSpec(request("devices", class, 4)))
	pods := names("g", 3)
	before := s.cycles()
	s.gang("g", group("w", 3, pods...))
	s.members("g", 3, devices(4))
	s.unschedulable(pods, "group w needs 3 pods", "room for 1")
	after := s.cycles()
	if tried, plans := after.pods-before.pods, after.plans-before.plans; tried != plans || plans > 3 {
		t.Errorf("%.0f pods were tried in %.0f attempts, want one of each", tried, plans)
	}
	behind := names("behind", 20)
	created := time.Now()
	s.manyPods(behind, inRoom(s.ns), cpu("1"))
	s.bound(behind...)
	if took := s.boundAt(behind...).Sub(created); took > atOnce {
		t.Errorf("the pods behind the gang took %v", took)
	}
	s.holdsNothing(pods...)
}

// atRest waits until nothing has been tried, and nothing written, for a while.
func (s *scenario) atRest(quiet time.Duration) {
	s.t.Helper()
	type activity struct {
		cycles
		records int
	}
	var last activity
	var since time.Time
	s.until(fmt.Sprintf("nothing is tried or written for %v", quiet), func() string {
		if now := (activity{s.cycles(), len(s.c.history.of(s.ns))}); now != last {
			last, since = now, time.Now()
		}
		if rest := time.Since(since); rest < quiet {
			return fmt.Sprintf("there was something %v ago", rest.Round(time.Millisecond))
		}
		return ""
	})
}

// Two hundred gangs that do not fit cost nothing while nothing happens.
func TestManyGangsThatWaitAreCalm(t *testing.T) {
	const gangs, calm = 200, 3 * time.Second
	s := shared(t)
	var pods []string
	for i := range gangs {
		gang := fmt.Sprintf("g%d", i)
		s.gang(gang, group("w", 2, names(gang, 2)...))
		s.manyPods(names(gang, 2), of(gang), inRoom("nowhere"), cpu("1"))
		pods = append(pods, names(gang, 2)...)
	}
	s.unschedulable(pods, "group w needs 2 pods")
	logSize := func() int64 {
		info, err := os.Stat(s.scheduler().LogFile())
		s.must(err)
		return info.Size()
	}
	s.atRest(2500 * time.Millisecond)
	cycles, size, seen := s.cycles(), logSize(), len(s.c.history.of(s.ns))
	<-time.After(calm) // nothing is to happen
	after := s.cycles()
	if after.pods-cycles.pods > gangs/10 {
		t.Errorf("%.0f pods were tried in %v of calm", after.pods-cycles.pods, calm)
	}
	if grown := logSize() - size; grown > 64<<10 {
		t.Errorf("the log grew by %d bytes in %v of calm", grown, calm)
	}
	if written := len(s.c.history.of(s.ns)[seen:]); written > gangs/10 {
		t.Errorf("%d objects were written in %v of calm", written, calm)
	}
	// With one event each is tried once.
	s.node("a")
	s.marker()
	if tried := s.cycles().pods - after.pods; tried > 2*gangs+10 {
		t.Errorf("one event had %.0f pods tried", tried)
	}
}
