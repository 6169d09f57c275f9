// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// PreBind writes allocation and reservation of the claims to the API.
//
// A claim that members of a gang share is written by the first of them. The
// in-tree plugin refuses it for the others ("got allocated elsewhere"), so they
// look at the claim again and then only add themselves to its users.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	r := reservationOf(state)
	if r != nil {
		r.prepared.Store(true)
	}
	if r == nil || len(r.shared) == 0 {
		return p.DynamicResources.PreBind(ctx, state, pod, nodeName)
	}
	unlock := p.claimLocks.lock(r.shared)
	defer unlock()
	written, err := p.sharedWritten(r)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if written {
		if status := p.adoptWritten(ctx, state, r); !status.IsSuccess() {
			return status
		}
	}
	return p.DynamicResources.PreBind(ctx, state, pod, nodeName)
}

// sharedWritten reports whether another member has written a shared claim of
// this one. It is an error when a shared claim is neither written nor pending
// any more: the gang has been undone, and the devices may be somebody else's.
// The caller holds the locks of the shared claims.
func (p *Plugin) sharedWritten(r *Reservation) (bool, error) {
	claims, err := p.claimsOf(r.pod)
	if err != nil {
		return false, err
	}
	written := false
	for _, claim := range claims {
		switch {
		case !slices.Contains(r.shared, claim.UID):
		case claim.Status.Allocation != nil:
			written = true
		case p.manager.ResourceClaims().GetPendingAllocation(claim.UID) == nil:
			return false, fmt.Errorf("the reservation of shared claim %s/%s was undone", claim.Namespace, claim.Name)
		}
	}
	return written, nil
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
// which some have been written by another member, and replaces the member's
// state by what it finds. Claims not yet written keep their pending allocation,
// which the plugin finds through the state that the gang shares.
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
