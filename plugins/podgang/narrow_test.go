// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/placement"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// rackWorld is a world of a gang of three pods that have to share a rack, on nodes in
// the racks given, "" for none.
func rackWorld(t *testing.T, racks ...string) *world {
	t.Helper()
	w := testWorld(0, nil)
	for i, rack := range racks {
		info := framework.NewNodeInfo()
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{}}}
		if rack != "" {
			node.Labels["rack"] = rack
		}
		info.SetNode(node)
		w.nodes = append(w.nodes, info)
	}
	w.pl.landscape = newLandscape(&config.PodGangArgs{})
	w.pl.landscape.sync(w.nodes)
	for i := range 3 {
		if err := w.addMember("w", testPod(fmt.Sprintf("p%d", i), requesting(0, map[v1.ResourceName]string{"cpu": "8"})), true); err != nil {
			t.Fatal(err)
		}
	}
	w.classes[0].demand, w.classes[0].screened = &demand{}, true
	w.layout = &layout{constraints: []constraint{{name: "the gang", required: "rack"}}}
	return w
}

func TestRefusalNamesTheBestDomainAndCountsEveryNode(t *testing.T) {
	w := rackWorld(t, "a", "b", "b", "b", "", "b", "b", "b", "b")
	c := w.classes[0]
	c.answers = answers(len(w.nodes), map[int]nodeRefusal{1: {"TaintToleration", "taint maintenance"}})
	c.full[2] = nodeRefusal{"NodeResourcesFit", "Insufficient cpu"}
	b := w.pl.landscape.index.Level("rack").Of[1]
	r := w.refusal(gang.Key{Namespace: "ns", Name: "g"}, &placement.Shortage{Scope: 0, Domain: b, Placed: 2, Wanted: 3, Alone: true})
	want := "PodGang ns/g: the gang needs 3 pods in one rack; best is b, where for 3 pods of group w (8 cpu) there is room for 2 " +
		"(node-2: Insufficient cpu; node-1: taint maintenance; 5 nodes: has room, and more is needed); " +
		"of 9 nodes 7 in b, 1 in others, 1 without the label"
	if r.message != want {
		t.Errorf("got  %s\nwant %s", r.message, want)
	}
	if len(r.blockers[Name]) == 0 {
		t.Errorf("a change of labels would not wake the gang: blockers %v", r.blockers)
	}
}

func TestRefusalNamesWhereOthersAre(t *testing.T) {
	w := rackWorld(t, "a", "b")
	w.layout.bound = []boundMember{{node: 0, class: w.classes[0]}}
	w.classes[0].full[0] = nodeRefusal{"NodeResourcesFit", "Insufficient cpu"}
	r := w.refusal(gang.Key{Namespace: "ns", Name: "g"}, &placement.Shortage{Scope: 0, Domain: w.pl.landscape.index.Level("rack").Of[0], Wanted: 3, Alone: true})
	want := "PodGang ns/g: the gang needs 4 pods in one rack; others are in a, where for 3 pods of group w (8 cpu) there is room for none " +
		"(node-0: Insufficient cpu); of 2 nodes 1 in a, 1 in others, 0 without the label"
	if r.message != want {
		t.Errorf("got  %s\nwant %s", r.message, want)
	}
}

func TestRefusalSaysThatNoNodeHasTheLabel(t *testing.T) {
	w := rackWorld(t, "", "")
	r := w.refusal(gang.Key{Namespace: "ns", Name: "g"}, &placement.Shortage{Scope: 0, Domain: topology.None, Wanted: 3, Alone: true})
	if want := "PodGang ns/g: the gang needs 3 pods in one rack, and no node has that label"; r.message != want {
		t.Errorf("got  %s\nwant %s", r.message, want)
	}
}

func TestGenerationOfTheInventoryFollowsWhatMatters(t *testing.T) {
	w := rackWorld(t, "a", "b")
	l := w.pl.landscape
	at := l.generation
	expect := func(what string, want bool) {
		t.Helper()
		l.sync(w.nodes)
		if got := l.generation != at; got != want {
			t.Errorf("%s: news %v, want %v", what, got, want)
		}
		at = l.generation
	}
	replace := func(change func(*v1.Node)) {
		node := w.nodes[0].Node().DeepCopy()
		change(node)
		w.nodes[0].(*framework.NodeInfo).SetNode(node)
	}
	expect("nothing", false)
	replace(func(n *v1.Node) { n.Status.Phase = v1.NodeRunning })
	expect("a heartbeat", false)
	replace(func(n *v1.Node) { n.Labels["rack"] = "c" })
	expect("a label", true)
	replace(func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k"}} })
	expect("a taint", true)
	w.nodes = w.nodes[:1]
	expect("a node less", true)
	expect("nothing again", false)
}
