// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/inflight"
	"github.com/podgang/podgang-scheduler/pkg/report"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// ticketKey is where a member's cycle state holds its ticket.
const ticketKey fwk.StateKey = Name + "/ticket"

type ticketState struct{ *gang.Ticket }

func (t ticketState) Clone() fwk.StateData { return t }

// ticketOf returns the ticket that the pod's cycle has taken, nil if it has none.
func ticketOf(state fwk.CycleState) *gang.Ticket {
	data, err := state.Read(ticketKey)
	if err != nil {
		return nil
	}
	t, _ := data.(ticketState)
	return t.Ticket
}

// PreFilter confines a planned member to its node. For the leader of a gang it
// makes the plan first. It comes before the PreFilter of all other plugins, so
// that a gang fails with its own reason and not with the leader's.
func (pl *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if gangresources.IsPlanning(state) {
		return nil, pl.meetKeep(state, pod)
	}
	pl.reclaims.begins(pod.UID)
	role, reason := pl.index.RoleOf(pod)
	if role == gang.RoleNone || role == gang.RoleJoins || role == gang.RoleLeads {
		if status := pl.givesWay(ctx, pod); status != nil {
			return nil, status
		}
	}
	switch role {
	case gang.RoleNone:
		return nil, pl.meetKeep(state, pod)
	case gang.RoleJoins:
		if key, _ := pl.index.GangOf(pod); pl.yields(klog.FromContext(ctx), key, pod) {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "gives way to the floor of another gang for a moment")
		}
		result, status := pl.join(ctx, state, pod)
		if status.IsSkip() {
			status = pl.meetKeep(state, pod)
		}
		return result, status
	case gang.RoleWaits:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	case gang.RoleLeads:
		if status := pl.lead(ctx, pod); !status.IsSuccess() {
			return nil, status
		}
	case gang.RolePlanned:
	}
	ticket := pl.index.Ticket(pod)
	if ticket == nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the plan of its gang was undone")
	}
	state.Write(ticketKey, ticketState{ticket})
	if ticket.Leads {
		pl.letIn(state, pl.index.Awaited(ticket))
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(ticket.Node)}, nil
}

// PreFilterExtensions returns nil: nodes are planned, not counted.
func (pl *Plugin) PreFilterExtensions() fwk.PreFilterExtensions {
	return nil
}

// lead plans the gang of the leader and starts its attempt.
func (pl *Plugin) lead(ctx context.Context, leader *v1.Pod) *fwk.Status {
	pace(ctx)
	key, _ := pl.index.GangOf(leader)
	snapshot, ok := pl.index.Snapshot(key, leader.UID)
	if !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("PodGang %s is not ready any more", key))
	}
	// In the book from the start: room that comes free during the search, and that
	// the search does not see, wakes the gang as well.
	pl.waits.set(key, leader, nil)
	pl.turns.began(key)
	started := time.Now()
	plan, refusal, err := pl.plan(ctx, snapshot)
	took := time.Since(started)
	pl.reports.ObservePlan(resultOf(refusal, err), took)
	defer func() { pl.activate(klog.FromContext(ctx), pl.turns.ended(key, time.Now(), took)) }()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("plan PodGang %s: %w", key, err))
	}
	if refusal != nil {
		pl.waits.set(key, leader, refusal.blockers)
		pl.reports.Waits(key, refusal.message, refusal.podMessage(leader))
		pl.reclaims.refused(key)
		// It may have ceased to wait meanwhile, and nobody would tell again.
		if pl.forgetSated([]gang.Key{key}) {
			pl.wakeRefused(klog.FromContext(ctx))
		}
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refusal.message)
	}
	if err := pl.begin(ctx, key, plan); err != nil {
		return fwk.AsStatus(err)
	}
	pl.reports.Scored(key, plan.score)
	pl.waits.clear(key)
	pl.openKept(ctx, key)
	return nil
}

// maxPace is how long a plan lets writes of others go first: not so long that what it
// knows of the cluster is old then.
const maxPace = 200 * time.Millisecond

// pace lets the API server catch up before another gang is planned. Plans that run ahead
// of the writes by thousands of members gain nothing, have each further plan go through
// all that is reserved and not written, and keep what they know in memory until then.
func pace(ctx context.Context) {
	easy := inflight.Easy()
	select {
	case <-easy:
		return
	default:
	}
	timer := time.NewTimer(maxPace)
	defer timer.Stop()
	select {
	case <-easy:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// resultOf names the result of a plan for metrics.
func resultOf(refusal *refusal, err error) string {
	switch {
	case err != nil:
		return report.ResultError
	case refusal != nil:
		return report.ResultUnschedulable
	}
	return report.ResultPlanned
}

// letIn has the scheduler activate planned members at the end of the leader's
// cycle.
func (pl *Plugin) letIn(state fwk.CycleState, members []*v1.Pod) {
	data, err := state.Read(framework.PodsToActivateKey)
	if err != nil {
		return
	}
	activate, ok := data.(*framework.PodsToActivate)
	if !ok {
		return
	}
	activate.Lock()
	defer activate.Unlock()
	for _, pod := range members {
		activate.Map[pod.Namespace+"/"+pod.Name] = pod
	}
}
