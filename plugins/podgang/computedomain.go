// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// labelComputeDomain is what NVIDIA's driver puts on a node while it is prepared for
// a ComputeDomain: the UID of that. A channel for another one is allocated and then
// cannot be prepared.
const labelComputeDomain = "resource.nvidia.com/computeDomain"

// admitsDomain refuses a node that is prepared for another ComputeDomain than the
// pod's.
func admitsDomain(d *demand, node *v1.Node) *fwk.Status {
	busy := node.Labels[labelComputeDomain]
	if !d.hasDomain() || busy == "" || d.domainUID == "" || busy == d.domainUID {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) were prepared for another ComputeDomain").WithPlugin(Name)
}

// roomForDaemon refuses a node that has no room for the daemon pod that follows the
// first pod with a channel. It does if the daemon is there already.
func (w *world) roomForDaemon(c *class, n int, node fwk.NodeInfo) *fwk.Status {
	if !c.demand.hasDomain() || w.hasDaemon(c, n) {
		return nil
	}
	requests, own := w.pl.args.ComputeDomains.DaemonRequests, c.demand.requests
	if node.GetAllocatable().GetAllowedPodNumber() < len(node.GetPods())+2 {
		return fwk.NewStatus(fwk.Unschedulable, "no room for the daemon pod of a ComputeDomain: Too many pods").WithPlugin(noderesources.Name)
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		quantity, ok := requests[name]
		if !ok {
			continue
		}
		amount := quantity.Value()
		if name == v1.ResourceCPU {
			amount = quantity.MilliValue()
		}
		if amountOf(node.GetAllocatable(), name)-amountOf(node.GetRequested(), name)-requestOf(own, name) < amount {
			return fwk.NewStatus(fwk.Unschedulable, "no room for the daemon pod of a ComputeDomain: Insufficient "+string(name)).WithPlugin(noderesources.Name)
		}
	}
	return nil
}

// hasDaemon reports whether the daemon of the class's ComputeDomain needs no room on
// the node any more: it is there, or room was left for it with another member.
func (w *world) hasDaemon(c *class, n int) bool {
	if uid := w.nodes[n].Node().Labels[labelComputeDomain]; uid != "" && uid == c.demand.domainUID {
		return true
	}
	return w.daemons[n] > 0
}

// addDaemon puts a stand-in for the daemon pod on a node that has got its first
// member with a channel. It returns nil if there is nothing to add.
func (w *world) addDaemon(m *planned, n int, node fwk.NodeInfo) fwk.PodInfo {
	if !m.class.demand.hasDomain() || w.hasDaemon(m.class, n) {
		return nil
	}
	info, err := framework.NewPodInfo(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.pod.Namespace, Name: m.pod.Name + "-daemon", UID: m.pod.UID + "-daemon"},
		Spec: v1.PodSpec{
			NodeName:   node.Node().Name,
			Containers: []v1.Container{{Name: "daemon", Resources: v1.ResourceRequirements{Requests: w.pl.args.ComputeDomains.DaemonRequests}}},
		},
	})
	if err != nil {
		w.fail(err)
		return nil
	}
	w.daemons[n]++
	node.AddPodInfo(info)
	return info
}
