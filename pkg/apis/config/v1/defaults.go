// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedconfigv1 "k8s.io/kube-scheduler/config/v1"
	intreev1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/utils/ptr"
)

// DefaultPermitTimeout is the default of PodGangArgs.PermitTimeout.
const DefaultPermitTimeout = 30 * time.Second

// DefaultSearchBudget is the default of PodGangArgs.SearchBudget.
const DefaultSearchBudget = 10000

// DefaultAlignmentAttributes returns the default of
// PodGangResourcesArgs.AlignmentAttributes.
func DefaultAlignmentAttributes() []string {
	return []string{"resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"}
}

// DefaultNUMAHints returns the default of PodGangResourcesArgs.NUMAHints: the PCI domains
// of the accelerators of machines on which they share no PCIe root with a NIC.
func DefaultNUMAHints() []NUMAHint {
	grace := map[string]int64{"0008": 0, "0009": 0, "0018": 1, "0019": 1}
	azure := map[string]int64{"0001": 0, "0002": 0, "0003": 0, "0008": 0, "0009": 1, "000a": 1, "000b": 1, "000c": 1}
	return []NUMAHint{
		{ProductName: "GB200", PCIDomains: grace},
		{ProductName: "GB300", PCIDomains: grace},
		{ProductName: "H100", PCIDomains: azure},
	}
}

// DefaultStarvationAfter is the default of PodGangArgs.StarvationAfter.
const DefaultStarvationAfter = 5 * time.Minute

// SetDefaults_PodGangArgs fills the fields that were left out.
func SetDefaults_PodGangArgs(obj *PodGangArgs) { //nolint:revive // defaulter-gen finds the function by this name
	if obj.PermitTimeout == nil {
		obj.PermitTimeout = &metav1.Duration{Duration: DefaultPermitTimeout}
	}
	if obj.StatusPolicy == "" {
		obj.StatusPolicy = StatusPolicyFull
	}
	if obj.SearchBudget == nil {
		obj.SearchBudget = ptr.To[int32](DefaultSearchBudget)
	}
	if obj.StarvationAfter == nil {
		obj.StarvationAfter = &metav1.Duration{Duration: DefaultStarvationAfter}
	}
	if obj.TopologyLevels == nil {
		obj.TopologyLevels = DefaultTopologyLevels()
	}
	setDefaultsScore(&obj.Score)
	if obj.Accelerators.ExtendedResources == nil {
		obj.Accelerators.ExtendedResources = []string{"nvidia.com/gpu", "amd.com/gpu"}
	}
	if obj.RDMA.Assume == "" {
		obj.RDMA.Assume = RDMAAuto
	}
	if obj.RDMA.ExtendedResources == nil {
		obj.RDMA.ExtendedResources = DefaultRDMAResources()
	}
	if obj.ComputeDomains.Placement == "" {
		obj.ComputeDomains.Placement = ComputeDomainRequired
	}
	if obj.ComputeDomains.DaemonRequests == nil {
		obj.ComputeDomains.DaemonRequests = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("128Mi"),
		}
	}
}

// setDefaultsScore fills in the constants of the placement score.
func setDefaultsScore(obj *Score) {
	for _, field := range []struct {
		value   **float64
		initial float64
	}{
		{&obj.NVLinkBandwidth, 900},
		{&obj.FabricFalloff, 0.85},
		{&obj.TCPBandwidth, 3},
		{&obj.CrossUnitWeight, 0.25},
		{&obj.CrossUnitBandwidth, 50},
		{&obj.SameNUMA, 0.95},
		{&obj.CrossNUMA, 0.55},
	} {
		if *field.value == nil {
			*field.value = ptr.To(field.initial)
		}
	}
	if obj.FabricBandwidths == nil {
		obj.FabricBandwidths = []float64{50, 42.5, 35}
	}
}

// DefaultTopologyLevels returns the default of PodGangArgs.TopologyLevels. No
// cluster has all of them.
func DefaultTopologyLevels() []string {
	return []string{
		"topology.kubernetes.io/region",
		"topology.kubernetes.io/zone",
		"topology.k8s.aws/zone-id",
		"kubernetes.io/zone",
		// The broad levels of fabrics.
		"fabric.topograph.run/tier-2",
		"network.topology.nvidia.com/core",
		"network.topology.nvidia.com/datacenter",
		"oci.oraclecloud.com/rdma.hpc_island_id",
		"backend.coreweave.cloud/fabric",
		"topology.k8s.aws/network-node-layer-1",
		// The levels between.
		"fabric.topograph.run/tier-1",
		"network.topology.nvidia.com/spine",
		"cloud.google.com/gce-topology-block",
		"oci.oraclecloud.com/rdma.network_block_id",
		"backend.coreweave.cloud/superpod",
		"topology.k8s.aws/network-node-layer-2",
		"topology.kubernetes.io/block",
		"kubernetes.io/block",
		// The narrow levels.
		"fabric.topograph.run/tier-0",
		"network.topology.nvidia.com/block",
		"network.topology.nvidia.com/leaf",
		"cloud.google.com/gce-topology-subblock",
		"oci.oraclecloud.com/rdma.local_block_id",
		"backend.coreweave.cloud/leafgroup",
		"topology.k8s.aws/network-node-layer-3",
		"topology.k8s.aws/network-node-layer-4",
		"topology.kubernetes.io/rack",
		"kubernetes.io/rack",
		// NVLink domains, and hosts.
		"nvidia.com/gpu.clique",
		"kubernetes.io/hostname",
	}
}

// DefaultRDMAResources returns the default of RDMA.ExtendedResources.
func DefaultRDMAResources() []string {
	return []string{
		"rdma/hca_shared_devices_a",
		"rdma/rdma_shared_device_a",
		"rdma/ib",
		"nvidia.com/hostdev",
		"nvidia.com/rdma-vf",
		"nvidia.com/mlnxnics",
		"vpc.amazonaws.com/efa",
	}
}

// SetDefaults_PodGangResourcesArgs fills the fields that were left out, timeouts
// as the scheduler does for its own DynamicResources plugin: one stays unset while
// its feature gate is off.
func SetDefaults_PodGangResourcesArgs(obj *PodGangResourcesArgs) { //nolint:revive // defaulter-gen finds the function by this name
	inTree := schedconfigv1.DynamicResourcesArgs{
		FilterTimeout:  obj.FilterTimeout,
		BindingTimeout: obj.BindingTimeout,
	}
	intreev1.SetDefaults_DynamicResourcesArgs(&inTree)
	obj.FilterTimeout = inTree.FilterTimeout
	obj.BindingTimeout = inTree.BindingTimeout
	if obj.AlignmentAttributes == nil {
		obj.AlignmentAttributes = DefaultAlignmentAttributes()
	}
	if obj.NUMAHints == nil {
		obj.NUMAHints = DefaultNUMAHints()
	}
}
