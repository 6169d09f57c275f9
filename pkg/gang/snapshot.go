// SPDX-License-Identifier: Apache-2.0

package gang

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Snapshot is a gang as a plan sees it.
type Snapshot struct {
	Key Key
	// Object is the PodGang.
	Object *v1alpha1.PodGang
	Groups []GroupSnapshot
}

// GroupSnapshot is one group of a gang.
type GroupSnapshot struct {
	Name  string
	Floor int
	// Bound are the members that have a node, or a place in an attempt under way, by
	// name.
	Bound []Bound
	// Floors are the pending members that are to be placed together, and Extras
	// the pending members beyond the floor, both by name.
	Floors, Extras []*v1.Pod
}

// Bound is a member and its node. The pod itself may not show the node yet.
type Bound struct {
	Pod  *v1.Pod
	Node string
}

// Snapshot returns the gang for planning, with the given leader among the floor
// of its group. ok is false when the gang is not ready any more.
func (i *Index) Snapshot(key Key, leader types.UID) (snapshot Snapshot, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangs[key]
	if g == nil || g.attempt != nil || g.held || i.countOf(g).blocked != "" || !i.canLead(g, leader) {
		return Snapshot{}, false
	}
	snapshot = i.snapshotOf(g)
	t := i.countOf(g)
	for _, name := range sortedNames(g.members) {
		group, listed := g.groupOf[name]
		if !listed {
			continue
		}
		m, s := g.members[name], &snapshot.Groups[group]
		if state, _ := m.stateOf(i.schedulerName); state != statePending {
			continue
		}
		if m.pod.UID == leader {
			s.Floors = append([]*v1.Pod{m.pod}, s.Floors...)
		} else {
			s.Floors = append(s.Floors, m.pod)
		}
	}
	for n := range snapshot.Groups {
		s := &snapshot.Groups[n]
		need := min(t.groups[n].need(), len(s.Floors))
		s.Floors, s.Extras = s.Floors[:need:need], s.Floors[need:]
	}
	return snapshot, true
}

// JoinSnapshot returns the gang for placing one more member of it, which is then
// the only one that is pending. ok is false when the pod does not join a gang that
// has its floors.
func (i *Index) JoinSnapshot(pod *v1.Pod) (snapshot Snapshot, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.members[podKey(pod)]
	if m == nil || m.pod.UID != pod.UID {
		return Snapshot{}, false
	}
	g := m.gang
	group, listed := g.groupOf[pod.Name]
	if t := i.countOf(g); t.blocked != "" || !listed || !t.satisfied() {
		return Snapshot{}, false
	}
	snapshot = i.snapshotOf(g)
	snapshot.Groups[group].Extras = []*v1.Pod{m.pod}
	return snapshot, true
}

// snapshotOf returns the gang with the members that have a place.
func (i *Index) snapshotOf(g *gang) Snapshot {
	snapshot := Snapshot{Key: g.key, Object: g.object}
	for _, group := range i.countOf(g).groups {
		snapshot.Groups = append(snapshot.Groups, GroupSnapshot{Name: group.name, Floor: group.floor})
	}
	for _, name := range sortedNames(g.members) {
		group, listed := g.groupOf[name]
		if !listed {
			continue
		}
		if node := i.placeOf(g.members[name]); node != "" {
			s := &snapshot.Groups[group]
			s.Bound = append(s.Bound, Bound{Pod: g.members[name].pod, Node: node})
		}
	}
	return snapshot
}

// placeOf returns the node of a member that counts: the one it is bound to, or that
// an attempt under way has for it. "" if it has none.
func (i *Index) placeOf(m *member) string {
	switch state, _ := m.stateOf(i.schedulerName); state {
	case stateGone:
		return ""
	case stateBound:
		if m.pod.Spec.NodeName != "" {
			return m.pod.Spec.NodeName
		}
		return m.boundTo
	case stateHeld, statePending:
	}
	if p := m.gang.attempt.placeOf(m.pod.UID); p != nil {
		return p.node
	}
	return ""
}
