// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryFamilyOfLabelsIsRecognised(t *testing.T) {
	for name, test := range map[string]struct {
		ladder string
		labels []string // narrow to broad
		nvlink string
		strict bool
	}{
		"topograph":                 {"topograph", []string{"fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-2"}, "accelerator.topograph.run/domain", false},
		"topograph, five tiers":     {"topograph", []string{"fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-2", "fabric.topograph.run/tier-3", "fabric.topograph.run/tier-4"}, "accelerator.topograph.run/sub-domain", false},
		"topograph 0.3":             {"topograph-v0", []string{"network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/core"}, "network.topology.nvidia.com/accelerator", false},
		"topograph 0.1":             {"topograph-v0", []string{"network.topology.nvidia.com/block", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/datacenter"}, "network.topology.nvidia.com/accelerator", false},
		"GKE":                       {"gke", []string{"cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"}, "cloud.google.com/gce-topology-subblock", false},
		"EKS, three layers":         {"eks", []string{"topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-1"}, "topology.k8s.aws/capacity-block-id", false},
		"EKS, four layers":          {"eks", []string{"topology.k8s.aws/network-node-layer-4", "topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-1"}, "topology.k8s.aws/ultraserver-id", false},
		"OKE":                       {"oke", []string{"oci.oraclecloud.com/rdma.local_block_id", "oci.oraclecloud.com/rdma.network_block_id", "oci.oraclecloud.com/rdma.hpc_island_id"}, "oci.oraclecloud.com/host.gpu_memory_fabric_id", true},
		"CoreWeave":                 {"coreweave", []string{"backend.coreweave.cloud/leafgroup", "backend.coreweave.cloud/superpod", "backend.coreweave.cloud/fabric"}, "ds.coreweave.com/nvlink.domain", true},
		"CoreWeave, InfiniBand":     {"coreweave-ib", []string{"ib.coreweave.cloud/leafgroup", "ib.coreweave.cloud/superpod", "ib.coreweave.cloud/fabric"}, "ds.coreweave.com/nvlink.domain", true},
		"Nebius":                    {"nebius", []string{"topology.nebius.com/tier-1", "topology.nebius.com/tier-2", "topology.nebius.com/gpu-cluster-id"}, "topology.nebius.com/tier-0", true},
		"Crusoe":                    {"crusoe", []string{"crusoe.ai/pod.id", "crusoe.ai/ib.partition.id"}, "", true},
		"Alibaba Lingjun":           {"alibaba", []string{"alibabacloud.com/asw-id", "alibabacloud.com/point-of-delivery"}, "", false},
		"Azure, by overlay":         {"azure", []string{"azure.dra.net/placementGroupId"}, "", true},
		"Volcano, top of rack":      {"volcano", []string{"volcano.sh/tor", "volcano.sh/hypercluster"}, "", false},
		"Volcano, hypernode":        {"volcano", []string{"volcano.sh/hypernode", "volcano.sh/hypercluster"}, "", false},
		"racks":                     {"generic", []string{"topology.kubernetes.io/rack"}, "", false},
		"racks and blocks of Grove": {"grove", []string{"kubernetes.io/rack", "kubernetes.io/block"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			labels := []string{"kubernetes.io/hostname", "n0", "topology.kubernetes.io/zone", "z0"}
			for _, key := range test.labels {
				labels = append(labels, key, "x")
			}
			got, found := indexOf(node("bare"), node("n0", labels...)).Ladder(DefaultLadders(), nil)
			if !found || got.Name != test.ladder || !slices.Equal(got.Keys, test.labels) || got.StrictTop != test.strict {
				t.Errorf("got %+v, %v; want %s with keys %q, strict %v", got, found, test.ladder, test.labels, test.strict)
			}
			if test.nvlink != "" && !slices.Contains(got.NVLink, test.nvlink) {
				t.Errorf("NVLink hints are %q, want %s among them", got.NVLink, test.nvlink)
			}
		})
	}
}

func TestNoLadderHasALevelOfHostsOrZones(t *testing.T) {
	for _, ladder := range DefaultLadders() {
		for _, key := range ladder.Keys {
			for _, word := range []string{"hostname", "host_id", "gce-topology-host", "/zone", "zone-id", "/region"} {
				if strings.HasSuffix(key, word) {
					t.Errorf("%s has the level %s", ladder.Name, key)
				}
			}
		}
	}
}

func TestLadderIsTheFirstWithAKeyOnAnEligibleNode(t *testing.T) {
	presets := []Ladder{
		{Name: "first", Keys: []string{"f0", "f1", "f2"}, Tiers: []float64{100, 80, 60}},
		{Name: "second", Keys: []string{"s0"}},
	}
	x := indexOf(node("n0", "f0", "x"), node("n1", "f2", "x", "s0", "x"), node("n2", "s0", "x"), node("n3"))
	for name, test := range map[string]struct {
		eligible []int
		ladder   string
		keys     []string
		tiers    []float64
	}{
		"every node":            {nil, "first", []string{"f0", "f2"}, []float64{100, 60}},
		"one with one key":      {[]int{1, 2}, "first", []string{"f2"}, []float64{60}},
		"one of the second":     {[]int{2, 3}, "second", []string{"s0"}, nil},
		"none with a known key": {[]int{3}, "", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			eligible := func(i int) bool { return slices.Contains(test.eligible, i) }
			if test.eligible == nil {
				eligible = nil
			}
			got, found := x.Ladder(presets, eligible)
			if found != (test.ladder != "") || got.Name != test.ladder || !slices.Equal(got.Keys, test.keys) ||
				!slices.Equal(got.Tiers, test.tiers) {
				t.Errorf("got %+v, %v; want %s, %q, %v", got, found, test.ladder, test.keys, test.tiers)
			}
		})
	}
}
