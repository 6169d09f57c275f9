// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// GateName is the name of the gate in the registry and in configurations.
const GateName = "PodGangGate"

// Gate keeps the members of gangs out of the scheduling queue until it is their
// turn. It is a plugin of its own because it wants no events: the queue asks the
// plugin that gates a pod at each event that it has registered, for every pod that
// it gates. The index wakes the pods that the gate keeps out.
type Gate struct {
	// findPlugin returns the plugin PodGang of the same profile. It is resolved
	// when the profile is complete.
	findPlugin func() (*Plugin, error)
	index      *gang.Index
}

var (
	_ fwk.PreEnqueuePlugin  = &Gate{}
	_ fwk.EnqueueExtensions = &Gate{}
)

// NewGate builds the gate. findPlugin is called once, when all plugins of the
// profile exist.
func NewGate(findPlugin func() (*Plugin, error)) *Gate {
	return &Gate{findPlugin: findPlugin}
}

// Name returns the name of the plugin.
func (g *Gate) Name() string {
	return GateName
}

// EventsToRegister returns none. The scheduler calls it once, when the profile is
// complete and before any pod is queued.
func (g *Gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	plugin, err := g.findPlugin()
	if err != nil {
		return nil, err
	}
	g.index = plugin.index
	return nil, nil
}

// PreEnqueue lets a pod into the queue when it is in no gang, leads its gang, has
// a planned node, or joins a gang that has its floors. It runs under the queue's
// lock.
func (g *Gate) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	role, reason := g.index.Admit(pod)
	if role == gang.RoleWaits {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	return nil
}
