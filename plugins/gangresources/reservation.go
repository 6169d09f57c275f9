// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// reservationKey is where a member's cycle state holds its reservation.
const reservationKey fwk.StateKey = Name + "/reservation"

// Reservation holds the devices of one planned member until it is bound or
// released. Release is exact: it happens once, whoever calls it first.
type Reservation struct {
	plugin *Plugin
	pod    *v1.Pod
	node   string
	state  fwk.StateData
	// signals are the allocations that were made visible for it.
	signals []signal
	// shared are the UIDs of the claims that other members of the gang use as well.
	shared []types.UID
	// prepared is set when PreBind has begun to write claims, and failure to why
	// it did not succeed.
	prepared atomic.Bool
	failure  atomic.Pointer[error]
	// group is common to the members that were reserved together.
	group *sharedState

	release sync.Once
}

// sharedState lets members of a gang see each other's pending allocations of a
// claim that they share: the in-tree plugin keeps them in the cycle state of a
// pod group.
type sharedState struct {
	// mu guards cycle once the members are in their binding cycles. Before, it
	// belongs to the session.
	mu    sync.Mutex
	cycle fwk.PodGroupCycleState

	// users are the members that use each claim. Set when the gang is reserved, and
	// read-only since.
	users map[types.UID][]*v1.Pod
	// written is set when a shared claim may have been written for all of them.
	written atomic.Bool
}

// Clone returns the reservation itself: there is one per member.
func (r *Reservation) Clone() fwk.StateData { return r }

// addReservations records what Session.Reserve has made visible.
func (p *Plugin) addReservations(allocations []*Allocation, group *sharedState) []*Reservation {
	group.users = usersOf(allocations)
	reservations := make([]*Reservation, 0, len(allocations))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range allocations {
		r := &Reservation{plugin: p, pod: a.Pod, node: a.Node, state: a.state, signals: a.signals, group: group}
		for _, uid := range a.writable() {
			if len(group.users[uid]) > 1 {
				r.shared = append(r.shared, uid)
			}
		}
		p.reservations[a.Pod.UID] = r
		reservations = append(reservations, r)
	}
	return reservations
}

// reservation returns what is reserved for the pod, or nil.
func (p *Plugin) reservation(pod types.UID) *Reservation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reservations[pod]
}

// forget removes the reservation from the plugin's book, unless a newer one has
// taken its place.
func (p *Plugin) forget(r *Reservation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reservations[r.pod.UID] == r {
		delete(p.reservations, r.pod.UID)
	}
}

// Release gives back the devices of a member that will not be bound, and whose cycle has
// not come to write its claims. It does nothing when they were given back before, or when
// the member is bound.
func (r *Reservation) Release(ctx context.Context) {
	r.withdraw()
	if len(r.shared) > 0 && r.group.written.Load() {
		// Another member has entered this one as a user of a shared claim.
		go r.plugin.unprepare(ctx, r)
	}
}

// withdraw takes back what Session.Reserve has made visible for the member, in memory
// alone. The in-tree Unreserve would also take the pod out of the users of claims that it
// was entered in before this attempt, and the cache would not know.
func (r *Reservation) withdraw() {
	r.release.Do(func() {
		for _, signal := range r.signals {
			r.plugin.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(signal.uid, false)
		}
		r.plugin.forget(r)
	})
}

// Done ends the reservation of a member that is bound: its devices belong to
// its claims in the API now, and there is nothing left to give back.
func (r *Reservation) Done() {
	r.release.Do(func() { r.plugin.forget(r) })
}

// reservationOf returns the reservation that the pod's cycle has adopted, or nil.
func reservationOf(state fwk.CycleState) *Reservation {
	data, err := state.Read(reservationKey)
	if err != nil {
		return nil
	}
	r, _ := data.(*Reservation)
	return r
}

// planningKey marks the cycle state of a plan.
const planningKey fwk.StateKey = Name + "/planning"

type planningMark struct{}

func (m planningMark) Clone() fwk.StateData { return m }

// MarkPlanning marks a cycle state as one of a plan: the plugin then stands
// aside, because the plan allocates through a Session.
func MarkPlanning(state fwk.CycleState) {
	state.Write(planningKey, planningMark{})
}

// IsPlanning reports whether MarkPlanning was called on the state.
func IsPlanning(state fwk.CycleState) bool {
	_, err := state.Read(planningKey)
	return err == nil
}

// Bound ends the reservation of a member that has been bound in this cycle.
func Bound(state fwk.CycleState) {
	if r := reservationOf(state); r != nil {
		r.Done()
	}
}

// Failure returns why the claims of a member could not be prepared in this cycle,
// nil if that is not what ended it.
func Failure(state fwk.CycleState) error {
	if r := reservationOf(state); r != nil {
		if err := r.failure.Load(); err != nil {
			return *err
		}
	}
	return nil
}
