// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Phase is how far an attempt has come.
type Phase int

const (
	// PhaseCollecting: planned and reserved; members come to Permit one by one.
	PhaseCollecting Phase = iota
	// PhasePreparing: the whole floor has come; members write their claims.
	PhasePreparing
	// PhaseBinding: the whole floor is prepared; nothing is undone for all any more.
	PhaseBinding
	// PhaseRolledBack: undone; members that were on their way are leaving.
	PhaseRolledBack
)

// Attempt is one try to place a gang. Guarded by Index.mu, but for decided.
type Attempt struct {
	key     Key
	phase   Phase
	reason  string
	members map[types.UID]*place
	// floor counts the floor members, arrived and prepared those of them that
	// have come to Permit and to Bind.
	floor, arrived, prepared int
	// decided is closed when the attempt reaches PhaseBinding or PhaseRolledBack.
	decided chan struct{}
}

// place is a member's place in an attempt.
type place struct {
	pod   *v1.Pod
	node  string
	floor bool
	// release gives back what the plan has reserved for the member.
	release func(context.Context)
	// entered: the member's cycle has reached Reserve. arrived: it has come to
	// Permit. ended: it was bound, or it has left.
	entered, arrived, ended bool
}

func (p *place) leaver() Leaver {
	return Leaver{Pod: p.pod, Entered: p.entered, Release: p.release}
}

// placeOf returns the pod's place in an attempt that is under way, nil if there
// is none. A nil attempt has no places.
func (a *Attempt) placeOf(pod types.UID) *place {
	if a == nil || a.phase == PhaseRolledBack {
		return nil
	}
	if p := a.members[pod]; p != nil && !p.ended {
		return p
	}
	return nil
}

// isDecided reports whether it is settled that the attempt binds, or that
// it does not.
func (a *Attempt) isDecided() bool {
	return a.phase == PhaseBinding || a.phase == PhaseRolledBack
}

// decide ends the wait of prepared members.
func (a *Attempt) decide(phase Phase, reason string) {
	if a.isDecided() {
		return
	}
	a.phase, a.reason = phase, reason
	close(a.decided)
}

// finished reports whether no member is on its way any more. In an attempt that
// was undone the members that never entered are not.
func (a *Attempt) finished() bool {
	for _, p := range a.members {
		if !p.ended && (p.entered || a.phase != PhaseRolledBack) {
			return false
		}
	}
	return true
}

// Placement is the node planned for a member.
type Placement struct {
	Pod  *v1.Pod
	Node string
	// Floor is false for a member beyond the floor, which is placed with the gang
	// and can neither hold it back nor roll it back.
	Floor bool
	// Release gives back what the plan has reserved for the member, once.
	Release func(context.Context)
}

// Begin starts an attempt with the given plan. It fails when the gang has
// changed since its Snapshot so that the plan would not do.
func (i *Index) Begin(key Key, placements []Placement) (*Attempt, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangs[key]
	if g == nil || g.object == nil {
		return nil, fmt.Errorf("PodGang %s was deleted", key)
	}
	if g.attempt != nil {
		return nil, fmt.Errorf("PodGang %s has an attempt under way", key)
	}
	a := &Attempt{key: key, members: make(map[types.UID]*place, len(placements)), decided: make(chan struct{})}
	for _, p := range placements {
		a.members[p.Pod.UID] = &place{pod: p.Pod, node: p.Node, floor: p.Floor, release: p.Release}
		if p.Floor {
			a.floor++
		}
	}
	g.attempt = a
	if reason := i.attemptBroken(g); reason != "" {
		g.attempt = nil
		return nil, fmt.Errorf("PodGang %s changed while it was planned: %s", key, reason)
	}
	return a, nil
}

// Ticket is a member's claim to its place in one attempt. A scheduling cycle
// takes it once and shows it at every later step, so that what is left of an
// undone attempt cannot be mistaken for a part of the next.
type Ticket struct {
	attempt *Attempt
	pod     *v1.Pod
	// Node is the planned node.
	Node string
	// Floor is false for a member beyond the floor.
	Floor bool
	// Leads is set for the leader of the gang.
	Leads bool
}

// Ticket returns the pod's ticket for the attempt under way, nil if it has no
// place in one.
func (i *Index) Ticket(pod *v1.Pod) *Ticket {
	i.mu.RLock()
	defer i.mu.RUnlock()
	m := i.members[podKey(pod)]
	if m == nil || m.pod.UID != pod.UID {
		return nil
	}
	p := m.gang.attempt.placeOf(pod.UID)
	if p == nil {
		return nil
	}
	return &Ticket{attempt: m.gang.attempt, pod: pod, Node: p.node, Floor: p.floor, Leads: m.gang.leader == pod.UID}
}

// Awaited returns the members of the attempt whose own cycle has not begun.
func (i *Index) Awaited(t *Ticket) []*v1.Pod {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var pods []*v1.Pod
	for uid, p := range t.attempt.members {
		if uid != t.pod.UID && !p.entered && !p.ended {
			pods = append(pods, p.pod)
		}
	}
	return pods
}

// Enter records that the member's cycle has reached Reserve: from now on its
// end is reported by Bound or Leave. It fails when the attempt has been undone.
func (i *Index) Enter(t *Ticket) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := t.attempt.members[t.pod.UID]
	if t.attempt.phase == PhaseRolledBack || p.ended {
		return fmt.Errorf("the plan of PodGang %s was undone: %s", t.attempt.key, t.attempt.reason)
	}
	p.entered = true
	return nil
}

// Arrival is the answer to a member at Permit.
type Arrival struct {
	// Proceed: go on to PreBind. Wait: stay until allowed. Neither: the attempt
	// has been undone; Reason says why.
	Proceed, Wait bool
	Reason        string
	// Release are members that have been waiting and may proceed now.
	Release []types.UID
}

// Arrive records that a member has come to Permit.
func (i *Index) Arrive(t *Ticket) Arrival {
	i.mu.Lock()
	defer i.mu.Unlock()
	a := t.attempt
	p := a.members[t.pod.UID]
	if a.phase == PhaseRolledBack || p.ended {
		return Arrival{Reason: a.reason}
	}
	if !p.arrived {
		p.arrived = true
		if p.floor {
			a.arrived++
		}
	}
	if a.phase != PhaseCollecting {
		return Arrival{Proceed: true}
	}
	if a.arrived < a.floor {
		return Arrival{Wait: true}
	}
	a.phase = PhasePreparing
	arrival := Arrival{Proceed: true}
	for uid, other := range a.members {
		if other.arrived && !other.ended && uid != t.pod.UID {
			arrival.Release = append(arrival.Release, uid)
		}
	}
	return arrival
}

// Prepare records that a member has done all its work before Bind. When the
// returned channel is closed, Verdict says whether it may bind.
func (i *Index) Prepare(t *Ticket) <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	a := t.attempt
	if t.Floor {
		a.prepared++
	}
	if a.phase == PhasePreparing && a.prepared >= a.floor {
		a.decide(PhaseBinding, "")
	}
	return a.decided
}

// Verdict says whether a prepared member may bind now, and if not, why its
// attempt was undone.
func (i *Index) Verdict(t *Ticket) (bind bool, reason string) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return t.attempt.phase == PhaseBinding, t.attempt.reason
}

// Alone reports whether nobody else is placed in the attempt: then giving up its one
// member leaves no gang bound in part that was not so before.
func (i *Index) Alone(t *Ticket) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return len(t.attempt.members) == 1
}

// Bound records that a member has been bound to its node.
func (i *Index) Bound(t *Ticket) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	if m := i.members[podKey(t.pod)]; m != nil && m.pod.UID == t.pod.UID {
		m.boundTo = t.Node
		m.gang.tally = nil
	}
	return i.end(t)
}

// Assume records that a member that is placed alone is on its way to a node, so
// that no plan counts on it meanwhile.
func (i *Index) Assume(pod *v1.Pod, node string) Effects {
	return i.assume(pod, node)
}

// Forget takes Assume back for a member that was not bound.
func (i *Index) Forget(pod *v1.Pod) Effects {
	return i.assume(pod, "")
}

func (i *Index) assume(pod *v1.Pod, node string) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.members[podKey(pod)]
	if m == nil || m.pod.UID != pod.UID || m.boundTo == node {
		return Effects{}
	}
	m.boundTo = node
	m.gang.changed()
	return i.settle(m.gang)
}

// Leave records that a member's cycle ended without binding it. Before
// PhaseBinding that undoes the attempt when the member is one of the floor.
func (i *Index) Leave(t *Ticket, cause Cause, reason string) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	var effects Effects
	a := t.attempt
	switch p := a.members[t.pod.UID]; {
	case p.ended:
	case t.Floor && !a.isDecided():
		if g := i.gangs[a.key]; g != nil && g.attempt == a {
			effects.Undo = append(effects.Undo, i.rollBack(g, cause, reason))
		}
	case !p.entered && a.phase != PhaseRolledBack:
		effects.Release = append(effects.Release, p.leaver())
	}
	effects.merge(i.end(t))
	return effects
}

// end marks the member's part in the attempt as over, and closes the attempt
// after the last one.
func (i *Index) end(t *Ticket) Effects {
	a := t.attempt
	a.members[t.pod.UID].ended = true
	g := i.gangs[a.key]
	if g == nil || g.attempt != a {
		return Effects{}
	}
	return i.closeIfFinished(g)
}

// Expire ends the time that members have to arrive. If the floor is not complete
// the attempt is undone; otherwise members beyond the floor that have not come
// lose their place.
func (i *Index) Expire(a *Attempt, reason string) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangs[a.key]
	if g == nil || g.attempt != a || a.phase == PhaseRolledBack {
		return Effects{}
	}
	var effects Effects
	if a.phase == PhaseCollecting {
		effects.Undo = append(effects.Undo, i.rollBack(g, CauseTimeout, reason))
	} else {
		for _, p := range a.members {
			if !p.floor && !p.entered && !p.ended {
				p.ended = true
				effects.Release = append(effects.Release, p.leaver())
			}
		}
	}
	effects.merge(i.closeIfFinished(g))
	return effects
}

// rollBack decides that the attempt of the gang does not bind.
func (i *Index) rollBack(g *gang, cause Cause, reason string) Rollback {
	a := g.attempt
	a.decide(PhaseRolledBack, reason)
	g.tally = nil
	undo := Rollback{Attempt: a, Key: g.key, Cause: cause, Reason: reason, Members: make([]Leaver, 0, len(a.members))}
	for _, p := range a.members {
		undo.Members = append(undo.Members, p.leaver())
	}
	return undo
}

// closeIfFinished ends the attempt when its last member is through, and works
// out who is to go on.
func (i *Index) closeIfFinished(g *gang) Effects {
	a := g.attempt
	if !a.finished() {
		return Effects{Changed: []Key{g.key}}
	}
	g.attempt = nil
	g.changed()
	if a.phase != PhaseRolledBack {
		g.rollbacks, g.delay = 0, 0
		return i.settle(g)
	}
	g.rollbacks++
	g.delay = retryDelay(g.rollbacks)
	effects := i.settle(g)
	effects.Freed = true
	return effects
}

// Draining reports whether members of an undone attempt are still on their way
// out.
func (i *Index) Draining(a *Attempt) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	g := i.gangs[a.key]
	return g != nil && g.attempt == a
}

// Attempts reports whether any gang has an attempt under way.
func (i *Index) Attempts() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, g := range i.gangs {
		if g.attempt != nil {
			return true
		}
	}
	return false
}
