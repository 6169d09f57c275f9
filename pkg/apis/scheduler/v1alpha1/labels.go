// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels that Grove's operator puts on pods, unless said otherwise. Source:
// operator/api/common/labels.go of github.com/ai-dynamo/grove, read at
// v0.1.0-alpha.12-rc1.
const (
	// LabelPodGang names the PodGang that a pod belongs to, in the pod's own
	// namespace. It is set when the pod is created. Gangs written by hand may do
	// without it.
	LabelPodGang = "grove.io/podgang"

	// LabelBasePodGang names the gang that must be scheduled before this pod's
	// scaled gang. It is on pods and PodCliques, not on PodGangs, and only up to
	// v0.1.0-alpha.12-rc1.
	LabelBasePodGang = "grove.io/base-podgang"

	// LabelPodClique names the PodClique of the pod. One PodClique may be spread
	// over several gangs: it does not tell the pod's group.
	LabelPodClique = "grove.io/podclique"

	// LabelPodCliqueScalingGroup names the PodCliqueScalingGroup of the pod, by
	// its full object name. Absent from pods of stand-alone PodCliques.
	LabelPodCliqueScalingGroup = "grove.io/podcliquescalinggroup"

	// LabelPodCliqueScalingGroupReplicaIndex is the replica of the scaling group
	// that the pod belongs to, a decimal number from 0.
	LabelPodCliqueScalingGroupReplicaIndex = "grove.io/podcliquescalinggroup-replica-index"

	// LabelPodCliqueSetReplicaIndex is the replica of the PodCliqueSet that the
	// pod belongs to, a decimal number from 0. Also on PodGangs from
	// v0.1.0-alpha.12 on.
	LabelPodCliqueSetReplicaIndex = "grove.io/podcliqueset-replica-index"

	// LabelPartOf holds the name of the PodCliqueSet, on pods and on PodGangs.
	LabelPartOf = "app.kubernetes.io/part-of"

	// LabelEpoch orders the gangs of one PodCliqueSet replica, on PodGangs from
	// v0.1.0-alpha.12 on. It is an order key, not a time.
	LabelEpoch = "grove.io/epoch"

	// LabelPodGangRole is Anchor, Tail or ScaleOut, on PodGangs from
	// v0.1.0-alpha.12 on. An anchor is scheduled before the others.
	LabelPodGangRole = "grove.io/podgang-role"
)

// Values of LabelPodGangRole.
const (
	PodGangRoleAnchor   = "Anchor"
	PodGangRoleTail     = "Tail"
	PodGangRoleScaleOut = "ScaleOut"
)

// AnnotationTopologyName on a PodGang names the ClusterTopologyBinding that its
// topology constraints were translated with. It is there only when some
// constraint was. Source: as for the labels.
const AnnotationTopologyName = "grove.io/topology-name"

// SchedulingGatePodGangPending is the scheduling gate that Grove's operator puts
// on each pod it creates, and removes once the pod is listed in its gang and the
// gangs that this one depends on are scheduled. Source:
// operator/internal/controller/podclique/components/pod of
// github.com/ai-dynamo/grove, read at v0.1.0-alpha.12-rc1.
const SchedulingGatePodGangPending = "grove.io/podgang-pending-creation"
