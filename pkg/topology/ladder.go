// SPDX-License-Identifier: Apache-2.0

package topology

import "slices"

// NVLinkKey is the node label that tells the NVLink domain of a node: the cluster
// UUID of the NVLink fabric, a dot, and the clique in it. Only equal values can
// reach each other over NVLink.
const NVLinkKey = "nvidia.com/gpu.clique"

// Ladder is a family of node labels that describe a network fabric.
type Ladder struct {
	// Name is for logs and configuration.
	Name string
	// Keys are the label keys of the switch levels, the narrowest first. Hosts,
	// zones and regions are not among them.
	Keys []string
	// NVLink are label keys that group nodes about as NVLink domains do. They help
	// to pack nodes that lack NVLinkKey and promise no NVLink.
	NVLink []string
	// StrictTop is set when RDMA does not work at all between two domains of the
	// broadest level. Otherwise they are one level further apart than the ladder
	// tells.
	StrictTop bool
	// Tiers are the bandwidths within a domain of each key, in GB/s per accelerator.
	// Empty: those of the score's model, by position.
	Tiers []float64
}

// DefaultLadders returns the families of labels that are in use, in the order in
// which they are to be tried. Which of them are strict at the top is a guess from
// what the providers say about their fabrics.
func DefaultLadders() []Ladder {
	return slices.Concat(topographLadders(), providerLadders(), commonLadders())
}

// topographLadders are those that topograph writes on any cluster.
func topographLadders() []Ladder {
	return []Ladder{
		{
			Name: "topograph",
			Keys: []string{
				"fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-2",
				"fabric.topograph.run/tier-3", "fabric.topograph.run/tier-4", "fabric.topograph.run/tier-5",
				"fabric.topograph.run/tier-6", "fabric.topograph.run/tier-7",
			},
			NVLink: []string{"accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"},
		},
		{
			// Two generations: leaf, spine, core; before that block, spine, datacenter.
			Name: "topograph-v0",
			Keys: []string{
				"network.topology.nvidia.com/leaf", "network.topology.nvidia.com/block", "network.topology.nvidia.com/spine",
				"network.topology.nvidia.com/core", "network.topology.nvidia.com/datacenter",
			},
			NVLink: []string{"network.topology.nvidia.com/accelerator"},
		},
	}
}

// providerLadders are those of cloud providers.
func providerLadders() []Ladder {
	return []Ladder{
		{
			Name:   "gke",
			Keys:   []string{"cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"},
			NVLink: []string{"cloud.google.com/gce-topology-subblock"},
		},
		{
			// The highest layer is the leaf; some machines have four, others three.
			Name: "eks",
			Keys: []string{
				"topology.k8s.aws/network-node-layer-4", "topology.k8s.aws/network-node-layer-3",
				"topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-1",
			},
			NVLink: []string{"topology.k8s.aws/ultraserver-id", "topology.k8s.aws/capacity-block-id"},
		},
		{
			Name: "oke",
			Keys: []string{
				"oci.oraclecloud.com/rdma.local_block_id", "oci.oraclecloud.com/rdma.network_block_id",
				"oci.oraclecloud.com/rdma.hpc_island_id",
			},
			NVLink:    []string{"oci.oraclecloud.com/host.gpu_memory_fabric_id"},
			StrictTop: true,
		},
		{
			Name: "coreweave",
			Keys: []string{
				"backend.coreweave.cloud/leafgroup", "backend.coreweave.cloud/superpod", "backend.coreweave.cloud/fabric",
			},
			NVLink:    []string{"ds.coreweave.com/nvlink.domain"},
			StrictTop: true,
		},
		{
			Name:      "coreweave-ib",
			Keys:      []string{"ib.coreweave.cloud/leafgroup", "ib.coreweave.cloud/superpod", "ib.coreweave.cloud/fabric"},
			NVLink:    []string{"ds.coreweave.com/nvlink.domain"},
			StrictTop: true,
		},
		{
			Name:      "nebius",
			Keys:      []string{"topology.nebius.com/tier-1", "topology.nebius.com/tier-2", "topology.nebius.com/gpu-cluster-id"},
			NVLink:    []string{"topology.nebius.com/nvl-instance-group-id", "topology.nebius.com/tier-0"},
			StrictTop: true,
		},
		{
			Name:      "crusoe",
			Keys:      []string{"crusoe.ai/pod.id", "crusoe.ai/ib.partition.id"},
			StrictTop: true,
		},
		{
			Name: "alibaba",
			Keys: []string{"alibabacloud.com/asw-id", "alibabacloud.com/point-of-delivery"},
		},
		{
			// No node label: an attribute of the NICs, see Index.Overlay.
			Name:      "azure",
			Keys:      []string{"azure.dra.net/placementGroupId"},
			StrictTop: true,
		},
	}
}

// commonLadders are conventions that somebody has to follow by hand.
func commonLadders() []Ladder {
	return []Ladder{
		{
			// Conventions of samples: the narrow level has either name.
			Name: "volcano",
			Keys: []string{"volcano.sh/tor", "volcano.sh/hypernode", "volcano.sh/hypercluster"},
		},
		{
			Name: "generic",
			Keys: []string{"topology.kubernetes.io/rack", "topology.kubernetes.io/block"},
		},
		{
			Name: "grove",
			Keys: []string{"kubernetes.io/rack", "kubernetes.io/block"},
		},
	}
}

// Ladder returns the first of the presets that has a key on an eligible node, cut
// down to the keys that some eligible node carries: its last key is then the
// broadest level that is known. It reports false if there is none. A nil eligible
// means every node.
func (x *Index) Ladder(presets []Ladder, eligible func(i int) bool) (Ladder, bool) {
	for _, preset := range presets {
		found := preset
		found.Keys, found.Tiers = nil, nil
		for at, key := range preset.Keys {
			if !x.carried(key, eligible) {
				continue
			}
			found.Keys = append(found.Keys, key)
			if at < len(preset.Tiers) {
				found.Tiers = append(found.Tiers, preset.Tiers[at])
			}
		}
		if len(found.Keys) > 0 {
			return found, true
		}
	}
	return Ladder{}, false
}

// carried reports whether an eligible node carries the label.
func (x *Index) carried(key string, eligible func(i int) bool) bool {
	level := x.level(key)
	if level.live == 0 {
		return false
	}
	for i, domain := range level.Of {
		if domain != None && (eligible == nil || eligible(i)) {
			return true
		}
	}
	return false
}
