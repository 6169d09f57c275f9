// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// PreFilter hands a planned member the state that its plan has prepared. Any
// other pod goes to the in-tree plugin.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if IsPlanning(state) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	r := p.reservation(pod.UID)
	if r == nil {
		return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
	}
	state.Write(reservationKey, r)
	state.Write(dynamicresources.Name, r.state)
	// Not Skip, even without claims: Filter is to confine the member to its node,
	// also where the scheduler tries a nominated node first.
	return nil, nil
}

// Filter accepts the planned node of a planned member and refuses all others.
// The devices are reserved, so there is nothing to look for.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if IsPlanning(state) {
		return nil
	}
	r := reservationOf(state)
	if r == nil {
		return p.DynamicResources.Filter(ctx, state, pod, node)
	}
	if node.Node().Name != r.node {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("devices are reserved on node %s", r.node))
	}
	return nil
}

// Score has nothing to add for a planned member: it has one node.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if reservationOf(state) != nil {
		return 0, nil
	}
	return p.DynamicResources.Score(ctx, state, pod, node)
}
