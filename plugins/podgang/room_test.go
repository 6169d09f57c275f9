// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

func amounts(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestRoomCountsWhatClassesAskFor(t *testing.T) {
	gpu := deviceDemand{want: gangresources.Want{Class: "gpu"}, count: 4}
	whole, cpuOnly := &demand{requests: amounts("cpu", "500m", "example.com/x", "2"), devices: []deviceDemand{gpu}}, &demand{requests: amounts("cpu", "2", "memory", "1Ki")}
	var r room
	r.add(whole)
	r.add(cpuOnly)
	r.settle()
	// Devices, cpu, example.com/x, memory, pods.
	if diff := cmp.Diff([]int64{4, 500, 2, 0, 1}, r.requests(whole)); diff != "" {
		t.Errorf("requests with devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{0, 2000, 0, 1024, 1}, r.requests(cpuOnly)); diff != "" {
		t.Errorf("requests of CPU and memory (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		name        string
		free, total []int64
		unknown     bool // there is no DeviceClass of the name
		want        string
	}{
		{"enough", []int64{4, 500, 2, 0, 1}, []int64{8, 500, 2, 0, 1}, false, ""},
		{"some devices", []int64{3, 500, 2, 0, 1}, []int64{8, 500, 2, 0, 1}, false, "cannot allocate all claims, 3 of 8 gpu free"},
		{"no devices", []int64{0, 500, 2, 0, 1}, []int64{0, 500, 2, 0, 1}, false, "no gpu"},
		{"no such devices", []int64{0, 500, 2, 0, 1}, []int64{0, 500, 2, 0, 1}, true, "device class gpu does not exist"},
		{"too little CPU", []int64{4, 499, 2, 0, 1}, []int64{8, 500, 2, 0, 1}, false, "Insufficient cpu"},
		{"no room for a pod", []int64{4, 500, 2, 0, 0}, []int64{8, 500, 2, 0, 1}, false, "Too many pods"},
	} {
		got := ""
		if short := r.short(r.requests(whole), tc.free, tc.total); short.column >= 0 {
			got = r.text(short, func(string) bool { return !tc.unknown })
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func stockOf(r *room, info fwk.NodeInfo, nominated ...v1.ResourceList) (free, total []int64) {
	free, total = make([]int64, len(r.columns)), make([]int64, len(r.columns))
	r.stock(info, nominated, free, total)
	return free, total
}

func TestStockLeavesOutWhatIsTakenAndOnItsWay(t *testing.T) {
	var r room
	r.add(&demand{requests: amounts("cpu", "1", "example.com/x", "1")})
	r.settle()
	info := framework.NewNodeInfo(testPod("there", requesting(0, map[v1.ResourceName]string{"cpu": "2", "example.com/x": "1"})))
	info.SetNode(&v1.Node{Status: v1.NodeStatus{Allocatable: amounts("cpu", "8", "pods", "10", "example.com/x", "4")}})
	coming, err := framework.NewPodInfo(testPod("coming", requesting(0, map[v1.ResourceName]string{"cpu": "500m"})))
	if err != nil {
		t.Fatal(err)
	}
	free, total := stockOf(&r, info, requestsOf(coming.GetPod()))
	if diff := cmp.Diff([]int64{8000, 4, 10}, total); diff != "" {
		t.Errorf("of an empty node (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{5500, 3, 8}, free); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestNodesThatWouldDoIfNothingWereOnThem(t *testing.T) {
	refusedBy := func(plugin string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "no").WithPlugin(plugin) }
	cordoned := func(change func(*v1.Node)) *v1.Node {
		n := &v1.Node{Spec: v1.NodeSpec{Unschedulable: true, Taints: []v1.Taint{{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}}}}
		n.Labels = map[string]string{"kind": "gpu"}
		change(n)
		return n
	}
	pod := testPod("p", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"kind": "gpu"} })
	for _, tc := range []struct {
		name   string
		node   *v1.Node
		status *fwk.Status
		want   bool
	}{
		{"it does", &v1.Node{}, nil, true},
		{"it is full", &v1.Node{}, refusedBy("NodeResourcesFit"), true},
		{"it serves another ComputeDomain", &v1.Node{}, refusedBy(Name), true},
		{"it is tainted", &v1.Node{}, refusedBy("TaintToleration"), false},
		{"it is of another sort", &v1.Node{}, refusedBy("NodeAffinity"), false},
		{"it is cordoned", cordoned(func(*v1.Node) {}), refusedBy("NodeUnschedulable"), true},
		{"it is cordoned and of another sort", cordoned(func(n *v1.Node) { n.Labels = nil }), refusedBy("NodeUnschedulable"), false},
		{"it is cordoned and tainted", cordoned(func(n *v1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "broken", Effect: v1.TaintEffectNoSchedule})
		}), refusedBy("NodeUnschedulable"), false},
	} {
		if got := wouldDo(pod, tc.node, tc.status); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}
