// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

// wouldDo reports whether a node would do for the pod if nothing were on it, given
// the answer of the filters. A cordon is taken for something that passes, like a pod:
// the best placement counts on the node.
func wouldDo(pod *v1.Pod, node *v1.Node, status *fwk.Status) bool {
	if status.IsSuccess() {
		return true
	}
	switch status.Plugin() {
	case noderesources.Name, nodeports.Name, nodevolumelimits.CSIName, interpodaffinity.Name, podtopologyspread.Name, Name:
		return true
	case nodeunschedulable.Name:
		// The filters after it have not been asked.
		matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if err != nil || !matches {
			return false
		}
		_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, func(taint *v1.Taint) bool {
			return taint.Key != v1.TaintNodeUnschedulable && (taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute)
		}, true)
		return !untolerated
	}
	return false
}
