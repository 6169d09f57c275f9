// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/grove/operator"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// References, Initialized and the gates come in any order. The gang is bound after the
// last of them, and not before.
func TestGangIsBoundAfterTheLastOfItsPreconditions(t *testing.T) {
	const r, i, g = operator.HoldReferences, operator.HoldInitialized, operator.HoldGates
	for _, order := range [][]operator.Hold{{r, i, g}, {r, g, i}, {i, r, g}, {i, g, r}, {g, r, i}, {g, i, r}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			s := newScenario(t, 10, 0)
			s.start(workload1(), operator.GenerationB, order...)
			s.allPodsExist(10)
			for _, what := range order[:2] {
				s.op.Release(what)
				s.until("the operator has done its part", s.op.Unfinished)
				s.nothingIsBound()
			}
			if order[2] == operator.HoldInitialized {
				s.ungatedBeforeInitialized()
			}
			s.op.Release(order[2])
			s.checkpoint(10, 0)
			s.readyOnDistinctNodes()
		})
	}
}

func (s *scenario) allPodsExist(n int) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d pods exist", n), func() string {
		if got := len(s.pods()); got != n {
			return fmt.Sprintf("there are %d", got)
		}
		return ""
	})
}

// nothingIsBound checks that no pod of the workload is bound, when the scheduler has
// nothing left to try.
func (s *scenario) nothingIsBound() {
	s.t.Helper()
	s.drain()
	for _, pod := range s.pods() {
		if pod.Spec.NodeName != "" {
			s.t.Fatalf("expected that nothing is bound: %s", describe(pod))
		}
	}
}

// ungatedBeforeInitialized checks that the pods lack nothing but Initialized, and say so.
func (s *scenario) ungatedBeforeInitialized() {
	s.t.Helper()
	for _, pg := range s.gangs() {
		if meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionInitialized) {
			s.t.Errorf("PodGang %s is initialized", pg.Name)
		}
	}
	s.until("every pod says that its PodGang is not initialized", func() string {
		for _, pod := range s.pods() {
			if len(pod.Spec.SchedulingGates) > 0 {
				return describe(pod)
			}
			if c := observe.Scheduled(pod); c == nil || c.Reason != "GangNotReady" {
				return describe(pod)
			}
		}
		return ""
	})
}
