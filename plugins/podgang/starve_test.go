// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"

	"github.com/podgang/podgang-scheduler/pkg/placement"
)

// crowdedWorld is a world of nodes with 4 CPUs and 10 pods each. Each word of a node is
// a pod: goes or stays, with the CPUs that it has; "cordoned" is a cordon.
func crowdedWorld(t *testing.T, pod *v1.Pod, nodes []string) *world {
	t.Helper()
	w := testWorld(0, nil)
	c := &class{pod: pod, demand: &demand{requests: pod.Spec.Containers[0].Resources.Requests}}
	w.classes = []*class{c}
	w.room.add(c.demand)
	w.room.settle()
	c.requests = w.room.requests(c.demand)
	cordoned := make(map[int]nodeRefusal)
	for n, words := range nodes {
		info := framework.NewNodeInfo()
		for i, word := range strings.Fields(words) {
			kind, cpus, _ := strings.Cut(word, "-")
			if kind == "cordoned" {
				cordoned[n] = nodeRefusal{plugin: nodeunschedulable.Name}
				continue
			}
			added, err := framework.NewPodInfo(testPod(fmt.Sprintf("%s-%d-%d", kind, n, i), requesting(0, map[v1.ResourceName]string{"cpu": cpus})))
			if err != nil {
				t.Fatal(err)
			}
			info.AddPodInfo(added)
		}
		info.SetNode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", n)},
			Status:     v1.NodeStatus{Allocatable: amounts("cpu", "4", "pods", "10")},
		})
		w.nodes = append(w.nodes, info)
		c.eligible = append(c.eligible, n)
		free, total := stockOf(&w.room, info)
		w.stock = append(w.stock, placement.Node{Free: free, Total: total})
	}
	c.answers = answers(len(nodes), cordoned)
	return w
}

func TestNodesForAGangThatWaits(t *testing.T) {
	goes := func(pod *v1.Pod) bool { return strings.HasPrefix(pod.Name, "goes") }
	apart := func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{}}}}
	}
	cpus := func(n string) func(*v1.Pod) { return requesting(0, map[v1.ResourceName]string{"cpu": n}) }
	for _, tc := range []struct {
		name  string
		pod   *v1.Pod
		pods  int
		nodes []string
		among sets.Set[string]
		// want are the nodes, "" if there are none.
		want  string
		waits bool
	}{
		{name: "all go", pod: testPod("p", cpus("4")), pods: 2, nodes: []string{"goes-1", "goes-1 goes-2"}, want: "n0 n1", waits: true},
		{name: "where the fewest have to go", pod: testPod("p", cpus("4")), pods: 1, nodes: []string{"goes-1 goes-1", "goes-1"}, want: "n1", waits: true},
		{name: "nobody has to go", pod: testPod("p", cpus("4")), pods: 1, nodes: []string{"goes-1", ""}, want: "n1"},
		{name: "more than there are nodes", pod: testPod("p", cpus("4")), pods: 3, nodes: []string{"goes-1", "goes-1"}},
		{name: "one stays", pod: testPod("p", cpus("4")), pods: 2, nodes: []string{"goes-1", "stays-1"}},
		{name: "one stays and leaves room", pod: testPod("p", cpus("3")), pods: 2, nodes: []string{"goes-2", "stays-1 goes-1"}, want: "n0 n1", waits: true},
		{name: "a cordon stays", pod: testPod("p", cpus("4")), pods: 1, nodes: []string{"cordoned", "goes-1"}, want: "n1", waits: true},
		{name: "among those that are kept", pod: testPod("p", cpus("4")), pods: 1, nodes: []string{"", "goes-1"}, among: sets.New("n1"), want: "n1", waits: true},
		{name: "not among those that are kept", pod: testPod("p", cpus("4")), pods: 1, nodes: []string{"", "stays-1"}, among: sets.New("n1")},
		{name: "two of them on a node", pod: testPod("p", cpus("2")), pods: 2, nodes: []string{"goes-4", "goes-4"}, want: "n0", waits: true},
		{name: "pods that keep apart", pod: testPod("p", cpus("2"), apart), pods: 2, nodes: []string{"goes-4", "goes-4"}, want: "n0 n1", waits: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := crowdedWorld(t, tc.pod, tc.nodes)
			before := slices.Clone(w.stock[0].Free)
			p := &placement.Problem{Pods: make([]int, tc.pods), Classes: []placement.Class{{Requests: w.classes[0].requests}}, Budget: 1000}
			got, waits := "", false
			if found := w.outline(p, tc.among, goes); found != nil {
				got, waits = strings.Join(sets.List(found.nodes), " "), found.waits
			}
			if got != tc.want || waits != tc.waits {
				t.Errorf("got %q, waits %v; want %q, waits %v", got, waits, tc.want, tc.waits)
			}
			if !slices.Equal(before, w.stock[0].Free) {
				t.Error("what is free in the world has changed")
			}
		})
	}
}
