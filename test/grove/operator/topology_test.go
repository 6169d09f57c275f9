// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// packed has constraints at every level: of the whole, of a scaling group with a base and
// a scaled replica, and of a clique in each place.
func packed(generation Generation) *world {
	w := newWorld(generation)
	w.Workload.Topology, w.Workload.Pack = "t", Pack{Required: "block", Preferred: "rack"}
	w.Workload.Cliques[0].Pack = Pack{Preferred: "host"}
	w.Workload.ScalingGroups[0].Pack = Pack{Preferred: "rack"}
	w.Workload.ScalingGroups[0].Cliques[0].Pack = Pack{Required: "host"}
	w.desired = newDesired(generation, w.Workload)
	w.gangs = w.desired.gangs()
	w.seen.levels = map[string]string{"block": "b", "rack": "r", "host": "h"}
	return w
}

// wishes describe the constraints of a PodGang: on what, required/preferred.
func wishes(pg *v1alpha1.PodGang) []string {
	var list []string
	add := func(what string, tc *v1alpha1.TopologyConstraint) {
		if tc == nil {
			return
		}
		keys := [2]string{}
		for n, key := range []*string{tc.PackConstraint.Required, tc.PackConstraint.Preferred} {
			if key != nil {
				keys[n] = *key
			}
		}
		list = append(list, fmt.Sprintf("%s: %s/%s", what, keys[0], keys[1]))
	}
	add("gang", pg.Spec.TopologyConstraint)
	for _, set := range pg.Spec.TopologyConstraintGroupConfigs {
		add(set.Name+"="+strings.Join(set.PodGroupNames, "+"), set.TopologyConstraint)
	}
	for _, g := range pg.Spec.PodGroups {
		add(g.Name, g.TopologyConstraint)
	}
	return append(list, slices.Sorted(maps.Values(pg.Annotations))...)
}

func TestWhereConstraintsLand(t *testing.T) {
	base := []string{"gang: b/r", "w-0-sg-0=w-0-sg-0-b: /r", "w-0-a: /h", "w-0-sg-0-b: h/", "t"}
	for generation, scaled := range map[Generation][]string{
		GenerationA: {"gang: /r", "w-0-sg-1-b: h/", "t"},
		GenerationB: {"gang: /r", "w-0-sg-1-b: h/", "t"},
		GenerationC: {"gang: b/r", "w-0-sg-1=w-0-sg-1-b: /r", "w-0-sg-1-b: h/", "t"},
	} {
		t.Run(string(generation), func(t *testing.T) {
			w := packed(generation)
			for n, want := range [][]string{base, scaled} {
				if diff := cmp.Diff(want, wishes(w.newPodGang(&w.gangs[n]))); diff != "" {
					t.Errorf("gang %d (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}

func TestScaledGangHasTheConstraintOfTheWholeIfItsGroupHasNone(t *testing.T) {
	w := packed(GenerationB)
	w.Workload.ScalingGroups[0].Pack = Pack{}
	w.gangs = newDesired(GenerationB, w.Workload).gangs()
	for n, want := range [][]string{{"gang: b/r", "w-0-a: /h", "w-0-sg-0-b: h/", "t"}, {"gang: b/r", "w-0-sg-1-b: h/", "t"}} {
		if diff := cmp.Diff(want, wishes(w.newPodGang(&w.gangs[n]))); diff != "" {
			t.Errorf("gang %d (-want +got):\n%s", n, diff)
		}
	}
}

func TestUnknownDomainsAreDropped(t *testing.T) {
	w := packed(GenerationB)
	w.seen.levels = map[string]string{"rack": "r"}
	want := []string{"gang: /r", "w-0-sg-0=w-0-sg-0-b: /r", "t"}
	if diff := cmp.Diff(want, wishes(w.newPodGang(&w.gangs[0]))); diff != "" {
		t.Errorf("without block and host (-want +got):\n%s", diff)
	}
	w.seen.levels = nil
	if got := wishes(w.newPodGang(&w.gangs[0])); len(got) > 0 {
		t.Errorf("without a topology the PodGang has %q", got)
	}
}

func TestConstraintsFollowTheTopology(t *testing.T) {
	w := packed(GenerationB)
	for n := range w.gangs {
		w.addPods(n)
		w.addGang(n, initialized(true))
	}
	w.ungate("w-0-a-0", "w-0-a-1", "w-0-sg-0-b-0", "w-0-sg-0-b-1")
	w.expect(t, "they are as they should be")
	w.seen.levels = nil
	w.expect(t, "the topology is gone",
		"write [references constraints] of PodGang w-0", "write [references constraints] of PodGang w-0-sg-0")
	c := w.constraintsOf(&w.gangs[0])
	for path, want := range map[string]any{"metadata annotations grove.io/topology-name": nil, "spec topologyConstraint": (*v1alpha1.TopologyConstraint)(nil)} {
		got, found, err := unstructured.NestedFieldNoCopy(c.patch(), strings.Fields(path)...)
		if err != nil || !found || got != want {
			t.Errorf("the patch sets %s to %v (%v, %v), want null", path, got, found, err)
		}
	}
}

func TestLevelsOfATopology(t *testing.T) {
	topology := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"levels": []any{
		map[string]any{"domain": "zone", "key": "z"}, map[string]any{"domain": "rack", "key": "r"},
	}}}}
	if diff := cmp.Diff(map[string]string{"zone": "z", "rack": "r"}, levels(topology)); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
}
