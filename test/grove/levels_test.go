// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"strings"
	"testing"

	"github.com/podgang/podgang-scheduler/test/grove/operator"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// refusalsName checks that every pod that waits says so in these words.
func (s *scenario) refusalsName(words ...string) {
	s.t.Helper()
	for _, pod := range s.pods() {
		c := observe.Scheduled(pod)
		for _, word := range words {
			if pod.Spec.NodeName == "" && (c == nil || !strings.Contains(c.Message, word)) {
				s.t.Errorf("%s, want a message with %q", describe(pod), word)
			}
		}
	}
}

// uncordonOnly makes these nodes usable, of a scenario that started with none, and returns
// when the scheduler knows them.
func (s *scenario) uncordonOnly(usable ...int) {
	s.t.Helper()
	for _, n := range usable {
		s.must(s.c.cordonNode(s.ctx, nodeName(n), false))
		s.newest = nodeName(n)
	}
	s.drain()
}

// A preferred level that no domain can give is followed by the broader ones, in the order
// of the topology that the PodGang names: here blocks, of which one has room. The kinds
// of topology that generations have are both understood.
func TestPreferredFallsBackToBroaderLevels(t *testing.T) {
	for _, generation := range []operator.Generation{operator.GenerationA, operator.GenerationB} {
		t.Run(string(generation), func(t *testing.T) {
			s := newScenario(t, nodes, nodes)
			// Five nodes of block-0 and eight of block-1; rack-2 has six of them, rack-3 seven.
			s.uncordonOnly(14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27)
			s.topology(generation, groveTopology, groveLevels...)
			s.start(operator.Workload{
				Name: "w", Replicas: 1, Topology: groveTopology, Pack: preferred("rack"), Cliques: []operator.Clique{clique("worker", 8, 8)},
			}, generation)
			s.checkpoint(8, 0)
			if got := s.together(blockKey, "w-0"); got != "block-1" {
				t.Errorf("the pods are in %s, want block-1", got)
			}
		})
	}
}

// Four PodGangs of one replica, each confined to a block, land in the same block when there
// is room: ai-dynamo/grove#648.
func TestGangsOfOneReplicaShareABlock(t *testing.T) {
	s := newScenario(t, nodes, nodes)
	// Three nodes of block-0, where the first of the gangs has room, and ten of block-1.
	s.uncordonOnly(15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27)
	s.relabel(18, 20, func(int) map[string]any { return map[string]any{blockKey: "block-1"} })
	s.topology(operator.GenerationB, groveTopology, groveLevels...)
	w := operator.Workload{
		Name: "w", Replicas: 1, Topology: groveTopology, Pack: required("block"),
		ScalingGroups: []operator.ScalingGroup{scalingGroupOf("workers", 4, 1, operator.Pack{}, clique("worker", 2, 2))},
	}
	s.start(w, operator.GenerationB)
	s.checkpoint(8, 0)
	s.requiredHolds()
	s.together(blockKey, "w-0")
}

// A replacement joins the domain of the members that are bound, and waits for room there
// while there is room elsewhere.
func TestReplacementStaysInTheDomain(t *testing.T) {
	s := newScenario(t, 14, 0) // rack-0 and rack-1
	s.topology(operator.GenerationB, groveTopology, groveLevels...)
	s.start(operator.Workload{
		Name: "w", Replicas: 1, Topology: groveTopology, Pack: required("rack"), Cliques: []operator.Clique{clique("worker", 7, 7)},
	}, operator.GenerationB)
	s.checkpoint(7, 0)
	rack := s.together(rackKey, "w-0")
	s.mayLack["w-0"] = true
	victim := s.podOfGroup("w-0-worker")
	s.cordonNode(victim.Spec.NodeName)
	s.deletePod(victim)
	s.replacementOf(victim)
	s.checkpoint(6, 1)
	s.refusalsName(rackKey, rack)
	s.must(s.c.cordonNode(s.ctx, victim.Spec.NodeName, false))
	s.checkpoint(7, 0)
	if got := s.together(rackKey, "w-0"); got != rack {
		t.Errorf("the pods are in %s, want %s", got, rack)
	}
}
