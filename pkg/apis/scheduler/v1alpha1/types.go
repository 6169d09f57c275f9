// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGang names the pods that need each other, in groups, and how many of each
// group must run for any of them to be of use.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=podgangs,singular=podgang,shortName=pg,scope=Namespaced
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Score",type=number,JSONPath=`.status.placementScore`,description="Placement score; 1 is the best placement possible."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodGang struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which pods form the gang. Its writer is Grove's operator, or
	// whoever wrote the object by hand; the scheduler only reads it.
	Spec PodGangSpec `json:"spec"`

	// Status is absent until its first writer sets it; the zero value is encoded
	// as absent. A status without phase is refused by the API server.
	// +optional
	Status PodGangStatus `json:"status,omitzero"`
}

// PodGangList is a list of PodGang objects.
//
// +kubebuilder:object:root=true
type PodGangList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the gangs.
	Items []PodGang `json:"items"`
}

// PodGangSpec says which pods form a gang and where they may be placed
// relative to each other.
type PodGangSpec struct {
	// PodGroups are the member groups. The floors of all groups together form
	// the gang. The JSON name is all lower case.
	PodGroups []PodGroup `json:"podgroups"`

	// TopologyConstraint applies to all pods of the gang.
	// +optional
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`

	// TopologyConstraintGroupConfigs constrain sets of groups. Each set is a
	// strict subset of the gang's groups.
	// +optional
	TopologyConstraintGroupConfigs []TopologyConstraintGroupConfig `json:"topologyConstraintGroupConfigs,omitempty"`

	// PriorityClassName is the scheduling.k8s.io PriorityClass of the gang. The
	// pods need not carry it.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// ReuseReservationRef names another gang of the namespace whose place this one
	// would rather have than another as good. It is a hint: the gang never waits for
	// that place. No Grove version up to v0.1.0-alpha.12 sets it.
	// +optional
	ReuseReservationRef *NamespacedName `json:"reuseReservationRef,omitempty"`
}

// PodGroup is a set of pods made from one template.
type PodGroup struct {
	// Name is unique in the gang. Do not read a meaning into it.
	Name string `json:"name"`

	// PodReferences are the pods of the group, each in the namespace of the
	// PodGang. An empty list is legal and usual at first: the list grows as
	// Grove creates pods, and it may name pods that are gone or not there yet.
	// The API server refuses null: use an empty list, not a nil one.
	PodReferences []NamespacedName `json:"podReferences"`

	// MinReplicas is the floor of the group: the number of its pods that must be
	// placed together with the floors of the other groups. 0 means no floor.
	// Pods above the floor are placed when there is room. The schema sets no
	// minimum, so a negative value can be met; it is an error of the writer.
	MinReplicas int32 `json:"minReplicas"`

	// TopologyConstraint applies to all pods of this group.
	// +optional
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// TopologyConstraint says in which kind of topology domain a set of pods has to
// be, or should be.
type TopologyConstraint struct {
	// PackConstraint keeps the pods in one domain.
	// +optional
	PackConstraint *TopologyPackConstraint `json:"packConstraint,omitempty"`
}

// TopologyPackConstraint names domains by the key of a node label, for example
// topology.kubernetes.io/rack. The nodes with one value of that label are one
// domain; a node without the label is in no domain.
type TopologyPackConstraint struct {
	// Required is the label key of the domain that all pods must share. The gang
	// waits as long as no domain can hold it.
	// +optional
	Required *string `json:"required,omitempty"`

	// Preferred is the label key of the domain that all pods should share. It
	// never keeps a gang waiting: broader domains are tried next, up to Required.
	// +optional
	Preferred *string `json:"preferred,omitempty"`
}

// TopologyConstraintGroupConfig constrains several groups of a gang together,
// for example one replica of a PodCliqueScalingGroup.
type TopologyConstraintGroupConfig struct {
	// Name of the set of groups.
	Name string `json:"name"`

	// PodGroupNames are the names of the groups in the set.
	PodGroupNames []string `json:"podGroupNames"`

	// TopologyConstraint applies to all pods of these groups.
	// +optional
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// NamespacedName names an object. Unlike types.NamespacedName it has the JSON
// names of the PodGang API.
type NamespacedName struct {
	// Namespace of the object.
	Namespace string `json:"namespace"`

	// Name of the object.
	Name string `json:"name"`
}

// PodGangStatus says how far a gang has got.
type PodGangStatus struct {
	// Phase is the gang's progress through scheduling. The schema lists no
	// values; see PodGangPhase for those in use.
	Phase PodGangPhase `json:"phase"`

	// Conditions describe the gang. The list is atomic: whoever patches it
	// replaces it, so a writer must keep the conditions of others.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// PlacementScore rates the placement, from above 0 up to 1, the best placement
	// possible. The scheduler writes it. Never NaN or infinite.
	// +optional
	PlacementScore *float64 `json:"placementScore,omitempty"`

	// LastScheduled is when the condition Scheduled last became True. Grove's
	// operator writes it from v0.1.0-alpha.12 on, and the gates of dependent
	// gangs wait for it.
	// +optional
	LastScheduled *metav1.Time `json:"lastScheduled,omitempty"`

	// LastReady is when the condition Ready last became True. Grove's operator
	// writes it from v0.1.0-alpha.12 on.
	// +optional
	LastReady *metav1.Time `json:"lastReady,omitempty"`
}

// PodGangPhase is the progress of a gang through scheduling.
type PodGangPhase string

// Phases of a gang.
const (
	// PodGangPhasePending: no pod of the gang is bound yet.
	PodGangPhasePending PodGangPhase = "Pending"
	// PodGangPhaseStarting: the scheduler has begun to bind pods of the gang.
	PodGangPhaseStarting PodGangPhase = "Starting"
	// PodGangPhaseRunning: the pods of the gang are scheduled and running.
	PodGangPhaseRunning PodGangPhase = "Running"
)

// Types of the conditions that Grove defines for a PodGang. They are plain
// strings, as in metav1.Condition.
const (
	// ConditionInitialized is True once all pods of the gang existed. Grove's
	// operator sets it (v0.1.0-alpha.8 and later) and never sets it back, so it
	// says nothing about the present. A gang written by hand has no such
	// condition.
	ConditionInitialized = "Initialized"
	// ConditionScheduled is True once the gang is scheduled.
	ConditionScheduled = "Scheduled"
	// ConditionReady is True while all groups are ready.
	ConditionReady = "Ready"
	// ConditionUnhealthy is True while the gang is a candidate for termination.
	ConditionUnhealthy = "Unhealthy"
	// ConditionDisruptionTarget is True when the gang is about to be terminated.
	ConditionDisruptionTarget = "DisruptionTarget"
)

// Reasons that Grove's operator gives for ConditionInitialized.
const (
	// ReasonPodsCreationPending goes with Initialized=False.
	ReasonPodsCreationPending = "PodGangPodsCreationPending"
	// ReasonPodsCreated goes with Initialized=True.
	ReasonPodsCreated = "PodGangPodsCreated"
)
