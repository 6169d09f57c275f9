// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// packed is a constraint with keys, "" for none.
func packed(required, preferred string) *v1alpha1.TopologyConstraint {
	pack := &v1alpha1.TopologyPackConstraint{}
	if required != "" {
		pack.Required = ptr.To(required)
	}
	if preferred != "" {
		pack.Preferred = ptr.To(preferred)
	}
	return &v1alpha1.TopologyConstraint{PackConstraint: pack}
}

func TestConstraintsOfAllThreeLevels(t *testing.T) {
	order := topology.Order{"zone", "block", "rack", "host"}
	spec := &v1alpha1.PodGangSpec{
		TopologyConstraint: packed("zone", "rack"),
		TopologyConstraintGroupConfigs: []v1alpha1.TopologyConstraintGroupConfig{
			{Name: "c", PodGroupNames: []string{"a", "b"}, TopologyConstraint: packed("rack", "")},
			{Name: "none", PodGroupNames: []string{"a"}},
		},
		PodGroups: []v1alpha1.PodGroup{
			{Name: "a", TopologyConstraint: packed("", "host")},
			{Name: "b", TopologyConstraint: &v1alpha1.TopologyConstraint{}},
			{Name: "c", TopologyConstraint: packed("rack", "rack")},
			{Name: "d", TopologyConstraint: packed("", "unheard-of")},
		},
	}
	want := []constraint{
		{name: "the gang", required: "zone", asked: "rack", preferred: []string{"rack", "block"}},
		{name: "group config c", groups: []string{"a", "b"}, required: "rack"},
		{name: "group a", groups: []string{"a"}, asked: "host", preferred: []string{"host", "rack", "block", "zone"}},
		{name: "group c", groups: []string{"c"}, required: "rack", asked: "rack"},
		{name: "group d", groups: []string{"d"}, asked: "unheard-of", preferred: []string{"unheard-of"}},
	}
	if diff := cmp.Diff(want, constraintsOf(spec, order), cmp.AllowUnexported(constraint{})); diff != "" {
		t.Errorf("constraints (-want +got):\n%s", diff)
	}
	if got := constraintsOf(&v1alpha1.PodGangSpec{PodGroups: []v1alpha1.PodGroup{{Name: "a"}}}, order); len(got) != 0 {
		t.Errorf("no constraint: got %+v", got)
	}
}

func TestAComputeDomainIsConfinedUnlessThePodGangSpeaksForItsMembers(t *testing.T) {
	const clique = topology.NVLinkKey
	required := constraint{name: "ComputeDomain d", groups: []string{"a", "b"}, domain: "d", required: clique}
	preferred := constraint{name: "ComputeDomain d", groups: []string{"a", "b"}, domain: "d", preferred: []string{clique}}
	for _, tc := range []struct {
		name   string
		policy config.ComputeDomainPlacement
		given  []constraint
		want   *constraint
	}{
		{"nothing is said", config.ComputeDomainRequired, nil, &required},
		{"by preference", config.ComputeDomainPreferred, nil, &preferred},
		{"the gang prefers it", config.ComputeDomainRequired, []constraint{{asked: clique, preferred: []string{clique}}}, nil},
		{"the gang requires it", config.ComputeDomainPreferred, []constraint{{required: clique}}, nil},
		{"both groups say", config.ComputeDomainRequired, []constraint{{groups: []string{"a"}, asked: clique}, {groups: []string{"b"}, required: clique}}, nil},
		{"one group does not say", config.ComputeDomainRequired, []constraint{{groups: []string{"a"}, asked: clique}}, &required},
		{"another level on whose way it lies", config.ComputeDomainRequired, []constraint{{asked: "host", preferred: []string{"host", clique}}}, &required},
	} {
		got, ok := domainConstraint(tc.policy, "d", []string{"a", "b"}, tc.given)
		if ok != (tc.want != nil) {
			t.Errorf("%s: got %+v, %v", tc.name, got, ok)
		} else if ok {
			if diff := cmp.Diff(*tc.want, got, cmp.AllowUnexported(constraint{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
		}
	}
}

func TestAConstraintConcernsClasses(t *testing.T) {
	inDomain := &class{group: "a", demand: &demand{domain: "d"}}
	without := &class{group: "a", demand: &demand{}}
	for _, tc := range []struct {
		c             constraint
		inside, other bool
	}{
		{constraint{}, true, true},
		{constraint{groups: []string{"a"}}, true, true},
		{constraint{groups: []string{"b"}}, false, false},
		{constraint{groups: []string{}}, false, false},
		{constraint{groups: []string{"a"}, domain: "d"}, true, false},
	} {
		if got := tc.c.concerns(inDomain); got != tc.inside {
			t.Errorf("%+v concerns the class with a channel: %v", tc.c, got)
		}
		if got := tc.c.concerns(without); got != tc.other {
			t.Errorf("%+v concerns the class without: %v", tc.c, got)
		}
	}
}

func TestUnitOf(t *testing.T) {
	spec := &v1alpha1.PodGangSpec{TopologyConstraintGroupConfigs: []v1alpha1.TopologyConstraintGroupConfig{{Name: "c", PodGroupNames: []string{"a", "b"}}}}
	scaled := map[string]string{v1alpha1.LabelPodCliqueScalingGroup: "s", v1alpha1.LabelPodCliqueScalingGroupReplicaIndex: "1"}
	for _, tc := range []struct {
		name, group string
		labels      map[string]string
		want        string
	}{
		{"in a group config", "b", scaled, "config/c"},
		{"in a replica of a scaling group", "d", scaled, "replica/s/1"},
		{"in neither", "d", nil, "group/d"},
	} {
		if got := unitOf(spec, tc.group, tc.labels); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}
