// SPDX-License-Identifier: Apache-2.0

package operator

import (
	corev1 "k8s.io/api/core/v1"
)

// Workload says what a PodCliqueSet says.
type Workload struct {
	// Name of the PodCliqueSet.
	Name string
	// Replicas of the whole; 0 is none.
	Replicas int
	// Cliques that stand alone, in the order of the template.
	Cliques []Clique
	// ScalingGroups are cliques that scale together.
	ScalingGroups []ScalingGroup
	// PriorityClassName goes to the PodGangs, not to the pods.
	PriorityClassName string
	// Topology names the ClusterTopologyBinding (generation A: the ClusterTopology) that
	// gives the domains of all Packs their label keys; "" where there are none.
	Topology string
	// Pack is for all pods of each PodGang.
	Pack Pack
}

// Pack says which pods are to share a topology domain, by the name of a level of the
// topology, such as "rack"; "" for none.
type Pack struct {
	Required, Preferred string
}

// Clique is a set of pods of one template.
type Clique struct {
	// Name in the template.
	Name string
	// Replicas is the number of pods; 0 means 1.
	Replicas int
	// MinAvailable is the floor; 0 means all replicas.
	MinAvailable int
	// Spec of the pods. Their scheduling gates are replaced, as Grove does.
	Spec corev1.PodSpec
	// Pack is for the pods of the clique.
	Pack Pack
}

// ScalingGroup is a PodCliqueScalingGroup: cliques of which there are replicas.
type ScalingGroup struct {
	// Name in the template.
	Name string
	// Replicas is the number of sets of its cliques; 0 means 1.
	Replicas int
	// MinAvailable is how many replicas belong to the base gang; each replica beyond
	// is a gang of its own. 0 means 1.
	MinAvailable int
	// Cliques of one replica.
	Cliques []Clique
	// Pack is for the pods of each replica.
	Pack Pack
}

// Generation is a range of Grove's versions that behave alike towards a scheduler.
type Generation string

// Generations of Grove.
const (
	// GenerationA is v0.1.0-alpha.1 to alpha.7: a PodGang comes last and complete, and
	// has no status.
	GenerationA Generation = "A"
	// GenerationB is v0.1.0-alpha.8 to alpha.12-rc1: a PodGang comes first and is filled.
	GenerationB Generation = "B"
	// GenerationC is v0.1.0-alpha.12 and later: as B, with epochs in the names and
	// gates that wait for status.lastScheduled.
	GenerationC Generation = "C"
)

func (w Workload) withDefaults() Workload {
	w.Cliques = cliqueDefaults(w.Cliques)
	groups := make([]ScalingGroup, len(w.ScalingGroups))
	for i, g := range w.ScalingGroups {
		g.Replicas, g.MinAvailable = orElse(g.Replicas, 1), orElse(g.MinAvailable, 1)
		g.Cliques = cliqueDefaults(g.Cliques)
		groups[i] = g
	}
	w.ScalingGroups = groups
	return w
}

func cliqueDefaults(cliques []Clique) []Clique {
	list := make([]Clique, len(cliques))
	for i, c := range cliques {
		c.Replicas = orElse(c.Replicas, 1)
		c.MinAvailable = orElse(c.MinAvailable, c.Replicas)
		list[i] = c
	}
	return list
}

func orElse(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}
