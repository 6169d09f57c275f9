// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// PreEnqueue lets a pod into the queue when it is in no gang, leads its gang, has
// a planned node, or joins a gang that has its floors. It runs under the queue's
// lock. The index wakes the pods that it keeps out.
func (pl *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	role, reason := pl.index.Admit(pod)
	if role == gang.RoleWaits {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	return nil
}
