// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// preparedKey marks the cycle state of a pod that is placed alone when PreBind begins.
const preparedKey fwk.StateKey = Name + "/prepared"

type preparedMark struct{}

func (m preparedMark) Clone() fwk.StateData { return m }

// PreBind writes allocation and reservation of the claims to the API. Claims that
// members of a gang share are written once for all of them, by the first that
// comes here; the others find themselves among the users. At the end no other
// claim may hold a device of theirs.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	r := reservationOf(state)
	if r == nil {
		state.Write(preparedKey, preparedMark{})
		return p.DynamicResources.PreBind(ctx, state, pod, nodeName)
	}
	r.prepared.Store(true)
	status := p.prepare(ctx, state, r)
	if err := status.AsError(); err != nil {
		r.failure.Store(&err)
	}
	return status
}

func (p *Plugin) prepare(ctx context.Context, state fwk.CycleState, r *Reservation) *fwk.Status {
	if status := p.prepareShared(ctx, state, r); !status.IsSuccess() {
		return status
	}
	if status := p.DynamicResources.PreBind(ctx, state, r.pod, r.node); !status.IsSuccess() {
		return status
	}
	if err := p.exclusive(ctx, r); err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}

// prepareShared writes the claims that the member shares, if no other member has,
// and has the in-tree plugin look at them again: it would refuse a claim that has
// been allocated since the plan ("got allocated elsewhere").
func (p *Plugin) prepareShared(ctx context.Context, state fwk.CycleState, r *Reservation) *fwk.Status {
	if len(r.shared) == 0 {
		return nil
	}
	unlock := p.claimLocks.lock(r.shared)
	defer unlock()
	if err := p.writeShared(ctx, r); err != nil {
		return fwk.AsStatus(err)
	}
	return p.adoptWritten(ctx, state, r)
}

// claimsOf returns the pod's claims as last seen or written.
func (p *Plugin) claimsOf(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	var claims []*resourceapi.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		claim, err := p.manager.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil, err
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// adoptWritten lets the in-tree plugin look again at the claims of a member of
// which some have been written since the plan, and replaces the member's state by
// what it finds. Claims not yet written keep their pending allocation, which the
// plugin finds through the state that the gang shares.
func (p *Plugin) adoptWritten(ctx context.Context, state fwk.CycleState, r *Reservation) *fwk.Status {
	node, err := p.handle.SharedInformerFactory().Core().V1().Nodes().Lister().Get(r.node)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("get node %s: %w", r.node, err))
	}
	nodeInfo := framework.NewNodeInfo()
	nodeInfo.SetNode(node)
	fresh := framework.NewCycleState()
	fresh.SetPodGroupSchedulingCycle(r.group.cycle)
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	if _, status := p.DynamicResources.PreFilter(ctx, fresh, r.pod, nil); !status.IsSuccess() {
		return status
	}
	if status := p.DynamicResources.Filter(ctx, fresh, r.pod, nodeInfo); !status.IsSuccess() {
		return status
	}
	data, err := fresh.Read(dynamicresources.Name)
	if err != nil {
		return fwk.AsStatus(err)
	}
	state.Write(dynamicresources.Name, data)
	return nil
}
