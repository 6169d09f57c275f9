// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reserve has nothing to do for a planned member: its devices were reserved
// with the plan.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if reservationOf(state) != nil {
		return nil
	}
	return p.DynamicResources.Reserve(ctx, state, pod, nodeName)
}

// Unreserve gives back the devices of a member, in memory and, where PreBind has
// written already, in the API.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) {
	r := reservationOf(state)
	if r == nil {
		p.unreserveAlone(ctx, state, pod, nodeName)
		return
	}
	// The API first: as long as a claim may be allocated there, its devices stay
	// taken in memory. Where the member has not written itself, there is something to
	// clear only if others have entered it as a user of a claim that they share; that
	// may hold up the scheduling cycle, but the member must not be tried again before.
	p.unprepare(ctx, r)
	if !r.prepared.Load() {
		r.withdraw()
		return
	}
	r.release.Do(func() {
		p.DynamicResources.Unreserve(ctx, state, r.pod, r.node)
		p.forget(r)
	})
}

// unreserveAlone gives back what the in-tree plugin has reserved for a pod that is
// placed alone. The plugin (v1.37.2) frees the devices in memory, although the write of
// their allocation may have been carried out and its answer lost; then it takes the pod
// out of the users of its claims in the API, and the next attempt would take it for one
// of them still. So the cache learns what the API has, before and after.
func (p *Plugin) unreserveAlone(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) {
	if _, err := state.Read(preparedKey); err != nil { // PreBind has not begun
		p.DynamicResources.Unreserve(ctx, state, pod, nodeName)
		return
	}
	p.settle(ctx, pod)
	p.DynamicResources.Unreserve(ctx, state, pod, nodeName)
	p.settle(ctx, pod)
}
