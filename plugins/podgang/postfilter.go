// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// PostFilter ends the attempt of a planned member that its node refuses, and
// keeps the plugins after it from evicting pods so that a member fits alone. For
// a pod in no gang the other plugins go on.
func (pl *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	ticket := ticketOf(state)
	if ticket != nil {
		reason := nodes.Get(ticket.Node).Message()
		pl.apply(ctx, pl.index.Leave(ticket, gang.CauseRefused, "pod "+pod.Name+" does not fit on planned node "+ticket.Node+": "+reason))
	} else if pl.index.Attempts() || pl.bystanders.anyPlaced() {
		pl.bystanders.add(pod)
	}
	if key, member := pl.index.GangOf(pod); member {
		if ticket == nil {
			pl.reclaims.refusedAlone(key, pod.UID)
		}
		// A nomination from an earlier attempt would count against the next plan.
		return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}
