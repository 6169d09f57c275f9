// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
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

	// StarvationAfter bounds how long a gang waits beside a stream of younger pods,
	// which take what comes free piece by piece. When its floor has been refused for
	// that long, and would fit if what comes after it in the order of the queue had
	// finished, the nodes where it would then fit are kept for it: pods that come
	// after it are not placed there any more. Nothing is evicted. The nodes are open
	// again as soon as the gang has been placed or is gone, or when its next attempt
	// finds that it cannot fit even so; an attempt comes after 5 minutes at the latest.
	// Nodes are kept for one gang at a time, the first in the order of the queue.
	//
	// A duration, 1s or more, or 0s for never; default 5m. It counts from the first
	// refusal since the scheduler was started. At 1s, nodes stand idle, while they
	// drain, for gangs that would have found room by themselves. A very long one lets
	// small pods keep a large gang waiting for that long.
	// +optional
	StarvationAfter *metav1.Duration `json:"starvationAfter,omitempty"`

	// TopologyLevels are node label keys, broad to narrow, that order the levels of
	// a cluster: where a preferred level cannot be kept, the next broader one is
	// tried. They are used for a gang whose PodGang names no ClusterTopologyBinding
	// (annotation grove.io/topology-name), or one that does not exist. Keys that no
	// node carries do no harm.
	//
	// Up to 32 label keys, each once; default: region, zone, the fabrics of the
	// clouds, block, rack and host under the names that are in use (DefaultTopologyLevels).
	// +optional
	TopologyLevels []string `json:"topologyLevels,omitempty"`

	// Fabrics are networks as node labels show them. The first with a label on a
	// node that the gang may use is taken, these before the ones that are built in:
	// topograph, GKE, EKS, OKE, CoreWeave, Nebius, Crusoe, Alibaba, Azure, Volcano and
	// a generic one. One of the same name takes the place of a built-in one. Default: none.
	// +optional
	Fabrics []Fabric `json:"fabrics,omitempty"`

	// Score holds the constants of the placement score.
	// +optional
	Score Score `json:"score,omitempty"`

	// Accelerators says what counts as an accelerator for the score.
	// +optional
	Accelerators Accelerators `json:"accelerators,omitempty"`

	// RDMA says which pods reach an RDMA device.
	// +optional
	RDMA RDMA `json:"rdma,omitempty"`

	// ComputeDomains says how pods that claim an IMEX channel are placed.
	// +optional
	ComputeDomains ComputeDomains `json:"computeDomains,omitempty"`
}

// Fabric is a network as node labels show it.
type Fabric struct {
	// Name tells fabrics apart.
	Name string `json:"name"`

	// Levels are the label keys of its switches, narrow to broad, one to eight. Hosts
	// and zones are no levels of a fabric.
	Levels []string `json:"levels"`

	// NVLinkLevels are label keys of NVLink domains, for nodes that do not carry
	// nvidia.com/gpu.clique. Members are packed by them; that memory can be shared
	// across nodes is only taken for granted inside one clique.
	// +optional
	NVLinkLevels []string `json:"nvlinkLevels,omitempty"`

	// StrictTop says that RDMA does not work between two domains of the broadest
	// level; a gang with RDMA is then not placed across them. Default false: the
	// network goes on above it, one level slower.
	// +optional
	StrictTop bool `json:"strictTop,omitempty"`

	// Bandwidths are those between two accelerators of one domain of each level,
	// in GB/s, narrow to broad. Default: fabricBandwidths of the score.
	// +optional
	Bandwidths []float64 `json:"bandwidths,omitempty"`
}

// Score holds the constants of the placement score: the time to move a byte
// between two accelerators of the gang, the best possible divided by the actual.
// Bandwidths are in GB/s for each accelerator and direction. What counts is their
// ratio.
type Score struct {
	// NVLinkBandwidth is the bandwidth inside an NVLink domain. More than 0;
	// default 900 (NVLink 5).
	// +optional
	NVLinkBandwidth *float64 `json:"nvlinkBandwidth,omitempty"`

	// FabricBandwidths are the bandwidths inside a domain of each level of the
	// fabric, narrow to broad. More than 0 each; default 50, 42.5, 35 (400 Gb/s for
	// each accelerator). Equal numbers make levels indifferent.
	// +optional
	FabricBandwidths []float64 `json:"fabricBandwidths,omitempty"`

	// FabricFalloff is the factor from the last of fabricBandwidths to the next
	// broader level, and so on. More than 0, at most 1; default 0.85.
	// +optional
	FabricFalloff *float64 `json:"fabricFalloff,omitempty"`

	// TCPBandwidth is the bandwidth without RDMA. More than 0; default 3.
	// +optional
	TCPBandwidth *float64 `json:"tcpBandwidth,omitempty"`

	// CrossUnitWeight is how much two pods of different units, such as prefill and
	// decode, talk to each other; two pods of one unit have 1. More than 0, at most
	// 1; default 0.25. Near 0, units are placed with hardly any regard to each other.
	// +optional
	CrossUnitWeight *float64 `json:"crossUnitWeight,omitempty"`

	// CrossUnitBandwidth is the most that two pods of different units can use. More
	// than 0; default 50.
	// +optional
	CrossUnitBandwidth *float64 `json:"crossUnitBandwidth,omitempty"`

	// SameNUMA is the factor for an accelerator whose NIC shares its NUMA node
	// where one could share its PCIe root. More than 0, at most 1; default 0.95.
	// +optional
	SameNUMA *float64 `json:"sameNUMA,omitempty"`

	// CrossNUMA is the factor for an accelerator whose NIC is on another NUMA node
	// and need not be. More than 0, at most 1; default 0.55.
	// +optional
	CrossNUMA *float64 `json:"crossNUMA,omitempty"`
}

// Accelerators says what counts as an accelerator for the score. Devices of the
// drivers gpu.nvidia.com and gpu.amd.com do in any case.
type Accelerators struct {
	// DeviceClasses are further DeviceClasses of accelerators. Default: none.
	// +optional
	DeviceClasses []string `json:"deviceClasses,omitempty"`

	// ExtendedResources are extended resources that stand for one accelerator
	// each. Default: nvidia.com/gpu, amd.com/gpu.
	// +optional
	ExtendedResources []string `json:"extendedResources,omitempty"`
}

// RDMAAssumption says when a pod is taken to reach an RDMA device.
type RDMAAssumption string

const (
	// RDMAAuto: when it asks for one.
	RDMAAuto RDMAAssumption = "Auto"
	// RDMAAlways: always. For pods that reach the NICs of their host through
	// hostNetwork.
	RDMAAlways RDMAAssumption = "Always"
)

// RDMA says which pods reach an RDMA device. A pod that claims a device with the
// attribute dra.net/rdma, or rdmaCapable of its driver, does in any case.
type RDMA struct {
	// Assume is Auto or Always; default Auto.
	// +optional
	Assume RDMAAssumption `json:"assume,omitempty"`

	// DeviceClasses are further DeviceClasses of RDMA devices. Default: none.
	// +optional
	DeviceClasses []string `json:"deviceClasses,omitempty"`

	// ExtendedResources are extended resources that stand for RDMA devices.
	// Default: those of the usual device plugins (DefaultRDMAResources).
	// +optional
	ExtendedResources []string `json:"extendedResources,omitempty"`
}

// ComputeDomainPlacement says whether the pods of a ComputeDomain have to share
// an NVLink domain.
type ComputeDomainPlacement string

const (
	// ComputeDomainRequired: the members of a gang that claim a channel of one
	// ComputeDomain are placed in one NVLink domain (nvidia.com/gpu.clique), or the
	// gang waits. More members than any NVLink domain has nodes wait for ever.
	ComputeDomainRequired ComputeDomainPlacement = "Required"
	// ComputeDomainPreferred: they are placed in as few NVLink domains as there is
	// room in, and on nodes in none if need be. There a claim for a channel
	// succeeds, and gives nothing.
	ComputeDomainPreferred ComputeDomainPlacement = "Preferred"
)

// ComputeDomains says how pods that claim an IMEX channel are placed.
type ComputeDomains struct {
	// Placement is Required or Preferred; default Required. Preferred is for gangs
	// with more members than an NVLink domain has nodes.
	// +optional
	Placement ComputeDomainPlacement `json:"placement,omitempty"`

	// DaemonRequests is the CPU and memory kept on a node that gets a pod with a
	// channel, for the daemon pod that comes after it, besides one of the pods that
	// the node can hold. Default 100m CPU, 128Mi memory. Too little, and the daemon
	// does not fit, so that the pod never starts.
	// +optional
	DaemonRequests corev1.ResourceList `json:"daemonRequests,omitempty"`
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

	// NUMAHints tell the NUMA node of devices whose driver does not publish it, so
	// that they can be aligned with NICs on machines where the two share no PCIe
	// root. What a driver publishes comes before a hint.
	//
	// A list; the default knows NVIDIA GB200 and GB300, and H100 on Azure. An empty
	// list means no hints; devices of which the NUMA node is not known are taken as
	// aligned with any.
	// +optional
	NUMAHints []NUMAHint `json:"numaHints"`
}

// NUMAHint tells where the devices of a product are attached on the machines that have
// them.
type NUMAHint struct {
	// ProductName is a part of the device's attribute productName, such as GB200. The
	// first hint that has the product and the PCI domain counts.
	ProductName string `json:"productName"`

	// PCIDomains has the NUMA node for each PCI domain, the first four digits of the
	// device's resource.kubernetes.io/pciBusID, as in "0008".
	PCIDomains map[string]int64 `json:"pciDomains"`
}
