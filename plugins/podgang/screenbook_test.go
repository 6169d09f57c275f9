// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// countingFilters is a profile that counts the nodes for which its filters are asked.
type countingFilters struct {
	profile
	asked     *atomic.Int32
	nominated map[string][]fwk.PodInfo
}

func (f countingFilters) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	f.asked.Add(1)
	return f.profile.RunFilterPlugins(ctx, state, pod, node)
}

func (f countingFilters) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	f.asked.Add(1)
	return f.profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
}

func (f countingFilters) NominatedPodsForNode(node string) []fwk.PodInfo { return f.nominated[node] }

// screener is a planner whose filters are counted.
type screener struct {
	t        testing.TB
	ctx      context.Context
	pl       *Plugin
	snapshot gang.Snapshot
	filters  countingFilters
}

func newScreener(t testing.TB, there ...*v1.Pod) *screener {
	ctx, pl, snapshot := benchPlanner(t, benchLoad{nodes: 6, pods: 2, cpu: "8", there: there})
	s := &screener{t: t, ctx: ctx, pl: pl, snapshot: snapshot}
	s.filters = countingFilters{profile: pl.handle.(profile), asked: &atomic.Int32{}, nominated: make(map[string][]fwk.PodInfo)}
	pl.handle = s.filters
	return s
}

func (s *screener) node(name string) fwk.NodeInfo {
	info, err := s.pl.handle.SnapshotSharedLister().NodeInfos().Get(name)
	must(s.t, err)
	return info
}

// fill puts a pod on a node.
func (s *screener) fill(name string, pod *v1.Pod) {
	info, err := framework.NewPodInfo(pod)
	must(s.t, err)
	s.node(name).AddPodInfo(info)
}

// screen returns the nodes that pass the filters for the members, and how many of them
// the filters were asked for.
func (s *screener) screen(change ...func(*v1.Pod)) (passing []string, asked int) {
	s.t.Helper()
	s.filters.asked.Store(0)
	w, err := s.pl.newWorld(s.ctx)
	must(s.t, err)
	for _, pod := range s.snapshot.Groups[0].Floors {
		pod = pod.DeepCopy()
		for _, change := range change {
			change(pod)
			pod.ResourceVersion = "changed"
		}
		must(s.t, w.addMember("w", pod, true))
	}
	must(s.t, w.lay(s.ctx, s.snapshot))
	for _, n := range w.classes[0].nodes {
		passing = append(passing, w.nodes[n].Node().Name)
	}
	return passing, int(s.filters.asked.Load())
}

func TestFiltersAreAskedAgainOnlyWhereSomethingMayHaveChanged(t *testing.T) {
	big := testPod("big", requesting(0, map[v1.ResourceName]string{v1.ResourceCPU: "30"}))
	volume := func(source v1.VolumeSource) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}} }
	}
	all := []string{"n0", "n1", "n2", "n3", "n4", "n5"}
	for _, tc := range []struct {
		name    string
		between func(*screener)
		second  func(*v1.Pod)
		asked   int
		passing []string
	}{
		{name: "nothing", asked: 0, passing: all},
		{name: "a node is filled", between: func(s *screener) { s.fill("n2", big) }, asked: 1, passing: []string{"n0", "n1", "n3", "n4", "n5"}},
		{name: "a node is cordoned", between: func(s *screener) {
			node := s.node("n1").Node().DeepCopy()
			node.Spec.Unschedulable = true
			s.node("n1").(*framework.NodeInfo).SetNode(node)
		}, asked: 1, passing: []string{"n0", "n2", "n3", "n4", "n5"}},
		{name: "a pod is nominated", between: func(s *screener) {
			info, err := framework.NewPodInfo(big)
			must(s.t, err)
			s.filters.nominated["n3"] = []fwk.PodInfo{info}
		}, asked: 1, passing: all},
		{name: "names and images differ", second: func(p *v1.Pod) {
			p.Spec.Hostname = "other"
			p.Spec.Containers[0].Name, p.Spec.Containers[0].Image = "other", "other"
		}, asked: 0, passing: all},
		{name: "a volume that is anywhere", second: volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), asked: 0, passing: all},
		{name: "a volume that is not, for which each member is a class", second: volume(v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d"}}), asked: 12, passing: all},
		{name: "other requests", second: func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = amounts("cpu", "64")
		}, asked: 6, passing: nil},
		{name: "a selector", second: func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }, asked: 6, passing: nil},
		{name: "nodes are kept for another gang", between: func(s *screener) {
			s.pl.keeps.current.Store(&keep{key: gang.Key{Namespace: "ns", Name: "other"}})
		}, asked: 6, passing: all},
		{name: "a filter that nobody knows", between: func(s *screener) {
			s.pl.screens.configure(&schedulerconfig.Plugins{Filter: schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: "Other"}}}})
		}, asked: 6, passing: all},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScreener(t)
			if passing, asked := s.screen(); asked != 6 || !slices.Equal(passing, all) {
				t.Fatalf("at first %d nodes were asked for and %v pass", asked, passing)
			}
			if tc.between != nil {
				tc.between(s)
			}
			var change []func(*v1.Pod)
			if tc.second != nil {
				change = append(change, tc.second)
			}
			passing, asked := s.screen(change...)
			if asked != tc.asked || !slices.Equal(passing, tc.passing) {
				t.Errorf("then %d nodes were asked for and %v pass, want %d and %v", asked, passing, tc.asked, tc.passing)
			}
		})
	}
}

// What a filter says of a node is not remembered when it may depend on pods elsewhere.
func TestFiltersAreAskedAgainWhilePodsKeepOthersAway(t *testing.T) {
	s := newScreener(t, testPod("repelling", onNodeNamed("n5"), func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{}},
		}}}
	}))
	for range 2 {
		if passing, asked := s.screen(); asked != 6 || len(passing) != 5 {
			t.Errorf("%d nodes were asked for and %v pass, want 6 and all but n5", asked, passing)
		}
	}
}

// Whatever happens to nodes between plans, what is remembered is what the filters would
// say.
func TestWhatIsRememberedOfFiltersIsWhatTheyWouldSay(t *testing.T) {
	s := newScreener(t)
	serial := 0
	rapid.Check(t, func(r *rapid.T) {
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			name := fmt.Sprintf("n%d", rapid.IntRange(0, 5).Draw(r, "node"))
			info := s.node(name).(*framework.NodeInfo)
			switch rapid.SampledFrom([]string{"add", "remove", "cordon", "taint", "plan"}).Draw(r, "what") {
			case "add":
				serial++
				s.fill(name, testPod(fmt.Sprintf("there-%d", serial), requesting(0, map[v1.ResourceName]string{v1.ResourceCPU: rapid.SampledFrom([]string{"1", "12", "30"}).Draw(r, "cpu")})))
			case "remove":
				if pods := info.GetPods(); len(pods) > 0 {
					must(t, info.RemovePod(klog.Background(), pods[0].GetPod()))
				}
			case "cordon":
				node := info.Node().DeepCopy()
				node.Spec.Unschedulable = !node.Spec.Unschedulable
				info.SetNode(node)
			case "taint":
				node := info.Node().DeepCopy()
				node.Spec.Taints = nil
				if rapid.Bool().Draw(r, "tainted") {
					node.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}}
				}
				info.SetNode(node)
			case "plan":
				s.screen()
			}
		}
		remembered, _ := s.screen()
		reads := s.pl.screens.reads
		s.pl.screens.reads = false
		asked, _ := s.screen()
		s.pl.screens.reads = reads
		if !slices.Equal(remembered, asked) {
			r.Errorf("remembered: %v pass, asked: %v", remembered, asked)
		}
	})
}
