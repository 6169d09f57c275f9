// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/test/observe"
)

// oneTrayOfEach is a tray of each rack.
var oneTrayOfEach = []string{tray(0, 0), tray(1, 0)}

// Gangs of whole trays on racks of 18. The scores are those of the model: a pair of GPUs
// has 900 GB/s inside an NVLink domain and 50 between two under one switch.
func TestRacks(t *testing.T) {
	for _, tc := range []struct {
		name string
		// shape of the racks, and trays that are cordoned besides.
		shape    string
		cordoned []string
		pods     int
		// required and preferred are keys.
		required, preferred string
		noChannel           bool
		// spread over NVLink domains and score, or what the gang says when it waits.
		spread string
		score  float64
		waits  []string
		// check is what else holds of the pods.
		check func(s *scenario, pods []string)
	}{
		{name: "a whole rack is free", pods: 18, required: clique, spread: "18", score: 1},
		{name: "the channel alone keeps a gang in one domain", pods: 18, spread: "18", score: 1},
		{name: "two racks for more than a rack", pods: 20, preferred: clique, spread: "18+2", score: 1},
		{name: "no rack for more than a rack", pods: 19, required: clique, waits: []string{clique, "needs 19"}},
		{name: "17 of each usable, required", cordoned: oneTrayOfEach, pods: 18, required: clique, waits: []string{clique, "needs 18", "17"}},
		{name: "17 of each usable, preferred", cordoned: oneTrayOfEach, pods: 18, preferred: clique, spread: "17+1", score: 0.3462},
		{
			name: "16 of each usable, preferred", shape: "c-cordoned", cordoned: []string{tray(1, 0), tray(1, 1)},
			pods: 18, preferred: clique, spread: "16+2", score: 0.2195,
		},
		{
			name: "16 of one usable: the other", shape: "c-cordoned", pods: 18, required: clique, spread: "18", score: 1,
			check: func(s *scenario, pods []string) { s.onRack(1, pods) },
		},
		{
			name: "16 of one usable: the tighter", shape: "c-cordoned", pods: 16, required: clique, spread: "16", score: 1,
			check: func(s *scenario, pods []string) { s.onRack(0, pods) },
		},
		{
			name: "one rack split: the whole", shape: "c-split", pods: 18, required: clique, spread: "18", score: 1,
			check: func(s *scenario, pods []string) { s.onRack(1, pods) },
		},
		{
			name: "one rack split, a tray of the other gone", shape: "c-split", cordoned: oneTrayOfEach[1:], pods: 18,
			required: clique, waits: []string{clique, "needs 18", "17"},
		},
		{
			name: "one tray busy with another ComputeDomain: the other rack", shape: "c-busy", pods: 18, required: clique, spread: "18", score: 1,
			check: func(s *scenario, pods []string) { s.onRack(1, pods) },
		},
		{
			name: "one tray busy with another ComputeDomain: its neighbours", shape: "c-busy", pods: 17, required: clique, spread: "17", score: 1,
			check: func(s *scenario, pods []string) { s.onRack(0, pods) },
		},
		{
			name: "a busy tray is free for pods without a channel", shape: "c-busy", cordoned: oneTrayOfEach[1:], pods: 18, required: clique, noChannel: true,
			spread: "18", score: 1,
			check: func(s *scenario, pods []string) { s.onRack(0, pods) },
		},
		{
			name: "one tray without clique: the other rack", shape: "c-noclique", pods: 18, required: clique, spread: "18", score: 1,
			check: func(s *scenario, pods []string) { s.onRack(1, pods) },
		},
		{
			name: "one tray without clique, one cordoned", shape: "c-noclique", cordoned: oneTrayOfEach[1:], pods: 18,
			required: clique, waits: []string{clique, "needs 18", "17"},
		},
		{name: "two racks with one clique number", shape: "c-sameid", pods: 18, required: clique, spread: "18", score: 1},
		{
			name: "two racks with one clique number, a tray of each gone", shape: "c-sameid", cordoned: oneTrayOfEach, pods: 18,
			required: clique, waits: []string{clique, "needs 18", "17"},
		},
		// Without a ComputeDomain NVLink ends at the tray, and racks under one switch are equal.
		{name: "without channels", cordoned: oneTrayOfEach, pods: 18, noChannel: true, spread: "", score: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, racksLab)
			if tc.shape == "" {
				tc.shape = racksShape
			}
			s.racks(tc.shape)
			if len(tc.cordoned) > 0 {
				s.cordonTrays(tc.cordoned...)
			}
			opts := []podOption{wholeTray, withChannel}
			if tc.noChannel {
				opts = opts[:1]
			}
			pods := s.packedGang("g", tc.pods, tc.required, tc.preferred, opts...)
			if tc.waits != nil {
				s.unschedulable(pods, tc.waits...)
				s.holdsNothing(pods...)
				return
			}
			s.bound(pods...)
			if tc.spread != "" {
				s.lies(clique, tc.spread, pods...)
			}
			s.scores("g", tc.score)
			if tc.check != nil {
				tc.check(s, pods)
			}
		})
	}
}

// onRack checks that the pods are on trays of a rack.
func (s *scenario) onRack(rack int, pods []string) {
	s.t.Helper()
	var trays []string
	for n := range rackSize {
		trays = append(trays, tray(rack, n))
	}
	for _, name := range pods {
		if node := s.getPod(name).Spec.NodeName; !slices.Contains(trays, node) {
			s.t.Errorf("pod %s is on %s, want rack %d", name, node, rack)
		}
	}
}

// Both racks are split into two NVLink domains of nine: 18 pods with channels are in two
// of them, and no better placement exists.
func TestRacksSplitInTwo(t *testing.T) {
	s := newScenario(t, racksLab)
	s.racks("c-split")
	first := s.labelsOfNode(tray(1, 0))[clique]
	for n := 9; n < rackSize; n++ {
		labels := s.labelsOfNode(tray(1, n))
		labels[clique] = first + "-2"
		s.changeTray(tray(1, n), labels, false)
	}
	s.schedulerKnowsNodes()
	pods := s.packedGang("g", 18, "", clique, wholeTray, withChannel)
	s.lies(clique, "9+9", pods...)
	s.scores("g", 1)
	s.deletePods(pods...)
	s.deleteGang("g")
	again := s.packedGang("r", 18, clique, "", wholeTray, withChannel)
	s.unschedulable(again, clique, "needs 18", "9")
	s.holdsNothing(again...)
}

func (s *scenario) labelsOfNode(name string) map[string]string {
	s.t.Helper()
	labels, ok := s.allNodeLabels()[name]
	if !ok {
		s.t.Fatalf("node %s does not exist", name)
	}
	return labels
}

// A tray of each rack serves another ComputeDomain. The gang waits, says so, and is bound
// when one of them is done.
func TestGangWaitsForABusyTray(t *testing.T) {
	s := newScenario(t, racksLab)
	s.racks("c-busy")
	labels := s.labelsOfNode(tray(1, 0))
	labels[busyLabel] = "another-domain"
	s.changeTray(tray(1, 0), labels, false)
	s.schedulerKnowsNodes()
	pods := s.packedGang("g", 18, clique, "", wholeTray, withChannel)
	s.unschedulable(pods, "ComputeDomain", "17")
	s.holdsNothing(pods...)
	s.setNodeLabel(tray(1, 0), busyLabel, nil)
	s.lies(clique, "18", pods...)
	s.onRack(1, pods)
}

// A required domain is full until the tray that lacks is uncordoned.
func TestGangWaitsForACordonedTray(t *testing.T) {
	s := newScenario(t, racksLab)
	s.racks(racksShape)
	s.cordonTrays(oneTrayOfEach...)
	pods := s.packedGang("g", 18, clique, "", wholeTray, withChannel)
	s.unschedulable(pods, clique, "needs 18")
	s.holdsNothing(pods...)
	s.cordon(false, tray(0, 0))
	s.lies(clique, "18", pods...)
	s.onRack(0, pods)
	s.scores("g", 1)
}

// 17 pods need a channel each and 5 nodes of the NVLink domain have one: one verdict for
// all, and none is bound.
func TestFewNodesOfferAChannel(t *testing.T) {
	for _, tc := range []struct{ nodes, channels, bound int }{{18, 18, 17}, {18, 5, 0}} {
		t.Run(fmt.Sprint(tc.channels), func(t *testing.T) {
			s := newScenario(t, racksLab)
			s.template(channelTemplate, channelSpec(s.ns))
			s.template("gpus", claimSpec(request("gpus", gpuClass, 4)))
			for n := range tc.nodes {
				opts := []nodeOption{gpus(4, "NVIDIA GB200"), labelled(clique, s.ns+".1")}
				if n < tc.channels {
					opts = append(opts, channel)
				}
				s.node(fmt.Sprintf("n%d", n), opts...)
			}
			pods := s.packedGang("g", 17, clique, "", inRoom(s.ns), fromTemplate("gpus", "gpus"), withChannel)
			if tc.bound > 0 {
				s.bound(pods...)
				return
			}
			s.unschedulable(pods, "needs 17", channelClass, "5")
			s.holdsNothing(pods...)
			first := observe.Scheduled(s.getPod(pods[0])).Message
			s.marker()
			for _, name := range pods {
				if got := observe.Scheduled(s.getPod(name)).Message; got != first {
					s.t.Errorf("pod %s says %q, and before %s said %q", name, got, pods[0], first)
				}
			}
		})
	}
}

// A node has one channel: pods with a claim each for one are on two nodes, those that
// share a claim may be on one.
func TestOneChannelANode(t *testing.T) {
	s := newScenario(t, racksLab)
	s.template(channelTemplate, channelSpec(s.ns))
	s.claim("common", channelSpec(s.ns))
	s.node("a", gpus(4, "NVIDIA GB200"), labelled(clique, s.ns+".1"), channel)
	alone := s.packedGang("alone", 2, "", "", inRoom(s.ns), gpu, withChannel)
	s.unschedulable(alone, channelClass)
	s.holdsNothing(alone...)
	s.node("b", gpus(4, "NVIDIA GB200"), labelled(clique, s.ns+".1"), channel)
	s.lies(corev1.LabelHostname, "1+1", alone...)
	s.gone("alone", alone...)
	sharing := s.packedGang("sharing", 2, corev1.LabelHostname, "", inRoom(s.ns), gpu, claim("common"))
	s.lies(corev1.LabelHostname, "2", sharing...)
}

// Across placement groups of Azure RDMA does not work at all. Only the NICs tell the group.
func TestRDMADoesNotCrossPlacementGroups(t *testing.T) {
	s := newScenario(t, racksLab)
	s.shapeNodes("b4")
	s.template("node", claimSpec(request("gpus", gpuClass, 8), request("nics", nicClass, 8)))
	s.template("gpus", claimSpec(request("gpus", gpuClass, 8)))
	h100 := onProduct("NVIDIA-H100-80GB-HBM3")
	across := s.packedGang("across", 4, "", "", h100, fromTemplate("node", "node"))
	s.unschedulable(across, "azure.dra.net/placementGroupId")
	s.holdsNothing(across...)
	s.gone("across", across...)
	within := s.packedGang("within", 2, "", "", h100, fromTemplate("node", "node"))
	s.bound(within...)
	s.scores("within", 1)
	nodes := []string{s.getPod(within[0]).Spec.NodeName, s.getPod(within[1]).Spec.NodeName}
	slices.Sort(nodes)
	if !slices.Equal(nodes, []string{"h100-0", "h100-1"}) && !slices.Equal(nodes, []string{"h100-2", "h100-3"}) {
		t.Errorf("the pods are on %v, which is not one placement group", nodes)
	}
	s.gone("within", within...)
	// Without RDMA there is nothing that the groups would keep apart.
	without := s.packedGang("without", 4, "", "", h100, fromTemplate("node", "gpus"))
	s.bound(without...)
}

// Four machines under two leaf switches: the best for four pods is two and two, and of a
// pair the best is one leaf.
func TestLeafSwitches(t *testing.T) {
	const leaf = "fabric.topograph.run/tier-0"
	s := newScenario(t, racksLab)
	s.shapeNodes("b")
	s.template("node", claimSpec(request("gpus", gpuClass, 8), request("nics", nicClass, 8)))
	h100 := onProduct("NVIDIA-H100-80GB-HBM3")
	all := s.packedGang("all", 4, "", "", h100, fromTemplate("node", "node"))
	s.lies(leaf, "2+2", all...)
	s.scores("all", 1)
	s.gone("all", all...)
	pair := s.packedGang("pair", 2, "", "", h100, fromTemplate("node", "node"))
	s.lies(leaf, "2", pair...)
	s.scores("pair", 1)
	s.gone("pair", pair...)
	// One machine of each leaf is taken.
	s.pod("solo-0", fromTemplate("node", "node"), onHost("h100-0"))
	s.pod("solo-2", fromTemplate("node", "node"), onHost("h100-2"))
	s.bound("solo-0", "solo-2")
	apart := s.packedGang("apart", 2, "", leaf, h100, fromTemplate("node", "node"))
	s.lies(leaf, "1+1", apart...)
	s.scores("apart", 0.85)
}
