// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Family names the gangs that are one replica of a PodCliqueSet: a base gang and
// those that scale it.
type Family struct {
	Namespace, PodCliqueSet, Replica string
}

// familyOf returns the family that the labels of a pod name, zero if they name none.
func familyOf(pod *v1.Pod) Family {
	f := Family{
		Namespace:    pod.Namespace,
		PodCliqueSet: pod.Labels[v1alpha1.LabelPartOf],
		Replica:      pod.Labels[v1alpha1.LabelPodCliqueSetReplicaIndex],
	}
	if f.PodCliqueSet == "" || f.Replica == "" {
		return Family{}
	}
	return f
}

// joinFamily files the gang under the family of a new member.
func (i *Index) joinFamily(g *gang, pod *v1.Pod) {
	family := familyOf(pod)
	if family == (Family{}) || family == g.family {
		return
	}
	i.leaveFamily(g)
	g.family = family
	if i.families[family] == nil {
		i.families[family] = sets.New[Key]()
	}
	i.families[family].Insert(g.key)
}

func (i *Index) leaveFamily(g *gang) {
	gangs := i.families[g.family]
	gangs.Delete(g.key)
	if gangs.Len() == 0 {
		delete(i.families, g.family)
	}
	g.family = Family{}
}

// Sibling is another gang of the same family.
type Sibling struct {
	Key Key
	// Bound are its members that have a place, Waiting those that are still to get
	// one, gated ones included. Both by name.
	Bound   []Bound
	Waiting []*v1.Pod
}

// Siblings returns the other gangs of the gang's family, by name.
func (i *Index) Siblings(key Key) []Sibling {
	i.mu.RLock()
	defer i.mu.RUnlock()
	g := i.gangs[key]
	if g == nil || g.family == (Family{}) {
		return nil
	}
	others := i.families[g.family].Clone().Delete(key).UnsortedList()
	slices.SortFunc(others, func(a, b Key) int { return cmp.Compare(a.Name, b.Name) })
	siblings := make([]Sibling, 0, len(others))
	for _, other := range others {
		sibling := Sibling{Key: other}
		members := i.gangs[other].members
		for _, name := range sortedNames(members) {
			m := members[name]
			state, _ := m.stateOf(i.schedulerName)
			if node := i.placeOf(m); node != "" {
				sibling.Bound = append(sibling.Bound, Bound{Pod: m.pod, Node: node})
			} else if state == statePending || state == stateHeld {
				sibling.Waiting = append(sibling.Waiting, m.pod)
			}
		}
		siblings = append(siblings, sibling)
	}
	return siblings
}
