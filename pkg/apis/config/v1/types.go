// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusPolicy says what the scheduler writes to the status of a PodGang.
type StatusPolicy string

const (
	// StatusPolicyFull writes phase (Pending, Starting, Running) and
	// placementScore. The conditions and times that Grove's operator writes are
	// left alone.
	StatusPolicyFull StatusPolicy = "Full"
	// StatusPolicyScoreOnly writes placementScore alone, as Grove's proposal
	// GREP-787 asks of a scheduler. The phase then stays what the operator made
	// it, which in all its versions so far is Pending.
	StatusPolicyScoreOnly StatusPolicy = "ScoreOnly"
)

// PodGangArgs are the arguments of plugin PodGang.
//
// +kubebuilder:object:root=true
type PodGangArgs struct {
	metav1.TypeMeta `json:",inline"`

	// PermitTimeout is how long the first members of a planned gang are held,
	// with their places and devices reserved, while the other members of its
	// floor pass through the scheduler. When it ends, the whole gang is rolled
	// back and tried again.
	//
	// A duration such as 30s or 2m, from 1s to 14m; default 30s. At 1s, a large
	// gang or a slow API server has it rolled back although it fits. At 14m, a
	// member that got stuck keeps the devices of its gang from all others for
	// that long. (The scheduler framework itself ends every wait at 15m.)
	// +optional
	PermitTimeout *metav1.Duration `json:"permitTimeout,omitempty"`

	// StatusPolicy is Full or ScoreOnly; default Full. With Full the phase of a
	// PodGang follows its pods. With ScoreOnly only placementScore is written and
	// the phase is left to Grove's operator, which leaves it at Pending.
	// +optional
	StatusPolicy StatusPolicy `json:"statusPolicy,omitempty"`

	// SearchBudget bounds the search for a gang that does not fit at once although
	// each kind of its pods does: it is the number of placements, one pod on one
	// node, that are tried before the gang is told to wait. A gang that the search
	// was cut short for says so. It bounds the search for devices as well: for one
	// pod on one node 10 looks at a device for each placement in the budget, and for
	// the whole gang 30, beside what takes no time.
	//
	// A number from 100 to 1000000; default 10000, which takes up to about a second.
	// At 100, gangs with several kinds of pods wait on a nearly full cluster
	// although there is a place for them. At 1000000, one such gang can stop all
	// scheduling for minutes.
	// +optional
	SearchBudget *int32 `json:"searchBudget,omitempty"`
}

// PodGangResourcesArgs are the arguments of plugin PodGangResources, which
// stands in for the in-tree plugin DynamicResources. Meaning, defaults and
// limits of the timeouts are those of the in-tree DynamicResourcesArgs.
//
// +kubebuilder:object:root=true
type PodGangResourcesArgs struct {
	metav1.TypeMeta `json:",inline"`

	// FilterTimeout limits the search for devices for one pod on one node. When
	// it ends, the node is passed over for this attempt.
	//
	// A duration, 0s or more; default 10s; usual searches take 10ms to 200ms. 0s
	// is no limit: one odd claim can then stop all scheduling. A very short limit
	// passes over nodes that would have fitted. Leave unset when the feature gate
	// DRASchedulerFilterTimeout is off.
	// +optional
	FilterTimeout *metav1.Duration `json:"filterTimeout,omitempty"`

	// BindingTimeout limits the wait, before a pod is bound, for the binding
	// conditions of its allocated devices. When it ends, the allocation is
	// cleared and the pod is scheduled again.
	//
	// A duration, 1s or more, without an upper bound; default 10m. At 1s, devices
	// that have to be attached first are never ready in time. A very long wait
	// keeps the devices from others when a driver is broken. Leave unset when
	// the feature gate DRADeviceBindingConditions is off.
	// +optional
	BindingTimeout *metav1.Duration `json:"bindingTimeout,omitempty"`

	// AlignmentAttributes are attributes of devices on which the accelerators and
	// NICs of a member should agree, the nearest first. They order the devices of a
	// node, also across the claims of one pod; what has to agree is for the
	// constraints of a claim to say. The last one is the one by which accelerators
	// are kept together first.
	//
	// A list of up to 4 fully qualified names; default
	// [resource.kubernetes.io/pcieRoot, resource.kubernetes.io/numaNode], where the
	// latter also means dra.net/numaNode. An attribute that no device has is
	// passed over. With an empty list, devices are taken in the order in which their
	// drivers publish them.
	// +optional
	AlignmentAttributes []string `json:"alignmentAttributes"`
}
