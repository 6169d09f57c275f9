// SPDX-License-Identifier: Apache-2.0

package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusPolicy says what the scheduler writes to the status of a PodGang.
type StatusPolicy string

const (
	// StatusPolicyFull writes phase and placementScore.
	StatusPolicyFull StatusPolicy = "Full"
	// StatusPolicyScoreOnly writes placementScore alone.
	StatusPolicyScoreOnly StatusPolicy = "ScoreOnly"
)

// PodGangArgs are the arguments of plugin PodGang.
//
// +kubebuilder:object:root=true
type PodGangArgs struct {
	metav1.TypeMeta

	// PermitTimeout is how long the first members of a planned gang are held
	// while the rest of the floor arrives.
	PermitTimeout metav1.Duration

	// StatusPolicy says what is written to the status of a PodGang.
	StatusPolicy StatusPolicy

	// SearchBudget is the number of placements tried for a gang that does not fit
	// at once.
	SearchBudget int32
}

// PodGangResourcesArgs are the arguments of plugin PodGangResources. The
// timeouts have the meaning of those of the in-tree DynamicResourcesArgs; nil means
// that the feature gate behind the field is off.
//
// +kubebuilder:object:root=true
type PodGangResourcesArgs struct {
	metav1.TypeMeta

	// FilterTimeout limits the search for devices for one pod on one node. Zero
	// means no limit.
	FilterTimeout *metav1.Duration

	// BindingTimeout limits the wait for the binding conditions of allocated
	// devices.
	BindingTimeout *metav1.Duration

	// AlignmentAttributes are attributes of devices, the nearest first: devices of
	// a pod should agree on them. Empty leaves devices in the order in which they
	// are published.
	AlignmentAttributes []string
}
