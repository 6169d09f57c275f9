// SPDX-License-Identifier: Apache-2.0

package config

import (
	corev1 "k8s.io/api/core/v1"
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

	// StarvationAfter is how long a gang that could run is refused before nodes are
	// kept for it. Zero is never.
	StarvationAfter metav1.Duration

	// TopologyLevels are node label keys, broad to narrow, for gangs whose
	// PodGang names no ClusterTopologyBinding that exists.
	TopologyLevels []string

	// Fabrics are networks, tried before those that are built in.
	Fabrics []Fabric

	// Score holds the constants of the placement score.
	Score Score

	// Accelerators says what counts as an accelerator.
	Accelerators Accelerators

	// RDMA says which pods reach an RDMA device.
	RDMA RDMA

	// ComputeDomains says how pods that claim an IMEX channel are placed.
	ComputeDomains ComputeDomains
}

// Fabric is a network as node labels show it.
type Fabric struct {
	// Name tells fabrics apart.
	Name string
	// Levels are the label keys of its switches, narrow to broad.
	Levels []string
	// NVLinkLevels are label keys of NVLink domains, for nodes that do not carry
	// nvidia.com/gpu.clique.
	NVLinkLevels []string
	// StrictTop is set when RDMA does not work between domains of the broadest
	// level.
	StrictTop bool
	// Bandwidths are those between two accelerators of one domain of each level, in
	// GB/s; empty for those of Score.
	Bandwidths []float64
}

// Score holds the constants of the placement score. Bandwidths are in GB/s for
// each accelerator and direction.
type Score struct {
	// NVLinkBandwidth is that inside an NVLink domain.
	NVLinkBandwidth float64
	// FabricBandwidths are those inside a domain of each fabric level, narrow to
	// broad, and FabricFalloff is the factor for each level beyond.
	FabricBandwidths []float64
	FabricFalloff    float64
	// TCPBandwidth is that without RDMA.
	TCPBandwidth float64
	// CrossUnitWeight is the weight of a pair of pods of different units, and
	// CrossUnitBandwidth the most that such a pair can use.
	CrossUnitWeight, CrossUnitBandwidth float64
	// SameNUMA and CrossNUMA are the factors for accelerators whose NIC is further
	// away than it need be.
	SameNUMA, CrossNUMA float64
}

// Accelerators says what counts as an accelerator.
type Accelerators struct {
	// DeviceClasses are DeviceClasses of accelerators, besides those whose devices
	// say so themselves.
	DeviceClasses []string
	// ExtendedResources are extended resources that stand for accelerators.
	ExtendedResources []string
}

// RDMAAssumption says when a pod is taken to reach an RDMA device.
type RDMAAssumption string

const (
	// RDMAAuto: when it asks for one.
	RDMAAuto RDMAAssumption = "Auto"
	// RDMAAlways: always.
	RDMAAlways RDMAAssumption = "Always"
)

// RDMA says which pods reach an RDMA device.
type RDMA struct {
	// Assume is Auto or Always.
	Assume RDMAAssumption
	// DeviceClasses are DeviceClasses of RDMA devices, besides those whose devices
	// say so themselves.
	DeviceClasses []string
	// ExtendedResources are extended resources that stand for RDMA devices.
	ExtendedResources []string
}

// ComputeDomainPlacement says whether the pods of a ComputeDomain have to share
// an NVLink domain.
type ComputeDomainPlacement string

const (
	// ComputeDomainRequired: they have to.
	ComputeDomainRequired ComputeDomainPlacement = "Required"
	// ComputeDomainPreferred: they are spread over as few as there is room in.
	ComputeDomainPreferred ComputeDomainPlacement = "Preferred"
)

// ComputeDomains says how pods that claim an IMEX channel are placed.
type ComputeDomains struct {
	// Placement is Required or Preferred.
	Placement ComputeDomainPlacement
	// DaemonRequests is the room kept on a node of such a pod for the daemon pod
	// that comes after it.
	DaemonRequests corev1.ResourceList
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

	// NUMAHints tell the NUMA node of devices whose driver does not.
	NUMAHints []NUMAHint
}

// NUMAHint tells where the devices of a product are attached on the machines that have
// them.
type NUMAHint struct {
	// ProductName is a part of the device's attribute productName.
	ProductName string

	// PCIDomains has the NUMA node for each PCI domain, the first four digits of
	// the device's resource.kubernetes.io/pciBusID.
	PCIDomains map[string]int64
}
