// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// permitGrace is how much longer than the attempt's own timer a member waits, so
// that it is the attempt that expires, with one reason for all.
const permitGrace = 10 * time.Second

// Permit holds a member until the whole floor of its gang has arrived. The last
// one to arrive lets all go.
func (pl *Plugin) Permit(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	ticket := ticketOf(state)
	if ticket == nil {
		return nil, 0
	}
	arrival := pl.index.Arrive(ticket)
	for _, uid := range arrival.Release {
		if waiting := pl.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(Name)
		}
	}
	switch {
	case arrival.Proceed:
		return nil, 0
	case arrival.Wait:
		return fwk.NewStatus(fwk.Wait), pl.args.PermitTimeout.Duration + permitGrace
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, arrival.Reason), 0
}
