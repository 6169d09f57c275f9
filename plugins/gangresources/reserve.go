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
		p.DynamicResources.Unreserve(ctx, state, pod, nodeName)
		return
	}
	// The API first: as long as a claim may be allocated there, its devices stay
	// taken in memory.
	p.unprepare(ctx, r)
	r.releaseWith(ctx, state)
}
