// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// keepKey is where the cycle state of a pod has the keep that shuts it out.
const keepKey fwk.StateKey = Name + "/keep"

type keepState struct{ *keep }

func (s keepState) Clone() fwk.StateData { return s }

// meetKeep is the part of PreFilter that Filter needs: it notes which nodes are closed
// to the pod. Filter is skipped when there are none.
func (pl *Plugin) meetKeep(state fwk.CycleState, pod *v1.Pod) *fwk.Status {
	for {
		k := pl.keeps.current.Load()
		if k == nil || !pl.comesAfter(pod, k) {
			return fwk.NewStatus(fwk.Skip)
		}
		if !gangresources.IsPlanning(state) {
			// It is to be called when the nodes are open again. Gangs are in a book of
			// their own.
			pl.bystanders.add(pod)
		}
		if pl.keeps.current.Load() == k {
			state.Write(keepKey, keepState{k})
			return nil
		}
	}
}

// Filter keeps a pod from nodes that are kept for a gang which comes before it.
func (pl *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(keepKey)
	if err != nil {
		return nil
	}
	k, ok := data.(keepState)
	if !ok || !k.nodes.Has(node.Node().Name) || pod.Status.NominatedNodeName == node.Node().Name {
		// Room that was made for the pod by evicting others stays its own.
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, k.reason)
}

// comesAfter reports whether the nodes of a keep are closed to the pod.
func (pl *Plugin) comesAfter(pod *v1.Pod, k *keep) bool {
	if key, member := pl.index.GangOf(pod); member && key == k.key {
		return false
	}
	return !belongsToNode(pod) && pl.turnKey(pod).Compare(k.order) > 0
}

// belongsToNode reports whether the pod runs on a node because it is that node, as those
// of DaemonSets do. What runs there already may depend on it.
func belongsToNode(pod *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}
