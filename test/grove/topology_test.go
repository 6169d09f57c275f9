// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/grove/operator"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// Labels of the workers, see testdata/cluster.yaml.
const (
	zoneKey  = "kubernetes.io/zone"
	blockKey = "kubernetes.io/block"
	rackKey  = "kubernetes.io/rack"
)

// groveTopology is the topology of the cluster, with Grove's name for it.
const groveTopology = "grove-topology"

// level is a level of a topology.
type level struct{ domain, key string }

// groveLevels are the levels of the workers, broad to narrow.
var groveLevels = []level{{"zone", zoneKey}, {"block", blockKey}, {"rack", rackKey}, {"host", corev1.LabelHostname}}

// topology makes a topology object of the kind that a generation of Grove has. It goes
// at the end of the scenario.
func (s *scenario) topology(generation operator.Generation, name string, levels ...level) {
	s.t.Helper()
	kind := "ClusterTopologyBinding"
	if operator.TopologyResource(generation) == operator.ClusterTopologies {
		kind = "ClusterTopology"
	}
	list := make([]any, 0, len(levels))
	for _, l := range levels {
		list = append(list, map[string]any{"domain": l.domain, "key": l.key})
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"levels": list}}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "grove.io", Version: "v1alpha1", Kind: kind})
	object.SetName(name)
	_, err := s.c.Dynamic.Resource(operator.TopologyResource(generation)).Create(s.ctx, object, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() { s.deleteTopology(generation, name) })
}

func (s *scenario) deleteTopology(generation operator.Generation, name string) {
	s.t.Helper()
	ctx := context.WithoutCancel(s.ctx) // that of the test may have ended
	err := s.c.Dynamic.Resource(operator.TopologyResource(generation)).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Errorf("cannot delete topology %s: %v", name, err)
	}
}

// relabelled is a label by which a scenario knows that the scheduler has seen others.
const relabelled = "grove.test/relabelled"

// relabel changes labels of nodes from..to-1 for the time of the scenario, and returns
// when the scheduler knows them; a value of nil removes one.
func (s *scenario) relabel(from, to int, labels func(n int) map[string]any) {
	s.t.Helper()
	for n := from; n < to; n++ {
		node, err := s.c.Client.CoreV1().Nodes().Get(s.ctx, nodeName(n), metav1.GetOptions{})
		s.must(err)
		changes, before := labels(n), map[string]any{}
		changes[relabelled] = s.ns
		for key := range changes {
			before[key] = nil
			if old, had := node.Labels[key]; had {
				before[key] = old
			}
		}
		s.must(s.c.label(s.ctx, nodeName(n), changes))
		s.t.Cleanup(func() {
			if err := s.c.label(context.WithoutCancel(s.ctx), nodeName(n), before); err != nil {
				s.t.Errorf("cannot restore the labels of %s: %v", nodeName(n), err)
			}
		})
	}
	// It sees nodes in the order in which they were changed.
	s.isScheduled(s.createPod("relabelled", func(p *corev1.Pod) {
		p.Spec.NodeSelector[relabelled] = s.ns
		onNode(nodeName(to - 1))(p)
	}))
}

// sized makes a clique of pods that ask for so much memory, all of them needed.
func sized(memory, name string, replicas int, pack operator.Pack) operator.Clique {
	c := clique(name, replicas, replicas)
	c.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(memory)
	c.Pack = pack
	return c
}

// required is a constraint that has to hold.
func required(domain string) operator.Pack { return operator.Pack{Required: domain} }

// preferred is a wish.
func preferred(domain string) operator.Pack { return operator.Pack{Preferred: domain} }

// scalingGroupOf makes a scaling group.
func scalingGroupOf(name string, replicas, minAvailable int, pack operator.Pack, cliques ...operator.Clique) operator.ScalingGroup {
	return operator.ScalingGroup{Name: name, Replicas: replicas, MinAvailable: minAvailable, Pack: pack, Cliques: cliques}
}

// nodeLabels are the labels of all nodes.
func (s *scenario) nodeLabels() map[string]map[string]string {
	s.t.Helper()
	nodes, err := s.c.Client.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
	s.must(err)
	labels := map[string]map[string]string{}
	for i := range nodes.Items {
		labels[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	return labels
}

// requiredHolds checks every required constraint of every PodGang on the pods that are
// bound: they are in one domain, on nodes that carry the label.
func (s *scenario) requiredHolds() {
	s.t.Helper()
	labels := s.nodeLabels()
	for _, pg := range s.gangs() {
		groups := map[string][]v1alpha1.NamespacedName{}
		var all []v1alpha1.NamespacedName
		for _, g := range pg.Spec.PodGroups {
			groups[g.Name] = g.PodReferences
			all = append(all, g.PodReferences...)
			s.inOneDomain(labels, pg.Name+"/"+g.Name, g.TopologyConstraint, g.PodReferences)
		}
		for _, set := range pg.Spec.TopologyConstraintGroupConfigs {
			var members []v1alpha1.NamespacedName
			for _, name := range set.PodGroupNames {
				members = append(members, groups[name]...)
			}
			s.inOneDomain(labels, pg.Name+"/"+set.Name, set.TopologyConstraint, members)
		}
		s.inOneDomain(labels, pg.Name, pg.Spec.TopologyConstraint, all)
	}
}

func (s *scenario) inOneDomain(labels map[string]map[string]string, what string, tc *v1alpha1.TopologyConstraint, refs []v1alpha1.NamespacedName) {
	s.t.Helper()
	if tc == nil || tc.PackConstraint.Required == nil {
		return
	}
	var pods []*corev1.Pod
	for _, ref := range refs {
		if pod := observe.Get[*corev1.Pod](s.c.recorder.State, s.ns, ref.Name); pod != nil {
			pods = append(pods, pod)
		}
	}
	key := *tc.PackConstraint.Required
	if found := domains(labels, key, pods); len(found) > 1 || slices.Contains(found, "") {
		s.t.Errorf("%s requires one %s, and is in %q", what, key, found)
	}
}

// domains are the values of a label on the nodes of the pods that are bound, "" where it
// is missing.
func domains(labels map[string]map[string]string, key string, pods []*corev1.Pod) []string {
	found := map[string]bool{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			found[labels[pod.Spec.NodeName][key]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// of are the pods of the PodCliques whose full names start so.
func (s *scenario) of(prefix string) []*corev1.Pod {
	s.t.Helper()
	var pods []*corev1.Pod
	for _, pod := range s.pods() {
		if strings.HasPrefix(pod.Labels[v1alpha1.LabelPodClique]+"-", prefix+"-") {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		s.t.Fatalf("no PodClique is called %s…", prefix)
	}
	return pods
}

// together checks that all pods of the PodCliques whose full names start so are in one
// domain of a key, and returns the domain.
func (s *scenario) together(key, prefix string) string {
	s.t.Helper()
	pods := s.of(prefix)
	found := domains(s.nodeLabels(), key, pods)
	if len(found) != 1 || found[0] == "" {
		s.t.Errorf("the %d pods of %s are in %q, want one %s", len(pods), prefix, found, key)
		return ""
	}
	return found[0]
}

// eachTogether checks that of the PodCliques whose names start so, n in number, each has
// its pods in one domain.
func (s *scenario) eachTogether(key string, n int, prefix string, suffixes ...string) {
	s.t.Helper()
	if len(suffixes) == 0 {
		suffixes = []string{""}
	}
	for i := range n {
		for _, suffix := range suffixes {
			s.together(key, fmt.Sprintf("%s-%d%s", prefix, i, suffix))
		}
	}
}

// constraintsOf describes the constraints of a PodGang: "required/preferred" on the gang,
// and the names of sets and groups that have one.
func constraintsOf(pg *v1alpha1.PodGang) string {
	keys := func(tc *v1alpha1.TopologyConstraint) string {
		if tc == nil {
			return "none"
		}
		text := ""
		if key := tc.PackConstraint.Required; key != nil {
			text = *key
		}
		text += "/"
		if key := tc.PackConstraint.Preferred; key != nil {
			text += *key
		}
		return text
	}
	parts := []string{keys(pg.Spec.TopologyConstraint)}
	for _, set := range pg.Spec.TopologyConstraintGroupConfigs {
		parts = append(parts, set.Name+" "+keys(set.TopologyConstraint))
	}
	for _, g := range pg.Spec.PodGroups {
		if g.TopologyConstraint != nil {
			parts = append(parts, g.Name+" "+keys(g.TopologyConstraint))
		}
	}
	return strings.Join(parts, ", ")
}
