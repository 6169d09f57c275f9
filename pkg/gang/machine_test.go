// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// machine drives an Index as the scheduler does, step by step in any order: a
// store of pods whose events are delivered late, a scheduling queue that is
// ahead of them, scheduling cycles, and binding cycles that interleave. It is as
// unhelpful as may be: a pod that was refused comes back only if the Index wakes
// it.
type machine struct {
	index *Index
	store *podStore
	gangs map[string]*v1alpha1.PodGang
	// podEvents and gangEvents are still to be delivered, each in order.
	podEvents, gangEvents []func() Effects
	serial                int

	// queued pods wait for a scheduling cycle, unseen ones for the queue to hear
	// of them. Pods in flight are in a cycle; woken ones are to come back after it.
	queued, unseen, inFlight, woken map[types.UID]*v1.Pod
	// retries are pods to be activated, refused the leaders whose gang did not fit.
	retries []*v1.Pod
	refused map[Key]*v1.Pod

	// permit and binding are members at Permit and after it, open the attempts
	// whose time is running.
	permit, binding map[types.UID]*inCycle
	open            []*plannedAttempt
	// alone are pods in the binding cycle of a pod that is placed by itself.
	alone map[types.UID]*v1.Pod
	// reserved is what the plan has reserved for a pod.
	reserved map[types.UID]*plannedAttempt
	// generous: every plan finds room and nothing fails.
	generous bool
}

type inCycle struct {
	pod      *v1.Pod
	ticket   *Ticket
	attempt  *plannedAttempt
	decided  <-chan struct{}
	prepared bool
}

// plannedAttempt is what the machine itself knows about an attempt.
type plannedAttempt struct {
	attempt         *Attempt
	floor, prepared map[types.UID]bool
}

func newMachine() *machine {
	m := &machine{
		store: newPodStore(), gangs: make(map[string]*v1alpha1.PodGang),
		queued: make(map[types.UID]*v1.Pod), unseen: make(map[types.UID]*v1.Pod),
		inFlight: make(map[types.UID]*v1.Pod), woken: make(map[types.UID]*v1.Pod),
		refused: make(map[Key]*v1.Pod), permit: make(map[types.UID]*inCycle), binding: make(map[types.UID]*inCycle),
		reserved: make(map[types.UID]*plannedAttempt), alone: make(map[types.UID]*v1.Pod),
	}
	m.index = NewIndex(testScheduler, m.store.get)
	return m
}

var (
	machinePods  = []string{"p0", "p1", "p2", "p3", "p4"}
	machineGangs = []string{"g0", "g1"}
)

// current returns the pod as stored, nil if it is gone or was made anew.
func (m *machine) current(pod *v1.Pod) *v1.Pod {
	if now := m.store.get(pod.Namespace, pod.Name); now != nil && now.UID == pod.UID {
		return now
	}
	return nil
}

func (m *machine) nextVersion() string {
	m.serial++
	return fmt.Sprint(m.serial)
}

func (m *machine) putPod(p *v1.Pod) {
	p.ResourceVersion = m.nextVersion()
	m.store.set(p)
	m.podEvents = append(m.podEvents, func() Effects { return m.index.SetPod(p) })
	if m.inFlight[p.UID] == nil {
		m.unseen[p.UID] = p
	}
}

func (m *machine) deletePod(p *v1.Pod) {
	m.store.remove(p)
	m.podEvents = append(m.podEvents, func() Effects { return m.index.DeletePod(p) })
	delete(m.queued, p.UID)
	delete(m.unseen, p.UID)
}

func (m *machine) putGang(pg *v1alpha1.PodGang) {
	pg.ResourceVersion = m.nextVersion()
	m.gangs[pg.Name] = pg
	m.gangEvents = append(m.gangEvents, func() Effects { return m.index.SetGang(pg) })
}

func (m *machine) deleteGang(pg *v1alpha1.PodGang) {
	delete(m.gangs, pg.Name)
	m.gangEvents = append(m.gangEvents, func() Effects {
		delete(m.refused, keyFor(pg.Name))
		return m.index.DeleteGang(pg)
	})
}

// deliver delivers the next event of the queue given, if there is one.
func (m *machine) deliver(t *rapid.T, events *[]func() Effects) {
	if len(*events) == 0 {
		return
	}
	event := (*events)[0]
	*events = (*events)[1:]
	m.apply(t, event())
}

// interleave delivers some events between two steps of a cycle.
func (m *machine) interleave(t *rapid.T) {
	if m.generous {
		return
	}
	for range rapid.IntRange(0, 2).Draw(t, "pod events in between") {
		m.deliver(t, &m.podEvents)
	}
	for range rapid.IntRange(0, 1).Draw(t, "gang events in between") {
		m.deliver(t, &m.gangEvents)
	}
}

// apply carries out effects as the plugin does.
func (m *machine) apply(t *rapid.T, e Effects) {
	for _, undo := range e.Undo {
		for _, member := range undo.Members {
			if !member.Entered {
				member.Release(t.Context())
			} else if c := m.permit[member.Pod.UID]; c != nil {
				delete(m.permit, member.Pod.UID)
				m.unreserve(t, c, "rejected")
				m.endCycle(c.pod)
			}
		}
	}
	for _, leaver := range e.Release {
		leaver.Release(t.Context())
	}
	for _, pod := range e.Activate {
		m.activate(pod)
	}
	for _, retry := range e.Retry {
		m.retries = append(m.retries, retry.Pod)
	}
	if e.Freed || len(e.Release) > 0 {
		m.wakeRefused()
	}
}

func (m *machine) wakeRefused() {
	for _, leader := range m.refused {
		m.activate(leader)
	}
}

// activate has the queue look at a pod, as Activate of the scheduler does: at
// once, or after the cycle that the pod is in.
func (m *machine) activate(pod *v1.Pod) {
	if m.inFlight[pod.UID] != nil {
		m.woken[pod.UID] = pod
		return
	}
	now := m.current(pod)
	if now == nil || now.Spec.NodeName != "" || m.queued[pod.UID] != nil {
		return
	}
	if len(now.Spec.SchedulingGates) > 0 {
		return
	}
	delete(m.unseen, pod.UID)
	if role, _ := m.index.Admit(now); role != RoleWaits {
		m.queued[pod.UID] = now
	}
}

// endCycle is the end of a cycle that did not bind.
func (m *machine) endCycle(pod *v1.Pod) {
	delete(m.inFlight, pod.UID)
	if m.woken[pod.UID] != nil {
		delete(m.woken, pod.UID)
		m.activate(pod)
		return
	}
	if now := m.current(pod); now != nil && now.ResourceVersion != pod.ResourceVersion {
		m.unseen[pod.UID] = now
	}
}

func (m *machine) unreserve(t *rapid.T, c *inCycle, reason string) {
	m.release(c.pod.UID, c.attempt)
	m.apply(t, m.index.Leave(c.ticket, CauseRefused, reason))
}

// release gives back what an attempt has reserved for a pod, if it has not been
// given back before.
func (m *machine) release(uid types.UID, of *plannedAttempt) {
	if m.reserved[uid] == of {
		delete(m.reserved, uid)
	}
}

// placeAlone is the cycle of a pod that is placed alone, up to its binding cycle.
func (m *machine) placeAlone(t *rapid.T, pod *v1.Pod) {
	m.alone[pod.UID] = pod
	m.apply(t, m.index.Assume(pod, "alone"))
}

// bindAlone is the end of the cycle of a pod that is placed alone.
func (m *machine) bindAlone(t *rapid.T, pod *v1.Pod) {
	delete(m.alone, pod.UID)
	if m.fails(t, "the lone Bind") {
		m.apply(t, m.index.Forget(pod))
		// An error, and not a refusal: the queue tries again by itself.
		m.woken[pod.UID] = pod
		m.endCycle(pod)
		return
	}
	delete(m.inFlight, pod.UID)
	delete(m.woken, pod.UID)
	if now := m.current(pod); now != nil && now.Spec.NodeName == "" {
		m.putPod(changed(now, onNode("alone")))
	}
	delete(m.unseen, pod.UID)
}

// fails draws whether a step fails.
func (m *machine) fails(t *rapid.T, step string) bool {
	return !m.generous && rapid.IntRange(0, 4).Draw(t, step+" fails") == 0
}

// cycle is the scheduling cycle of one queued pod.
func (m *machine) cycle(t *rapid.T, pod *v1.Pod) {
	delete(m.queued, pod.UID)
	if now := m.current(pod); now == nil || now.Spec.NodeName != "" || now.DeletionTimestamp != nil {
		return
	}
	m.inFlight[pod.UID] = pod
	role, _ := m.index.RoleOf(pod)
	switch role {
	case RoleNone:
		if now := m.current(pod); now != nil && now.Labels[v1alpha1.LabelPodGang] != "" && pod.Labels[v1alpha1.LabelPodGang] != "" {
			t.Fatalf("pod %s, labelled for gang %s, is scheduled as a pod in no gang", pod.Name, now.Labels[v1alpha1.LabelPodGang])
		}
		m.placeAlone(t, pod)
		return
	case RoleJoins:
		m.placeAlone(t, pod)
		return
	case RoleWaits:
		m.endCycle(pod)
		return
	case RoleLeads:
		if !m.plan(t, pod) {
			m.endCycle(pod)
			return
		}
	case RolePlanned:
	}
	m.planned(t, pod)
}

// plan plans the gang of a leader and reports whether it has begun an attempt.
func (m *machine) plan(t *rapid.T, leader *v1.Pod) bool {
	key, _ := m.index.GangOf(leader)
	snapshot, ok := m.index.Snapshot(key, leader.UID)
	if !ok {
		return false
	}
	if m.fails(t, "the plan") {
		m.refused[key] = leader
		return false
	}
	p := &plannedAttempt{floor: make(map[types.UID]bool), prepared: make(map[types.UID]bool)}
	var placements []Placement
	for _, group := range snapshot.Groups {
		if len(group.Bound)+len(group.Floors) < group.Floor {
			t.Fatalf("the snapshot of gang %s has %d bound and %d floor members for a floor of %d", key, len(group.Bound), len(group.Floors), group.Floor)
		}
		for _, pod := range group.Floors {
			if m.held(t, pod) {
				m.refused[key] = leader
				return false
			}
			placements = append(placements, Placement{Pod: pod, Node: "planned", Floor: true})
			p.floor[pod.UID] = true
		}
		for _, pod := range group.Extras {
			if !m.held(t, pod) && (m.generous || rapid.Bool().Draw(t, "room for an extra")) {
				placements = append(placements, Placement{Pod: pod, Node: "planned"})
			}
		}
	}
	if !p.floor[leader.UID] {
		t.Fatalf("the leader %s is not in the floor of its own plan", leader.Name)
	}
	delete(m.refused, key)
	m.interleave(t)
	for n := range placements {
		uid := placements[n].Pod.UID
		if m.reserved[uid] != nil {
			t.Fatalf("pod %s is reserved a second time", placements[n].Pod.Name)
		}
		m.reserved[uid] = p
		placements[n].Release = func(context.Context) { m.release(uid, p) }
	}
	attempt, err := m.index.Begin(key, placements)
	if err != nil {
		for _, placement := range placements {
			placement.Release(t.Context())
		}
		// An error, and not a refusal: the queue tries again by itself.
		m.woken[leader.UID] = leader
		return false
	}
	p.attempt = attempt
	m.open = append(m.open, p)
	for _, placement := range placements {
		if placement.Pod.UID != leader.UID {
			m.activate(placement.Pod)
		}
	}
	return true
}

// held reports whether devices are still reserved for a pod that has moved here
// from a gang whose attempt it has not left yet; its claims cannot be planned.
func (m *machine) held(t *rapid.T, pod *v1.Pod) bool {
	if m.reserved[pod.UID] == nil {
		return false
	}
	if m.inFlight[pod.UID] == nil {
		t.Fatalf("pod %s, whose cycle is over, is to be planned while devices are reserved for it", pod.Name)
	}
	return true
}

// planned is the cycle of a planned member, from its node to Permit.
func (m *machine) planned(t *rapid.T, pod *v1.Pod) {
	ticket := m.index.Ticket(pod)
	if ticket == nil {
		m.endCycle(pod)
		return
	}
	c := &inCycle{pod: pod, ticket: ticket, attempt: m.reserved[pod.UID]}
	if c.attempt == nil || c.attempt.attempt != ticket.attempt {
		t.Fatalf("pod %s has a place and nothing is reserved for it", pod.Name)
	}
	m.interleave(t)
	if m.fails(t, "Filter") {
		m.apply(t, m.index.Leave(ticket, CauseRefused, "does not fit"))
		m.endCycle(pod)
		return
	}
	if m.index.Enter(ticket) != nil {
		m.unreserve(t, c, "undone")
		m.endCycle(pod)
		return
	}
	m.interleave(t)
	arrival := m.index.Arrive(ticket)
	for _, uid := range arrival.Release {
		if waiting := m.permit[uid]; waiting != nil {
			delete(m.permit, uid)
			m.binding[uid] = waiting
		}
	}
	switch {
	case arrival.Proceed:
		m.binding[pod.UID] = c
	case arrival.Wait:
		m.permit[pod.UID] = c
	default:
		m.unreserve(t, c, "undone")
		m.endCycle(pod)
	}
}

// advance does the next step of a binding cycle, and reports whether there was
// one.
func (m *machine) advance(t *rapid.T, c *inCycle) bool {
	fail := func(reason string) {
		delete(m.binding, c.pod.UID)
		m.unreserve(t, c, reason)
		m.endCycle(c.pod)
	}
	if !c.prepared {
		if m.fails(t, "PreBind") {
			fail("PreBind failed")
			return true
		}
		c.prepared = true
		c.attempt.prepared[c.pod.UID] = true
		c.decided = m.index.Prepare(c.ticket)
		return true
	}
	select {
	case <-c.decided:
	default:
		return false
	}
	bind, _ := m.index.Verdict(c.ticket)
	if !bind {
		fail("undone")
		return true
	}
	for uid := range c.attempt.floor {
		if !c.attempt.prepared[uid] {
			t.Fatalf("pod %s may bind before member %s of the floor is prepared", c.pod.Name, uid)
		}
	}
	now := m.current(c.pod)
	if now == nil || now.Spec.NodeName != "" || m.fails(t, "Bind") {
		fail("Bind failed")
		return true
	}
	delete(m.binding, c.pod.UID)
	if m.reserved[c.pod.UID] != c.attempt {
		t.Fatalf("pod %s is bound and nothing is reserved for it", c.pod.Name)
	}
	delete(m.reserved, c.pod.UID)
	m.putPod(changed(now, onNode(c.ticket.Node)))
	delete(m.inFlight, c.pod.UID)
	delete(m.woken, c.pod.UID)
	delete(m.unseen, c.pod.UID)
	m.apply(t, m.index.Bound(c.ticket))
	return true
}

func (m *machine) expire(t *rapid.T, n int) {
	p := m.open[n]
	m.open = slices.Delete(m.open, n, n+1)
	m.apply(t, m.index.Expire(p.attempt, "expired"))
}

// byUID returns the keys in order, so that a draw means the same in each run.
func byUID[V any](of map[types.UID]V) []types.UID {
	return slices.Sorted(maps.Keys(of))
}

// quiesce lets everything end that has begun, without failures and with room for
// all, and checks that nobody was forgotten.
func (m *machine) quiesce(t *rapid.T) {
	m.generous = true
	for step := 0; ; step++ {
		if step > 10000 {
			t.Fatal("the scheduler does not come to rest")
		}
		switch {
		case len(m.podEvents) > 0:
			m.deliver(t, &m.podEvents)
		case len(m.gangEvents) > 0:
			m.deliver(t, &m.gangEvents)
		case len(m.unseen) > 0:
			m.see(byUID(m.unseen)[0])
		case len(m.queued) > 0:
			m.cycle(t, m.queued[byUID(m.queued)[0]])
		case len(m.retries) > 0:
			pod := m.retries[0]
			m.retries = m.retries[1:]
			m.activate(pod)
		case m.advanceAny(t):
		case len(m.alone) > 0:
			m.bindAlone(t, m.alone[byUID(m.alone)[0]])
		case len(m.refused) > 0:
			// Room has come free: the hints wake the leaders that were refused.
			m.wakeRefused()
			m.refused = make(map[Key]*v1.Pod)
		case len(m.open) > 0:
			m.expire(t, 0)
		default:
			m.generous = false
			m.checkAtRest(t)
			return
		}
	}
}

func (m *machine) advanceAny(t *rapid.T) bool {
	for _, uid := range byUID(m.binding) {
		if m.advance(t, m.binding[uid]) {
			return true
		}
	}
	return false
}

// see has the scheduling queue hear of a new version of a pod.
func (m *machine) see(uid types.UID) {
	pod := m.unseen[uid]
	delete(m.unseen, uid)
	m.activate(pod)
}

// checkAtRest checks, from the objects alone, that every pod that could be
// scheduled is.
func (m *machine) checkAtRest(t *rapid.T) {
	if len(m.permit)+len(m.binding)+len(m.inFlight) > 0 {
		t.Fatalf("at rest, %d members wait at Permit, %d are being bound, %d are in flight", len(m.permit), len(m.binding), len(m.inFlight))
	}
	if len(m.reserved) > 0 {
		t.Fatalf("at rest, devices are reserved for %v", byUID(m.reserved))
	}
	for _, name := range machinePods {
		pod := m.store.get(testNamespace, name)
		if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 || pod.Status.Phase != v1.PodPending {
			continue
		}
		gang, belongs := m.gangOf(pod)
		if !belongs {
			t.Fatalf("pod %s is in no gang and was never scheduled", name)
		}
		if pg := m.gangs[gang]; pg != nil && lists(pg, name) && m.ready(pg) {
			role, reason := m.index.RoleOf(pod)
			t.Fatalf("gang %s is ready, there is room, and its pod %s was never scheduled: role %d, %s", gang, name, role, reason)
		}
	}
	m.index.mu.Lock()
	defer m.index.mu.Unlock()
	for key, g := range m.index.gangs {
		if g.attempt != nil {
			t.Fatalf("at rest, gang %s has an attempt in phase %d", key, g.attempt.phase)
		}
		if m.gangs[key.Name] == nil && len(g.members) == 0 {
			t.Fatalf("gang %s has no object and no members, and is kept", key)
		}
	}
}

// gangOf names the gang of a pod by the rules of membership.
func (m *machine) gangOf(pod *v1.Pod) (string, bool) {
	if name := pod.Labels[v1alpha1.LabelPodGang]; name != "" {
		return name, true
	}
	for _, name := range machineGangs {
		if pg := m.gangs[name]; pg != nil && lists(pg, pod.Name) {
			return name, true
		}
	}
	return "", false
}

func lists(pg *v1alpha1.PodGang, pod string) bool {
	for _, group := range pg.Spec.PodGroups {
		for _, ref := range group.PodReferences {
			if ref.Name == pod {
				return true
			}
		}
	}
	return false
}

// ready counts the members of a gang by the rules of floors.
func (m *machine) ready(pg *v1alpha1.PodGang) bool {
	for _, c := range pg.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			return false
		}
	}
	for _, group := range pg.Spec.PodGroups {
		if group.MinReplicas < 0 {
			return false
		}
		present := 0
		for _, ref := range group.PodReferences {
			pod := m.store.get(testNamespace, ref.Name)
			if pod == nil {
				continue
			}
			if gang, _ := m.gangOf(pod); gang != pg.Name {
				continue
			}
			live := pod.DeletionTimestamp == nil && (pod.Status.Phase == v1.PodPending || pod.Status.Phase == v1.PodRunning)
			if live && (pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) == 0) {
				present++
			}
		}
		if present < int(group.MinReplicas) {
			return false
		}
	}
	return true
}

// check holds at all times.
func (m *machine) check(t *rapid.T) {
	m.index.mu.Lock()
	defer m.index.mu.Unlock()
	for key, g := range m.index.gangs {
		if g.object == nil && len(g.members) == 0 && g.attempt == nil && len(m.podEvents) == 0 {
			t.Fatalf("gang %s has no object, members or attempt, and is kept", key)
		}
		for name, member := range g.members {
			if m.index.members[types.NamespacedName{Namespace: key.Namespace, Name: name}] != member || member.gang != g || member.pod.Name != name {
				t.Fatalf("member %s of gang %s is filed wrongly", name, key)
			}
		}
		if g.attempt != nil {
			arrived := 0
			for _, place := range g.attempt.members {
				if place.floor && place.arrived {
					arrived++
				}
			}
			if arrived != g.attempt.arrived {
				t.Fatalf("gang %s counts %d arrived members, and %d have arrived", key, g.attempt.arrived, arrived)
			}
		}
		if g.tally != nil {
			if fresh := m.index.count(g); fresh.blocked != g.tally.blocked || !slices.Equal(fresh.groups, g.tally.groups) {
				t.Fatalf("gang %s: the count %+v is out of date, it is %+v now", key, *g.tally, *fresh)
			}
		}
	}
	for name, member := range m.index.members {
		if member.gang.members[name.Name] != member || m.index.gangs[member.gang.key] != member.gang {
			t.Fatalf("member %s is filed under a gang that does not know it", name)
		}
	}
}
