// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Effects is what follows from an event, for the caller to carry out without
// the lock of the Index.
type Effects struct {
	// Activate are pods that the scheduling queue is to look at now.
	Activate []*v1.Pod
	// Retry are leaders of gangs whose last attempt was undone, to be looked at
	// after a while.
	Retry []Retry
	// Undo are attempts that have been rolled back.
	Undo []Rollback
	// Release are members beyond the floor that have lost their place before
	// their own cycle began: nobody else gives back what is reserved for them.
	Release []Leaver
	// Freed is set when the last member of an undone attempt has left: what was
	// reserved for it in memory is free again, and no event of the API tells.
	Freed bool
	// Changed are the gangs whose reported state may have changed.
	Changed []Key
}

// Rollback is an attempt that ended without binding.
type Rollback struct {
	Attempt *Attempt
	Key     Key
	Cause   Cause
	Reason  string
	// Members are all planned members.
	Members []Leaver
}

// Cause is the kind of reason for which an attempt was undone.
type Cause string

const (
	// CauseChanged: the gang or one of its members is not what was planned.
	CauseChanged Cause = "changed"
	// CauseRefused: the planned node refuses a member.
	CauseRefused Cause = "refused"
	// CauseUnprepared: a member's claims or volumes could not be prepared.
	CauseUnprepared Cause = "unprepared"
	// CauseConflict: a device of a member was given to another claim as well.
	CauseConflict Cause = "conflict"
	// CauseTimeout: the members did not arrive in time.
	CauseTimeout Cause = "timeout"
)

// Leaver is a member that has lost its place in an attempt.
type Leaver struct {
	Pod *v1.Pod
	// Entered tells that the member's own cycle has reached Reserve, and so gives
	// back by itself what is reserved for it. For one that has not, Release does.
	Entered bool
	Release func(context.Context)
}

// Retry is a pod to be activated after a delay.
type Retry struct {
	Pod   *v1.Pod
	Delay time.Duration
}

// Delays between the attempts of a gang that keep being undone: none for the
// first, then from min, doubled each time, up to max.
const (
	minRetryDelay = time.Second
	maxRetryDelay = 10 * time.Second
)

func retryDelay(rollbacks int) time.Duration {
	if rollbacks <= 1 {
		return 0
	}
	return min(maxRetryDelay, minRetryDelay<<min(rollbacks-2, 8))
}

// merge adds the effects of another event.
func (e *Effects) merge(other Effects) {
	e.Activate = append(e.Activate, other.Activate...)
	e.Retry = append(e.Retry, other.Retry...)
	e.Undo = append(e.Undo, other.Undo...)
	e.Release = append(e.Release, other.Release...)
	e.Changed = append(e.Changed, other.Changed...)
	e.Freed = e.Freed || other.Freed
}

// wake has pods activated, now or after a delay.
func (e *Effects) wake(pods []*v1.Pod, delay time.Duration) {
	if delay == 0 {
		e.Activate = append(e.Activate, pods...)
		return
	}
	for _, pod := range pods {
		e.Retry = append(e.Retry, Retry{Pod: pod, Delay: delay})
	}
}

// settle works out what follows from changes in the given gangs.
func (i *Index) settle(gangs ...*gang) Effects {
	effects := Effects{Activate: i.freed}
	gangs = append(gangs, i.unsettled...)
	i.freed, i.unsettled = nil, nil
	done := make(map[Key]bool, len(gangs))
	for _, g := range gangs {
		if g == nil || done[g.key] {
			continue
		}
		done[g.key] = true
		effects.merge(i.settleOne(g))
	}
	return effects
}

func (i *Index) settleOne(g *gang) Effects {
	effects := Effects{Changed: []Key{g.key}}
	g.dirty = false
	if g.attempt != nil {
		if reason := i.attemptBroken(g); reason != "" {
			effects.Undo = append(effects.Undo, i.rollBack(g, CauseChanged, reason))
			effects.merge(i.closeIfFinished(g))
		} else if effects.Release = i.dropLostExtras(g); len(effects.Release) > 0 {
			effects.merge(i.closeIfFinished(g))
		}
	}
	if g.stirred && g.attempt == nil && !g.held {
		g.stirred = false
		effects.wake(i.wakeable(g), g.delay)
		g.delay = 0
	}
	if g.object == nil && len(g.members) == 0 && g.attempt == nil && !g.held {
		i.leaveFamily(g)
		delete(i.gangs, g.key)
	}
	return effects
}

// wakeable returns the members that could proceed: the leader of a gang that is
// ready, or every pending member of one that has its floors.
func (i *Index) wakeable(g *gang) []*v1.Pod {
	t := i.countOf(g)
	switch {
	case t.blocked != "":
		return nil
	case t.satisfied():
		return i.pendingMembers(g, func(*groupTally) bool { return true })
	}
	if leader := i.nextLeader(g); leader != nil {
		return []*v1.Pod{leader}
	}
	return nil
}

// nextLeader returns the leader, or the first member that could be it.
func (i *Index) nextLeader(g *gang) *v1.Pod {
	candidates := i.pendingMembers(g, func(t *groupTally) bool { return t.need() > 0 })
	for _, pod := range candidates {
		if pod.UID == g.leader {
			return pod
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return candidates[0]
}

// attemptBroken says why the attempt under way cannot go on, "" if it can. Once
// members are being bound it always goes on.
func (i *Index) attemptBroken(g *gang) string {
	a := g.attempt
	if a.isDecided() {
		return ""
	}
	if g.object == nil {
		return fmt.Sprintf("PodGang %s was deleted", g.key)
	}
	if len(g.faults) > 0 {
		return fmt.Sprintf("PodGang %s is wrong: %s", g.key, g.faults[0])
	}
	planned := make([]int, len(g.object.Spec.PodGroups))
	for _, p := range a.members {
		if !p.floor {
			continue
		}
		m := g.members[p.pod.Name]
		if m == nil || m.pod.UID != p.pod.UID {
			return fmt.Sprintf("member %s was deleted", p.pod.Name)
		}
		switch state, _ := m.stateOf(i.schedulerName); {
		case state == stateGone:
			return fmt.Sprintf("member %s is finished or being deleted", p.pod.Name)
		case state == stateBound && !p.entered:
			return fmt.Sprintf("member %s was bound to a node by somebody else", p.pod.Name)
		}
		if group, listed := g.groupOf[p.pod.Name]; listed && m.pod.Spec.NodeName == "" && m.boundTo == "" {
			planned[group]++
		}
	}
	t := i.countOf(g)
	for n := range t.groups {
		if have := t.groups[n].bound + planned[n]; have < t.groups[n].floor {
			return fmt.Sprintf("group %s now needs %d members and the plan has %d", t.groups[n].name, t.groups[n].floor, have)
		}
	}
	return ""
}

// dropLostExtras takes members beyond the floor that are gone out of the
// attempt, if their own cycle has not begun; otherwise its end is still to come.
func (i *Index) dropLostExtras(g *gang) []Leaver {
	var lost []Leaver
	for _, p := range g.attempt.members {
		if p.floor || p.entered || p.ended {
			continue
		}
		m := g.members[p.pod.Name]
		gone := m == nil || m.pod.UID != p.pod.UID
		if !gone {
			state, _ := m.stateOf(i.schedulerName)
			gone = state == stateGone
		}
		if gone {
			p.ended = true
			lost = append(lost, p.leaver())
		}
	}
	return lost
}

// Resync returns the members of every gang that could proceed; used when the
// informers have delivered everything that exists, and when something has changed
// that may concern any gang.
func (i *Index) Resync() Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	var effects Effects
	for _, g := range i.gangs {
		g.stirred = true
		effects.merge(i.settleOne(g))
	}
	return effects
}
