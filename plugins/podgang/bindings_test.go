// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

func TestOrderOfLevels(t *testing.T) {
	b := newBindingBook([]string{"argument"})
	expect := func(what, binding string, want ...string) {
		t.Helper()
		pg := &v1alpha1.PodGang{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationTopologyName: binding}}}
		if diff := cmp.Diff(topology.Order(want), b.order(pg)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	legacy := bindingKey{clusterTopologies.Resource, legacyBinding}
	expect("no binding", "", "argument")
	expect("a binding that does not exist", "h100", "argument")
	if !b.set(legacy, topology.Order{"zone", "rack"}) || b.set(legacy, topology.Order{"zone", "rack"}) {
		t.Error("the first time is news, and the second is not")
	}
	expect("the only object of the older kind", "", "zone", "rack")
	expect("the same by name", legacyBinding, "zone", "rack")
	expect("a binding that does not exist, beside it", "h100", "argument")
	b.set(bindingKey{topologyBindings.Resource, "h100"}, topology.Order{"block", "host"})
	expect("the binding by name", "h100", "block", "host")
	if !b.set(bindingKey{topologyBindings.Resource, "h100"}, topology.Order{"block"}) {
		t.Error("a change is news")
	}
	b.remove(legacy)
	expect("the older kind is gone", "", "argument")
}

func TestLevelsOfABinding(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
		"metadata": map[string]any{"name": "h100", "resourceVersion": "5", "labels": map[string]any{"a": "b"}},
		"spec": map[string]any{"levels": []any{
			map[string]any{"domain": "zone", "key": "topology.kubernetes.io/zone"},
			map[string]any{"domain": "odd"},
			"odd too",
			map[string]any{"domain": "rack", "key": "topology.kubernetes.io/rack"},
		}, "more": "of it"},
	}}
	slim, err := levelsOnly(u)
	if err != nil {
		t.Fatal(err)
	}
	kept := slim.(*unstructured.Unstructured)
	if kept.GetName() != "h100" || kept.GetResourceVersion() != "5" || len(kept.GetLabels()) != 0 {
		t.Errorf("kept %v", kept.Object)
	}
	if diff := cmp.Diff(topology.Order{"topology.kubernetes.io/zone", "topology.kubernetes.io/rack"}, levelsOf(kept)); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
	if got := levelsOf(&unstructured.Unstructured{Object: map[string]any{"spec": "odd"}}); len(got) != 0 {
		t.Errorf("an odd binding has levels %v", got)
	}
}
