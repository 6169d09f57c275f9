// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// Less orders the scheduling queue: by priority, then gangs bound below their
// floor, then floors and pods in no gang, then extras, each by age. Pods in no
// gang are ordered among each other as in-tree, by priority and time of queueing.
func (pl *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	c := pl.sortKey(a).Compare(pl.sortKey(b))
	if c != 0 {
		return c < 0
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// sortKey returns the key of a queued pod. Anything that is not a pod, such as an
// upstream pod group, counts as a pod in no gang.
func (pl *Plugin) sortKey(entity fwk.QueuedEntityInfo) gang.SortKey {
	if info, ok := entity.(*framework.QueuedPodInfo); ok && info.PodInfo != nil && info.Pod != nil {
		if key, member := pl.index.SortKey(info.Pod); member {
			key.Priority = pl.priorityOf(key.PriorityClass, info.Pod)
			return key
		}
	}
	return gang.SortKey{Priority: entity.GetPriority(), Rank: gang.RankFloor, Since: entity.GetTimestamp()}
}

// priorityOf returns the priority of a gang's member: that of the gang's class,
// or the pod's own if the gang names none. A class that does not exist (yet)
// counts as none.
func (pl *Plugin) priorityOf(class string, pod *v1.Pod) int32 {
	if class != "" {
		if pc, err := pl.priorityClasses.Get(class); err == nil {
			return pc.Value
		}
	}
	return corev1.PodPriority(pod)
}
