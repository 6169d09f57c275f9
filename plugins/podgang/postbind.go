// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// PostBind reports that a member is bound, and the placement score that its gang has
// with one that joined.
func (pl *Plugin) PostBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	ticket := ticketOf(state)
	if ticket == nil {
		pl.bystanders.ended(pod)
		if data, err := state.Read(joinKey); err == nil {
			if j, ok := data.(joined); ok {
				pl.reports.Scored(j.key, j.score)
			}
		}
		return
	}
	gangresources.Bound(state)
	pl.apply(ctx, pl.index.Bound(ticket))
}
