// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/test/grove/operator"
)

// scalingGroup is the scaling group of the workloads.
const scalingGroup = "sg-x"

// clique makes a clique whose pods take a node each.
func clique(name string, replicas, floor int) operator.Clique {
	spec := worker()
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: slotMemory}
	return operator.Clique{Name: name, Replicas: replicas, MinAvailable: floor, Spec: spec}
}

// workload1 is one gang of 10 pods with a floor of 10. A further replica of the scaling
// group is a gang of 4 with a floor of 4.
func workload1() operator.Workload {
	return operator.Workload{
		Name: "workload1", Replicas: 1,
		Cliques: []operator.Clique{clique("pc-a", 2, 2)},
		ScalingGroups: []operator.ScalingGroup{{
			Name: scalingGroup, Replicas: 2, MinAvailable: 2,
			Cliques: []operator.Clique{clique("pc-b", 1, 1), clique("pc-c", 3, 3)},
		}},
	}
}

// workload2 is a base gang of 6 pods with a floor of 3, and a scaled gang of 4 pods with
// a floor of 2. A further replica of the scaling group is another such scaled gang.
func workload2() operator.Workload {
	return operator.Workload{
		Name: "workload2", Replicas: 1,
		Cliques: []operator.Clique{clique("pc-a", 2, 1)},
		ScalingGroups: []operator.ScalingGroup{{
			Name: scalingGroup, Replicas: 2, MinAvailable: 1,
			Cliques: []operator.Clique{clique("pc-b", 1, 1), clique("pc-c", 3, 1)},
		}},
	}
}

// step is something that happens, and what is expected then. A step in which nothing
// happens expects what follows from the start of the workload.
type step struct {
	// uncordon makes so many more nodes usable.
	uncordon int
	// replicas of the PodCliqueSet, if not 0.
	replicas int
	// group is the replicas of the scaling group, by replica of the PodCliqueSet.
	group map[int]int

	running, pending int
	// events are to be looked at.
	events bool
}

func (st step) do(s *scenario) {
	s.t.Helper()
	s.uncordon(st.uncordon)
	if st.replicas != 0 {
		s.op.Scale(st.replicas)
	}
	for replica, n := range st.group {
		s.op.ScaleGroup(replica, scalingGroup, n)
	}
}

// gangScenario is one of Grove's gang scenarios.
type gangScenario struct {
	nodes, cordoned int
	workload        func() operator.Workload
	steps           []step
}

// gangScenarios are GS1 to GS12: the node counts, steps and numbers are Grove's.
var gangScenarios = map[string]gangScenario{
	"GS1": {10, 1, workload1, []step{
		{running: 0, pending: 10, events: true},
		{uncordon: 1, running: 10, pending: 0},
	}},
	"GS2": {14, 5, workload1, []step{
		{running: 0, pending: 10, events: true},
		{uncordon: 1, running: 10, pending: 0},
		{group: map[int]int{0: 3}, running: 10, pending: 4},
		{uncordon: 4, running: 14, pending: 0},
	}},
	"GS3": {20, 11, workload1, []step{
		{running: 0, pending: 10, events: true},
		{uncordon: 1, running: 10, pending: 0},
		{replicas: 2, running: 10, pending: 10},
		{uncordon: 10, running: 20, pending: 0},
	}},
	"GS4": {28, 19, workload1, []step{
		{running: 0, pending: 10, events: true},
		{uncordon: 1, running: 10, pending: 0},
		{group: map[int]int{0: 3}, running: 10, pending: 4},
		{uncordon: 4, running: 14, pending: 0},
		{replicas: 2, running: 14, pending: 10},
		{uncordon: 10, running: 24, pending: 0},
		{group: map[int]int{1: 3}, running: 24, pending: 4},
		{uncordon: 4, running: 28, pending: 0},
	}},
	"GS5": {10, 8, workload2, []step{
		{running: 0, pending: 10},
		{uncordon: 1, running: 3, pending: 7},
		{uncordon: 7, running: 10, pending: 0},
	}},
	"GS6": {14, 12, workload2, []step{
		{running: 0, pending: 10},
		{uncordon: 1, running: 3, pending: 7},
		{uncordon: 7, running: 10, pending: 0},
		{group: map[int]int{0: 3}, running: 10, pending: 4, events: true},
		{uncordon: 2, running: 12, pending: 2},
		{uncordon: 2, running: 14, pending: 0},
	}},
	"GS7": {14, 12, workload2, []step{
		{running: 0, pending: 10},
		{uncordon: 1, running: 3, pending: 7},
		{uncordon: 2, running: 5, pending: 5},
		{uncordon: 5, running: 10, pending: 0},
		{group: map[int]int{0: 3}, running: 10, pending: 4},
		{uncordon: 2, running: 12, pending: 2},
		{uncordon: 2, running: 14, pending: 0},
	}},
	"GS8": {14, 12, workload2, []step{
		{running: 0, pending: 10},
		{group: map[int]int{0: 3}, running: 0, pending: 14},
		{uncordon: 1, running: 3, pending: 11},
		{uncordon: 4, running: 7, pending: 7},
		{uncordon: 7, running: 14, pending: 0},
	}},
	"GS9": {20, 18, workload2, []step{
		{running: 0, pending: 10},
		{uncordon: 1, running: 3, pending: 7},
		{uncordon: 7, running: 10, pending: 0},
		{replicas: 2, running: 10, pending: 10},
		{uncordon: 3, running: 13, pending: 7},
		{uncordon: 7, running: 20, pending: 0},
	}},
	"GS10": {20, 18, workload2, []step{
		{running: 0, pending: 10},
		{replicas: 2, running: 0, pending: 20},
		{uncordon: 4, running: 6, pending: 14},
		{uncordon: 4, running: 10, pending: 10},
		{uncordon: 10, running: 20, pending: 0},
	}},
	"GS11": {28, 26, workload2, []step{
		{running: 0, pending: 10},
		{uncordon: 1, running: 3, pending: 7},
		{uncordon: 7, running: 10, pending: 0},
		{group: map[int]int{0: 3}, running: 10, pending: 4},
		{uncordon: 2, running: 12, pending: 2},
		{uncordon: 2, running: 14, pending: 0},
		{replicas: 2, running: 14, pending: 10},
		{uncordon: 3, running: 17, pending: 7},
		{uncordon: 7, running: 24, pending: 0},
		{group: map[int]int{1: 3}, running: 24, pending: 4},
		{uncordon: 2, running: 26, pending: 2},
		{uncordon: 2, running: 28, pending: 0},
	}},
	// Grove asserts only what runs from the fourth step on.
	"GS12": {28, 26, workload2, []step{
		{running: 0, pending: 10},
		{replicas: 2, running: 0, pending: 20},
		{group: map[int]int{0: 3, 1: 3}, running: 0, pending: 28},
		{uncordon: 4, running: 6, pending: 22},
		{uncordon: 8, running: 14, pending: 14},
		{uncordon: 14, running: 28, pending: 0},
	}},
}

func TestGangScheduling(t *testing.T) {
	for _, id := range []string{"GS1", "GS2", "GS3", "GS4", "GS5", "GS6", "GS7", "GS8", "GS9", "GS10", "GS11", "GS12"} {
		t.Run(id, func(t *testing.T) { gangScenarios[id].run(t, operator.GenerationB) })
	}
}

func TestGangSchedulingInOtherGenerations(t *testing.T) {
	for _, generation := range []operator.Generation{operator.GenerationA, operator.GenerationC} {
		for _, id := range []string{"GS1", "GS5", "GS7"} {
			t.Run(string(generation)+" "+id, func(t *testing.T) { gangScenarios[id].run(t, generation) })
		}
	}
}

func (g gangScenario) run(t *testing.T, generation operator.Generation) {
	s := newScenario(t, g.nodes, g.cordoned)
	s.start(g.workload(), generation)
	for _, st := range g.steps {
		st.do(s)
		s.checkpoint(st.running, st.pending)
		if st.events {
			s.events()
		}
	}
	s.readyOnDistinctNodes()
}
