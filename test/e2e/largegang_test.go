// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manyPods creates pods at the same time.
func (s *scenario) manyPods(list []string, opts ...podOption) {
	s.t.Helper()
	const writers = 16
	g, ctx := errgroup.WithContext(s.ctx)
	g.SetLimit(writers)
	for _, name := range list {
		g.Go(func() error {
			_, err := s.client().CoreV1().Pods(s.ns).Create(ctx, newPod(name, opts...), metav1.CreateOptions{})
			return err
		})
	}
	s.must(g.Wait())
}

// cycles are the scheduling cycles of pods and the plans of gangs so far.
type cycles struct{ pods, plans float64 }

func (s *scenario) cycles() cycles {
	s.t.Helper()
	metrics, err := s.scrape(s.scheduler())
	s.must(err)
	return cycles{
		pods:  sample(metrics, "scheduler_schedule_attempts_total"),
		plans: sample(metrics, "podgang_scheduler_plan_duration_seconds_count"),
	}
}

// triedAgain waits until a gang has been planned since.
func (s *scenario) triedAgain(since cycles) {
	s.t.Helper()
	s.until("a gang has been tried again", func() string {
		if s.cycles().plans == since.plans {
			return "none has"
		}
		return ""
	})
}

// An attempt of a gang that does not fit is one scheduling cycle of one pod, however
// many members it has; all of them say why.
func TestLargeGangThatDoesNotFitCostsOneCycle(t *testing.T) {
	const size = 1000
	s := shared(t)
	list := names("g", size)
	before := s.cycles()
	s.gang("g", group("w", size, list...))
	s.manyPods(list, of("g"), cpu("1"))
	s.unschedulable(list, fmt.Sprintf("group w needs %d pods", size), "room for", "cpu")
	first := s.cycles()
	if pods, plans := first.pods-before.pods, first.plans-before.plans; pods != plans || plans < 1 || plans > 3 {
		t.Errorf("%.0f pods and %.0f plans were tried while nothing changed, want one of each", pods, plans)
	}
	// More room, and still too little: one more attempt.
	s.node("x")
	s.triedAgain(first)
	s.tells("g", "3 nodes")
	second := s.cycles()
	if pods, plans := second.pods-first.pods, second.plans-first.plans; pods != plans || plans > 3 {
		t.Errorf("%.0f pods and %.0f plans were tried when a node came, want one of each", pods, plans)
	}
	s.marker()
	if n := s.boundCount(list...); n > 0 {
		t.Errorf("%d of the members are bound", n)
	}
}
