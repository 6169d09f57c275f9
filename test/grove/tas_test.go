// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/grove/operator"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// topologyScenario is one of Grove's scenarios of topology-aware scheduling.
type topologyScenario struct {
	// nodes of the cluster that may be used; 0 is all.
	nodes    int
	workload operator.Workload
	// running is how many pods there are. All of them run.
	running int
	// check is what holds beside the required constraints of the PodGangs. Where pods of
	// several PodGangs share a domain, no constraint says so: the gangs of one replica of
	// a PodCliqueSet pull each other.
	check func(*scenario)
}

func (ts topologyScenario) run(t *testing.T, generation operator.Generation) {
	if ts.nodes == 0 {
		ts.nodes = nodes
	}
	s := newScenario(t, ts.nodes, 0)
	s.topology(generation, groveTopology, groveLevels...)
	w := ts.workload
	w.Name, w.Topology = "w", groveTopology
	if w.Replicas == 0 {
		w.Replicas = 1
	}
	s.start(w, generation)
	s.checkpoint(ts.running, 0)
	s.requiredHolds()
	if ts.check != nil {
		ts.check(s)
	}
}

// disaggregated is the workload of TAS15 and TAS16: 10 pods a replica.
func disaggregated(memory string, pworker operator.Pack) operator.Workload {
	pair := func(worker, leader string, pack operator.Pack) []operator.Clique {
		return []operator.Clique{sized(memory, worker, 1, pack), sized(memory, leader, 1, operator.Pack{})}
	}
	return operator.Workload{
		Pack:    required("block"),
		Cliques: []operator.Clique{sized(memory, "router", 2, operator.Pack{})},
		ScalingGroups: []operator.ScalingGroup{
			scalingGroupOf("decoder", 2, 1, required("rack"), pair("dworker", "dleader", operator.Pack{})...),
			scalingGroupOf("prefill", 2, 1, required("rack"), pair("pworker", "pleader", pworker)...),
		},
	}
}

func disaggregatedIsTogether(replicas int) func(*scenario) {
	return func(s *scenario) {
		for i := range replicas {
			set := fmt.Sprintf("w-%d", i)
			s.together(blockKey, set)
			s.eachTogether(rackKey, 2, set+"-decoder")
			s.eachTogether(rackKey, 2, set+"-prefill")
		}
	}
}

// topologyScenarios are TAS2 to TAS16: shapes, constraints and what must hold are Grove's.
var topologyScenarios = map[string]topologyScenario{
	"TAS2": {
		workload: operator.Workload{Cliques: []operator.Clique{
			sized("20Mi", "worker-rack", 3, required("rack")), sized("20Mi", "worker-block", 4, required("block")),
		}},
		running: 7,
		check: func(s *scenario) {
			s.together(rackKey, "w-0-worker-rack")
			s.together(blockKey, "w-0-worker-block")
		},
	},
	"TAS3": {
		workload: operator.Workload{
			Pack:          required("rack"),
			Cliques:       []operator.Clique{sized("10Mi", "router", 2, operator.Pack{})},
			ScalingGroups: []operator.ScalingGroup{scalingGroupOf("workers", 2, 2, operator.Pack{}, sized("10Mi", "worker", 1, operator.Pack{}))},
		},
		running: 4,
		check:   func(s *scenario) { s.together(rackKey, "w-0") },
	},
	"TAS4": {
		workload: operator.Workload{
			Cliques:       []operator.Clique{sized("10Mi", "router", 2, operator.Pack{})},
			ScalingGroups: []operator.ScalingGroup{scalingGroupOf("workers", 2, 2, required("rack"), sized("10Mi", "worker", 1, operator.Pack{}))},
		},
		running: 4,
		check:   func(s *scenario) { s.together(rackKey, "w-0-workers") },
	},
	"TAS5": {
		workload: operator.Workload{Cliques: []operator.Clique{sized("40Mi", "worker", 2, required("host"))}},
		running:  2,
		check:    func(s *scenario) { s.together(corev1.LabelHostname, "w-0-worker") },
	},
	"TAS6": {
		workload: operator.Workload{Pack: required("zone"), Cliques: []operator.Clique{sized("40Mi", "worker", 4, operator.Pack{})}},
		running:  4,
		check:    func(s *scenario) { s.together(zoneKey, "w-0") },
	},
	"TAS7": {
		workload: operator.Workload{ScalingGroups: []operator.ScalingGroup{
			scalingGroupOf("workers", 2, 2, operator.Pack{}, sized("10Mi", "worker", 2, operator.Pack{})),
		}},
		running: 4,
	},
	"TAS8": {
		nodes: 8,
		workload: operator.Workload{Pack: required("block"), ScalingGroups: []operator.ScalingGroup{
			scalingGroupOf("inference-group", 2, 2, required("rack"), sized("40Mi", "prefill", 2, required("host")), sized("40Mi", "decode", 2, required("host"))),
		}},
		running: 8,
		check: func(s *scenario) {
			s.together(blockKey, "w-0")
			s.eachTogether(rackKey, 2, "w-0-inference-group")
			s.eachTogether(corev1.LabelHostname, 2, "w-0-inference-group", "-prefill", "-decode")
		},
	},
	"TAS9": {
		workload: operator.Workload{Pack: required("block"), Cliques: []operator.Clique{sized("40Mi", "worker", 2, required("host"))}},
		running:  2,
		check:    func(s *scenario) { s.together(corev1.LabelHostname, "w-0-worker") },
	},
	"TAS10": {
		workload: operator.Workload{Pack: required("block"), ScalingGroups: []operator.ScalingGroup{
			scalingGroupOf("inference-group", 3, 1, required("rack"), sized("40Mi", "worker", 2, operator.Pack{})),
		}},
		running: 6,
		check: func(s *scenario) {
			s.together(blockKey, "w-0")
			s.eachTogether(rackKey, 3, "w-0-inference-group")
		},
	},
	"TAS11": {
		workload: operator.Workload{ScalingGroups: []operator.ScalingGroup{
			scalingGroupOf("workers", 2, 2, required("rack"), sized("40Mi", "worker", 2, required("host"))),
		}},
		running: 4,
		check:   func(s *scenario) { s.eachTogether(corev1.LabelHostname, 2, "w-0-workers") },
	},
	// The base of 3 nodes has room in the block of 8; the scaled gangs do not beside it.
	"TAS12": {
		workload: operator.Workload{Pack: required("block"), ScalingGroups: []operator.ScalingGroup{
			scalingGroupOf("workers", 10, 3, operator.Pack{}, sized("40Mi", "worker", 2, required("host"))),
		}},
		running: 20,
		check: func(s *scenario) {
			s.together(blockKey, "w-0")
			s.eachTogether(corev1.LabelHostname, 10, "w-0-workers")
		},
	},
	"TAS14": {
		workload: operator.Workload{Replicas: 2, Pack: required("rack"), Cliques: []operator.Clique{sized("20Mi", "worker", 2, operator.Pack{})}},
		running:  4,
		check: func(s *scenario) {
			s.together(rackKey, "w-0")
			s.together(rackKey, "w-1")
		},
	},
	"TAS15": {workload: disaggregated("10Mi", operator.Pack{}), running: 10, check: disaggregatedIsTogether(1)},
	"TAS16": {
		workload: func() operator.Workload {
			w := disaggregated("40Mi", required("host"))
			w.Replicas = 2
			return w
		}(),
		running: 20,
		check:   disaggregatedIsTogether(2),
	},
	"TAS23": {
		workload: operator.Workload{
			Pack:          operator.Pack{Required: "block", Preferred: "rack"},
			Cliques:       []operator.Clique{sized("10Mi", "router", 1, preferred("host"))},
			ScalingGroups: []operator.ScalingGroup{scalingGroupOf("workers", 2, 1, preferred("host"), sized("10Mi", "worker", 1, operator.Pack{}))},
		},
		running: 3,
		check: func(s *scenario) {
			for name, want := range map[string]string{
				"w-0":           blockKey + "/" + rackKey + ", w-0-workers-0 /" + corev1.LabelHostname + ", w-0-router /" + corev1.LabelHostname,
				"w-0-workers-0": "/" + corev1.LabelHostname,
			} {
				if got := constraintsOf(observe.Get[*v1alpha1.PodGang](s.c.recorder.State, s.ns, name)); got != want {
					s.t.Errorf("PodGang %s has the constraints %q, want %q", name, got, want)
				}
			}
		},
	},
}

func TestTopology(t *testing.T) {
	for _, id := range []string{
		"TAS2", "TAS3", "TAS4", "TAS5", "TAS6", "TAS7", "TAS8", "TAS9", "TAS10", "TAS11", "TAS12", "TAS14", "TAS15", "TAS16", "TAS23",
	} {
		t.Run(id, func(t *testing.T) { topologyScenarios[id].run(t, operator.GenerationB) })
	}
}

// Generation A has the older kind of topology, and generation C other constraints on
// scaled gangs.
func TestTopologyInOtherGenerations(t *testing.T) {
	for id, generation := range map[string]operator.Generation{
		"TAS8": operator.GenerationA, "TAS10": operator.GenerationC, "TAS16": operator.GenerationC,
	} {
		t.Run(string(generation)+" "+id, func(t *testing.T) { topologyScenarios[id].run(t, generation) })
	}
}

// tenInARack is TAS13: ten pods, each on a node of its own, in one rack of seven nodes.
func tenInARack(memory string) operator.Workload {
	return operator.Workload{Name: "w", Replicas: 1, Topology: groveTopology, Pack: required("rack"), Cliques: []operator.Clique{sized(memory, "worker", 10, operator.Pack{})}}
}

func TestTopologyTAS13(t *testing.T) {
	// No node has room for one.
	t.Run("500Mi", func(t *testing.T) {
		s := newScenario(t, nodes, 0)
		s.topology(operator.GenerationB, groveTopology, groveLevels...)
		s.start(tenInARack("500Mi"), operator.GenerationB)
		s.checkpoint(0, 10)
		s.events()
	})
	// The cluster has room, no rack has; then one has.
	t.Run("80Mi", func(t *testing.T) {
		s := newScenario(t, nodes, 0)
		s.topology(operator.GenerationB, groveTopology, groveLevels...)
		s.start(tenInARack("80Mi"), operator.GenerationB)
		s.checkpoint(0, 10)
		s.events()
		s.refusalsName(rackKey, "rack-")
		s.relabel(7, 10, func(int) map[string]any { return map[string]any{rackKey: "rack-0"} })
		s.checkpoint(10, 0)
		if got := s.together(rackKey, "w-0"); got != "rack-0" {
			t.Errorf("the pods are in %s, want rack-0", got)
		}
	})
}

// Two kinds of hardware, each with a topology of its own: 14 nodes have racks, 14 have
// what a rack of theirs is called. Nodes without the label are in no domain.
func TestTopologyTAS17(t *testing.T) {
	const blockOf, domainOf = "example.com/nvl-block", "example.com/nvlink-domain"
	s := newScenario(t, nodes, 0)
	s.relabel(14, nodes, func(n int) map[string]any {
		return map[string]any{rackKey: nil, blockOf: fmt.Sprintf("nvl-%d", n/7), domainOf: fmt.Sprintf("nvlink-%d", n)}
	})
	s.topology(operator.GenerationB, "h100", level{"block", rackKey}, level{"host", corev1.LabelHostname})
	s.topology(operator.GenerationB, "gb200", level{"block", blockOf}, level{"rack", domainOf}, level{"host", corev1.LabelHostname})
	for name, key := range map[string]string{"h100": rackKey, "gb200": blockOf} {
		s.start(operator.Workload{
			Name: name, Replicas: 1, Topology: name, Pack: required("block"), Cliques: []operator.Clique{sized("10Mi", "worker", 2, operator.Pack{})},
		}, operator.GenerationB)
		s.checkpoint(2, 0)
		s.requiredHolds()
		s.together(key, name+"-0")
		if got, want := constraintsOf(observe.Get[*v1alpha1.PodGang](s.c.recorder.State, s.ns, name+"-0")), key+"/"; got != want {
			t.Errorf("PodGang %s-0 has the constraints %q, want %q", name, got, want)
		}
		s.op.Stop()
	}
}

// The topology is gone when the workload is scaled up: its PodGang says nothing of it.
func TestTopologyTAS20(t *testing.T) {
	s := newScenario(t, 2, 0)
	s.topology(operator.GenerationB, groveTopology, groveLevels...)
	s.start(operator.Workload{
		Name: "w", Replicas: 0, Topology: groveTopology, Pack: required("rack"), Cliques: []operator.Clique{sized("10Mi", "worker", 2, operator.Pack{})},
	}, operator.GenerationB)
	s.deleteTopology(operator.GenerationB, groveTopology)
	s.until("the operator knows that the topology is gone", func() string {
		if s.op.HasTopology() {
			return "it does not"
		}
		return ""
	})
	s.op.Scale(1)
	s.checkpoint(2, 0)
	pg := observe.Get[*v1alpha1.PodGang](s.c.recorder.State, s.ns, "w-0")
	if got := constraintsOf(pg); got != "none" || pg.Annotations[v1alpha1.AnnotationTopologyName] != "" {
		t.Errorf("the PodGang has the constraints %q and the annotations %v, want none", got, pg.Annotations)
	}
}
