// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// Reserve marks that the member's cycle is under way. What a planned member needs
// was reserved with the plan.
func (pl *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	ticket := ticketOf(state)
	if ticket == nil {
		pl.bystanders.placed(pod)
		pl.apply(ctx, pl.index.Assume(pod, node))
		return nil
	}
	if err := pl.index.Enter(ticket); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	return nil
}

// Unreserve reports that the member will not be bound in this cycle, which
// undoes the attempt of the gang while that is possible. It may run in any
// binding cycle.
func (pl *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	ticket := ticketOf(state)
	if ticket == nil {
		pl.bystanders.ended(pod)
		pl.apply(ctx, pl.index.Forget(pod))
		pl.wakeRefused(klog.FromContext(ctx))
		return
	}
	cause, reason := gang.CauseUnprepared, fmt.Sprintf("pod %s could not be bound to node %s", pod.Name, node)
	if err := gangresources.Failure(state); err != nil {
		reason += ": " + err.Error()
		if _, conflict := errors.AsType[*gangresources.ConflictError](err); conflict {
			cause = gang.CauseConflict
		}
	}
	pl.apply(ctx, pl.index.Leave(ticket, cause, reason))
}
