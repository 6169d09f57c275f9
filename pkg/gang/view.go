// SPDX-License-Identifier: Apache-2.0

package gang

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// View is what a report on a gang needs to know.
type View struct {
	// Object is the PodGang, nil if it does not exist.
	Object *v1alpha1.PodGang
	// Blocked says why the gang cannot be scheduled for now, whatever room there
	// is; "" when it waits for room, or for nothing.
	Blocked string
	// AnyBound: a member is bound. Satisfied: every group has its floor bound.
	// Running: every group has its floor running, and a member is bound.
	AnyBound, Satisfied, Running bool
	// Attempting: an attempt is under way, or its members are on their way out.
	Attempting bool
	// Ours: a member is for this scheduler.
	Ours bool
	// Waiting are the members that wait for this scheduler, by name. Those with a
	// scheduling gate are left out: they do not wait for a scheduler yet.
	Waiting []WaitingPod
}

// WaitingPod is a member that waits.
type WaitingPod struct {
	Pod *v1.Pod
	// Reason is why it waits whatever room there is, "" if it waits for room.
	Reason string
}

// View returns the report on a gang. ok is false for one that has neither a
// PodGang nor members.
func (i *Index) View(key Key) (view View, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangs[key]
	if g == nil {
		return View{}, false
	}
	t := i.countOf(g)
	view = View{Object: g.object, Blocked: t.blocked, Attempting: g.attempt != nil}
	if g.object != nil {
		view.AnyBound = t.anyBound()
		view.Satisfied = t.satisfied()
		view.Running = t.anyBound() && t.allRunning()
	}
	for _, name := range sortedNames(g.members) {
		m := g.members[name]
		if m.pod.Spec.SchedulerName != i.schedulerName {
			continue
		}
		view.Ours = true
		state, _ := m.stateOf(i.schedulerName)
		if (state != statePending && state != stateHeld) || len(m.pod.Spec.SchedulingGates) > 0 {
			continue
		}
		waiting := WaitingPod{Pod: m.pod, Reason: t.blocked}
		if _, listed := g.groupOf[name]; !listed && g.object != nil && len(g.faults) == 0 {
			waiting.Reason = notListed(m.pod, g)
		}
		view.Waiting = append(view.Waiting, waiting)
	}
	return view, true
}
