// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Resources that say which node label stands for which kind of topology domain. Source:
// operator/api/core/v1alpha1 of github.com/ai-dynamo/grove; the first up to
// v0.1.0-alpha.8, the other later.
var (
	ClusterTopologies       = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "clustertopologies"}
	ClusterTopologyBindings = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "clustertopologybindings"}
)

// TopologyResource is the one of a generation.
func TopologyResource(generation Generation) schema.GroupVersionResource {
	if generation == GenerationA {
		return ClusterTopologies
	}
	return ClusterTopologyBindings
}

// topologyInformer follows the topology of the workload.
func topologyInformer(dyn dynamic.Interface, generation Generation, name string) cache.SharedIndexInformer {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	return dynamicinformer.NewFilteredDynamicInformer(dyn, TopologyResource(generation), metav1.NamespaceAll, 0, cache.Indexers{}, only).Informer()
}

// levels are the label keys of the domains of a topology, by their names.
func levels(topology *unstructured.Unstructured) map[string]string {
	list, _, _ := unstructured.NestedSlice(topology.Object, "spec", "levels") // the schema lets nothing else pass
	keys := map[string]string{}
	for _, entry := range list {
		level, _ := entry.(map[string]any)
		domain, _ := level["domain"].(string)
		keys[domain], _ = level["key"].(string)
	}
	return keys
}

// constraints are the topology constraints of a PodGang, as label keys.
type constraints struct {
	gang   *v1alpha1.TopologyConstraint
	sets   []v1alpha1.TopologyConstraintGroupConfig
	groups map[string]*v1alpha1.TopologyConstraint
	// annotation is the topology that they were translated with, "" if there are none.
	annotation string
}

// constraintsOf translates the constraints of a gang. What names a level that is not
// there is dropped without a word, and so is everything where there is no topology.
func (p *pass) constraintsOf(g *Gang) constraints {
	c := constraints{gang: p.translate(g.Pack), groups: map[string]*v1alpha1.TopologyConstraint{}}
	some := c.gang != nil
	for _, set := range g.Sets {
		if tc := p.translate(set.Pack); tc != nil {
			some = true
			c.sets = append(c.sets, v1alpha1.TopologyConstraintGroupConfig{Name: set.Name, PodGroupNames: set.Groups, TopologyConstraint: tc})
		}
	}
	for _, group := range g.Groups {
		if tc := p.translate(group.Pack); tc != nil {
			some = true
			c.groups[group.Name] = tc
		}
	}
	if some {
		c.annotation = p.Workload.Topology
	}
	return c
}

func (p *pass) translate(pack Pack) *v1alpha1.TopologyConstraint {
	var tc v1alpha1.TopologyPackConstraint
	if key, ok := p.seen.levels[pack.Required]; ok {
		tc.Required = ptr.To(key)
	}
	if key, ok := p.seen.levels[pack.Preferred]; ok {
		tc.Preferred = ptr.To(key)
	}
	if tc == (v1alpha1.TopologyPackConstraint{}) {
		return nil
	}
	return &v1alpha1.TopologyConstraint{PackConstraint: &tc}
}

// are reports whether the PodGang carries these constraints, but for those on its groups.
func (c *constraints) are(pg *v1alpha1.PodGang) bool {
	return equality.Semantic.DeepEqual(c.gang, pg.Spec.TopologyConstraint) &&
		equality.Semantic.DeepEqual(c.sets, pg.Spec.TopologyConstraintGroupConfigs) &&
		c.annotation == pg.Annotations[v1alpha1.AnnotationTopologyName]
}

// patch is the change of a PodGang that makes them so. What is not there is removed.
func (c *constraints) patch() map[string]any {
	var annotation any
	if c.annotation != "" {
		annotation = c.annotation
	}
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationTopologyName: annotation}},
		"spec":     map[string]any{"topologyConstraint": c.gang, "topologyConstraintGroupConfigs": c.sets},
	}
}
