// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Role says what a pod's own scheduling cycle has to do.
type Role int

const (
	// RoleNone: the pod is in no gang.
	RoleNone Role = iota
	// RoleWaits: the pod must not be scheduled now.
	RoleWaits
	// RoleLeads: the pod's cycle plans for the whole gang.
	RoleLeads
	// RolePlanned: a plan has a node for the pod.
	RolePlanned
	// RoleJoins: the gang has its floors, and the pod is placed alone.
	RoleJoins
)

// Admit says whether a pod may enter the scheduling queue, and elects it the
// leader of its gang when the gang is ready and has none. It looks at the pod
// as the informer's store has it, so it does not depend on the order in which
// events are delivered. The reason says why the pod waits.
func (i *Index) Admit(pod *v1.Pod) (Role, string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	current := i.getPod(pod.Namespace, pod.Name)
	if current == nil || current.UID != pod.UID {
		// Deleted: the queue will hear of it in a moment.
		return RoleNone, ""
	}
	// What follows from a pod that is news to the index is settled with its own
	// event, which is still to come: here the queue is locked.
	i.unsettled = append(i.unsettled, i.setPod(current)...)
	return i.roleOf(current)
}

// RoleOf says what a pod's scheduling cycle has to do now. Like Admit it may
// elect the pod leader: a pod that was in the queue already when its gang came to
// need a leader is not asked again at PreEnqueue.
func (i *Index) RoleOf(pod *v1.Pod) (Role, string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.roleOf(pod)
}

func (i *Index) roleOf(pod *v1.Pod) (Role, string) {
	m := i.members[podKey(pod)]
	if m == nil || m.pod.UID != pod.UID {
		if pod.Labels[v1alpha1.LabelPodGang] != "" {
			return RoleWaits, fmt.Sprintf("pod %s is not known as a member of its gang", pod.Name)
		}
		return RoleNone, ""
	}
	g := m.gang
	if g.attempt.placeOf(pod.UID) != nil {
		return RolePlanned, ""
	}
	t := i.countOf(g)
	group, listed := g.groupOf[pod.Name]
	switch {
	case t.blocked != "":
		g.resign(pod.UID)
		return RoleWaits, t.blocked
	case !listed:
		return RoleWaits, notListed(pod, g)
	case t.satisfied() && !g.held:
		return RoleJoins, ""
	case g.attempt != nil:
		return RoleWaits, fmt.Sprintf("waits until the floor of PodGang %s is bound", g.key)
	case g.held:
		return RoleWaits, fmt.Sprintf("claims of PodGang %s are being cleared", g.key)
	case t.groups[group].need() == 0:
		g.resign(pod.UID)
		return RoleWaits, fmt.Sprintf("waits until the floor of PodGang %s is bound", g.key)
	case g.leader == pod.UID:
		return RoleLeads, ""
	case !i.canLead(g, g.leader):
		g.leader = pod.UID
		return RoleLeads, ""
	}
	return RoleWaits, fmt.Sprintf("waits for the plan of PodGang %s", g.key)
}

func notListed(pod *v1.Pod, g *gang) string {
	return fmt.Sprintf("pod %s is not listed in the podReferences of PodGang %s", pod.Name, g.key)
}

// Hold keeps the gang from being planned, and its members from being placed alone,
// until Unhold. It fails while an attempt is under way.
func (i *Index) Hold(key Key) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangs[key]
	if g == nil || g.attempt != nil || g.held {
		return false
	}
	g.held = true
	return true
}

// Unhold takes Hold back.
func (i *Index) Unhold(key Key) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangs[key]
	if g == nil || !g.held {
		return Effects{}
	}
	g.held = false
	g.changed()
	return i.settle(g)
}

// FloorsWaiting returns one pending member of every other gang that has its
// members and not its floors, and that has no attempt under way.
func (i *Index) FloorsWaiting(except Key) []*v1.Pod {
	i.mu.Lock()
	defer i.mu.Unlock()
	var pods []*v1.Pod
	for key, g := range i.gangs {
		if key == except || g.attempt != nil || i.countOf(g).blocked != "" || g.tally.satisfied() {
			continue
		}
		if leader := i.nextLeader(g); leader != nil {
			pods = append(pods, leader)
		}
	}
	return pods
}

// FloorWaits reports whether the gang has its members and not its floors. An attempt
// may be under way.
func (i *Index) FloorWaits(key Key) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangs[key]
	return g != nil && g.object != nil && i.countOf(g).blocked == "" && !g.tally.satisfied()
}

// resign ends the leadership of a pod that cannot lead now.
func (g *gang) resign(uid types.UID) {
	if g.leader == uid {
		g.leader = ""
	}
}

// canLead reports whether the pod of that UID is a pending member of a group
// that lacks members to its floor.
func (i *Index) canLead(g *gang, uid types.UID) bool {
	if uid == "" {
		return false
	}
	t := i.countOf(g)
	for name, m := range g.members {
		if m.pod.UID != uid {
			continue
		}
		group, listed := g.groupOf[name]
		if !listed || t.groups[group].need() == 0 {
			return false
		}
		state, _ := m.stateOf(i.schedulerName)
		return state == statePending
	}
	return false
}
