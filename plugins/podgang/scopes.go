// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/placement"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// constraint is one wish of a PodGang for where a part of it lies.
type constraint struct {
	// name is for refusals.
	name string
	// groups are the groups that it is about, nil for all. Where domain is set, it is
	// about those of their members that have a channel of that ComputeDomain.
	groups []string
	domain string
	// required is a label key, preferred are label keys, the first to be tried first.
	required  string
	preferred []string
	// asked is the preferred key that the PodGang names.
	asked string
}

// concerns reports whether the constraint is about a class.
func (c *constraint) concerns(of *class) bool {
	return c.concernsGroup(of.group) && (c.domain == "" || c.domain == of.demand.domain)
}

func (c *constraint) concernsGroup(group string) bool {
	return c.groups == nil || slices.Contains(c.groups, group)
}

// speaksOf reports whether the constraint names a level.
func (c *constraint) speaksOf(key string) bool {
	return c.required == key || c.asked == key
}

// constraintsOf returns the constraints of a PodGang, the wider before the narrower.
func constraintsOf(spec *v1alpha1.PodGangSpec, order topology.Order) []constraint {
	var constraints []constraint
	add := func(name string, groups []string, tc *v1alpha1.TopologyConstraint) {
		if tc == nil || tc.PackConstraint == nil {
			return
		}
		c := constraint{name: name, groups: groups}
		if required := tc.PackConstraint.Required; required != nil {
			c.required = *required
		}
		if preferred := tc.PackConstraint.Preferred; preferred != nil {
			c.asked = *preferred
			c.preferred = order.From(*preferred, c.required)
		}
		if c.required != "" || len(c.preferred) > 0 {
			constraints = append(constraints, c)
		}
	}
	add("the gang", nil, spec.TopologyConstraint)
	for i := range spec.TopologyConstraintGroupConfigs {
		config := &spec.TopologyConstraintGroupConfigs[i]
		groups := append([]string{}, config.PodGroupNames...)
		add("group config "+config.Name, groups, config.TopologyConstraint)
	}
	for i := range spec.PodGroups {
		group := &spec.PodGroups[i]
		add("group "+group.Name, []string{group.Name}, group.TopologyConstraint)
	}
	return constraints
}

// unitOf names the part of the gang that a pod of the group belongs to for the score:
// the group config, else the replica of the scaling group, else the group.
func unitOf(spec *v1alpha1.PodGangSpec, group string, labels map[string]string) string {
	for i := range spec.TopologyConstraintGroupConfigs {
		if config := &spec.TopologyConstraintGroupConfigs[i]; slices.Contains(config.PodGroupNames, group) {
			return "config/" + config.Name
		}
	}
	if set := labels[v1alpha1.LabelPodCliqueScalingGroup]; set != "" {
		return "replica/" + set + "/" + labels[v1alpha1.LabelPodCliqueScalingGroupReplicaIndex]
	}
	return "group/" + group
}

// domainConstraint returns the constraint of the members that have a channel of one
// ComputeDomain. ok is false when the PodGang itself says where each of them has to
// be as far as NVLink domains go.
func domainConstraint(policy config.ComputeDomainPlacement, domain string, groups []string, given []constraint) (c constraint, ok bool) {
	spokenFor := func(group string) bool {
		return slices.ContainsFunc(given, func(c constraint) bool {
			return c.concernsGroup(group) && c.speaksOf(topology.NVLinkKey)
		})
	}
	if !slices.ContainsFunc(groups, func(group string) bool { return !spokenFor(group) }) {
		return constraint{}, false
	}
	c = constraint{name: "ComputeDomain " + domain, groups: groups, domain: domain}
	if policy == config.ComputeDomainPreferred {
		c.preferred = []string{topology.NVLinkKey}
	} else {
		c.required = topology.NVLinkKey
	}
	return c, true
}

// scope turns a constraint into one of the search.
func (c *constraint) scope(index *topology.Index) placement.Scope {
	s := placement.Scope{Name: c.name}
	if c.required != "" {
		s.Required = index.Level(c.required)
	}
	for _, key := range c.preferred {
		s.Preferred = append(s.Preferred, index.Level(key))
	}
	return s
}
