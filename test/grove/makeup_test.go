// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"testing"

	"github.com/podgang/podgang-scheduler/test/grove/operator"
)

// The numbers of the gang scenarios come about in more than one way; these are the steps
// at which Grove means a certain one: where floors of waiting gangs and extras of bound
// ones want the same room, the floors have it. The room comes in one moment here, as one
// node: of nodes that come one after another the first alone is of no use to a floor.
func TestFloorsOfWaitingGangsGoBeforeExtras(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setUp func(*scenario)
		steps []roomStep
	}{
		{"GS7", func(*scenario) {}, []roomStep{
			{room: 1, running: 3, pending: 7, bound: map[string]int{"workload2-0": 3}},
			{room: 2, running: 5, pending: 5, bound: map[string]int{"workload2-0": 3, "workload2-0-sg-x-0": 2}},
			{room: 5, running: 10, pending: 0},
		}},
		{"GS8", func(s *scenario) { s.op.ScaleGroup(0, scalingGroup, 3) }, []roomStep{
			{room: 1, running: 3, pending: 11, bound: map[string]int{"workload2-0": 3}},
			{room: 4, running: 7, pending: 7, bound: map[string]int{"workload2-0": 3, "workload2-0-sg-x-0": 2, "workload2-0-sg-x-1": 2}},
			{room: 7, running: 14, pending: 0},
		}},
		{"GS10", func(s *scenario) { s.op.Scale(2) }, []roomStep{
			{room: 4, running: 6, pending: 14, bound: map[string]int{"workload2-0": 3, "workload2-1": 3}},
			{room: 4, running: 10, pending: 10, bound: map[string]int{
				"workload2-0": 3, "workload2-1": 3, "workload2-0-sg-x-0": 2, "workload2-1-sg-x-0": 2,
			}},
			{room: 10, running: 20, pending: 0},
		}},
		{"GS12", func(s *scenario) {
			s.op.Scale(2)
			s.op.ScaleGroup(0, scalingGroup, 3)
			s.op.ScaleGroup(1, scalingGroup, 3)
		}, []roomStep{
			{room: 4, running: 6, pending: 22, bound: map[string]int{"workload2-0": 3, "workload2-1": 3}},
			{room: 8, running: 14, pending: 14, bound: map[string]int{
				"workload2-0": 3, "workload2-1": 3,
				"workload2-0-sg-x-0": 2, "workload2-0-sg-x-1": 2, "workload2-1-sg-x-0": 2, "workload2-1-sg-x-1": 2,
			}},
			{room: 14, running: 28, pending: 0},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, 2, 0)
			s.start(workload2(), operator.GenerationB)
			tc.setUp(s)
			s.until("the operator has done its part", s.op.Unfinished)
			s.checkpoint(0, len(s.pods()))
			for _, step := range tc.steps {
				s.addNode(step.room)
				s.checkpoint(step.running, step.pending)
				s.isMadeUpOf(step.bound)
			}
		})
	}
}

// roomStep adds a node with room for so many pods.
type roomStep struct {
	room             int
	running, pending int
	// bound is how many pods of each gang are bound then; nil is not looked at.
	bound map[string]int
}

// isMadeUpOf checks how many pods of each gang are bound; of gangs not named, none.
func (s *scenario) isMadeUpOf(want map[string]int) {
	s.t.Helper()
	if want == nil {
		return
	}
	for _, pg := range s.gangs() {
		if bound, _ := s.boundOf(pg); bound != want[pg.Name] {
			s.t.Errorf("want %v of the gangs bound, and of others none: %s", want, s.makeUp())
			return
		}
	}
}
