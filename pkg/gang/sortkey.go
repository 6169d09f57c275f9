// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Rank orders pods of one priority before their age does.
type Rank int

const (
	// RankTopUp: members of a gang that is bound below its floor.
	RankTopUp Rank = iota
	// RankFloor: members of a floor, and pods in no gang.
	RankFloor
	// RankExtra: members beyond the floor of their gang.
	RankExtra
)

// SortKey places a pod in the scheduling queue. Keys of pods are totally
// ordered, and members of one gang and rank are adjacent.
type SortKey struct {
	// PriorityClass is the class of the gang, "" if it names none and the pod's
	// own priority counts.
	PriorityClass string
	Priority      int32
	Rank          Rank
	// Since is the age that counts: the creation of the gang, for a scaled gang
	// not before that of its base, or the time when a pod in no gang was queued.
	Since time.Time
	// Scaled gangs come after base gangs of the same second: creation times have
	// a resolution of one second.
	Scaled bool
	// Gang tells gangs of the same age apart: the UID of the PodGang, "" for a pod
	// in no gang.
	Gang string
}

// Compare orders two keys; negative means that a comes first.
func (k SortKey) Compare(other SortKey) int {
	return cmp.Or(
		cmp.Compare(other.Priority, k.Priority),
		cmp.Compare(k.Rank, other.Rank),
		k.Since.Compare(other.Since),
		compareBool(k.Scaled, other.Scaled),
		cmp.Compare(k.Gang, other.Gang),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// SortKey returns the key of a member, without its priority. ok is false for a
// pod that is in no gang, or whose PodGang does not exist.
func (i *Index) SortKey(pod *v1.Pod) (key SortKey, ok bool) {
	// The count of members is cached, so this takes the write lock only when
	// something has changed.
	i.mu.RLock()
	m := i.members[podKey(pod)]
	if m == nil || m.pod.UID != pod.UID || m.gang.object == nil {
		i.mu.RUnlock()
		return SortKey{}, false
	}
	if m.gang.tally != nil {
		defer i.mu.RUnlock()
		return i.sortKeyOf(m), true
	}
	i.mu.RUnlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	m = i.members[podKey(pod)]
	if m == nil || m.pod.UID != pod.UID || m.gang.object == nil {
		return SortKey{}, false
	}
	i.countOf(m.gang)
	return i.sortKeyOf(m), true
}

func (i *Index) sortKeyOf(m *member) SortKey {
	g := m.gang
	key := SortKey{
		PriorityClass: g.object.Spec.PriorityClassName,
		Rank:          RankFloor,
		Since:         g.object.CreationTimestamp.Time,
		Gang:          string(g.object.UID),
	}
	place := g.attempt.placeOf(m.pod.UID)
	switch t := g.tally; {
	case t.satisfied(), place != nil && !place.floor:
		key.Rank = RankExtra
	case t.anyBound():
		key.Rank = RankTopUp
	}
	role := g.object.Labels[v1alpha1.LabelPodGangRole]
	key.Scaled = role != "" && role != v1alpha1.PodGangRoleAnchor
	if base := m.pod.Labels[v1alpha1.LabelBasePodGang]; base != "" {
		key.Scaled = true
		if b := i.gangs[Key{Namespace: m.pod.Namespace, Name: base}]; b != nil && b.object != nil && b.object.CreationTimestamp.After(key.Since) {
			key.Since = b.object.CreationTimestamp.Time
		}
	}
	return key
}
