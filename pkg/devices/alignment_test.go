// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// on is a place on root r at NUMA node n.
func on(r int, n int64) Locus { return Locus{Root: fmt.Sprintf("pci%d", r), NUMA: n} }

func TestRateAlignment(t *testing.T) {
	factors := Alignment{SameNUMA: 0.95, CrossNUMA: 0.55}
	// hgx has a GPU and a NIC on each of 8 roots, 4 at each NUMA node; gb200 has the NICs
	// on roots of their own.
	var hgx, bare, gb200GPUs, gb200NICs []Locus
	for i := range 8 {
		hgx = append(hgx, on(i, int64(i/4)))
		bare = append(bare, on(i, -1))
	}
	for i := range 4 {
		gb200GPUs = append(gb200GPUs, on(i, int64(i/2)))
		gb200NICs = append(gb200NICs, on(10+i, int64(i/2)))
	}
	rootless := []Locus{{NUMA: 0}, {NUMA: 1}}
	blind := []Locus{{NUMA: -1}, {NUMA: -1}}
	for _, tc := range []struct {
		name             string
		gpus, nics       []Locus
		allGPUs, allNICs []Locus
		want             float64
	}{
		{"a NIC of the GPU's own root", hgx[:1], hgx[:1], hgx, hgx, 1},
		{"a NIC of another root at the same NUMA node", hgx[:1], hgx[1:2], hgx, hgx, 0.95},
		{"a NIC at the other NUMA node", hgx[:1], hgx[4:5], hgx, hgx, 0.55},
		{"the farthest GPU counts", hgx[:2], []Locus{hgx[0], hgx[7]}, hgx, hgx, 0.55},
		{"the order does not count", []Locus{hgx[5], hgx[0]}, []Locus{hgx[0], hgx[5]}, hgx, hgx, 1},
		{"all GPUs and all NICs", hgx, hgx, hgx, hgx, 1},
		{"all GPUs cannot all be near one NIC", hgx, hgx[:1], hgx, hgx, 1},
		{"two GPUs can share a NIC of their NUMA node", hgx[:2], hgx[:1], hgx, hgx, 1},
		{"and have it farther than they could", hgx[:2], hgx[4:5], hgx, hgx, 0.55},
		{"GPUs that tell their root alone have the NUMA node of its NIC", bare[:1], hgx[4:5], bare, hgx, 0.55},
		{"no root matches on the machine: same NUMA node is best", gb200GPUs[:2], gb200NICs[:2], gb200GPUs, gb200NICs, 1},
		{"and across is not", gb200GPUs[:2], gb200NICs[2:], gb200GPUs, gb200NICs, 0.55},
		{"whole machine without matching roots", gb200GPUs, gb200NICs, gb200GPUs, gb200NICs, 1},
		{"NUMA nodes alone", rootless[:1], rootless[1:], rootless, rootless, 0.55},
		{"nothing is known", blind[:1], blind[1:], blind, blind, 1},
		{"nothing is known of the NIC", hgx[:1], blind[:1], hgx, append(blind[:1:1], hgx...), 1},
		{"no NIC", hgx[:1], nil, hgx, hgx, 1},
		{"no GPU", nil, hgx[:1], hgx, hgx, 1},
	} {
		if got := factors.Rate(tc.gpus, tc.nics, tc.allGPUs, tc.allNICs); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func attributes(kv ...any) *resourceapi.Device {
	d := &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	for i := 0; i < len(kv); i += 2 {
		var a resourceapi.DeviceAttribute
		switch v := kv[i+1].(type) {
		case string:
			a.StringValue = &v
		case bool:
			a.BoolValue = &v
		case int:
			a.IntValue = ptr.To(int64(v))
		case []int64:
			a.IntValues = v
		case []string:
			a.StringValues = v
		}
		d.Attributes[resourceapi.QualifiedName(kv[i].(string))] = a
	}
	return d
}

func TestLocusOf(t *testing.T) {
	hints := Hints{
		{Product: "GB200", NUMA: map[string]int64{"0008": 0, "0018": 1}},
		{Product: "H100", NUMA: map[string]int64{"0008": 1, "000a": 1}},
	}
	for _, tc := range []struct {
		name   string
		device *resourceapi.Device
		want   Locus
	}{
		{"both", attributes("resource.kubernetes.io/pcieRoot", "pci0", "resource.kubernetes.io/numaNode", 1), Locus{"pci0", 1}},
		{"lists", attributes("resource.kubernetes.io/pcieRoot", []string{"pci0"}, "resource.kubernetes.io/numaNode", []int64{1}), Locus{"pci0", 1}},
		{"the older name", attributes("dra.net/numaNode", 0), Locus{"", 0}},
		{"not known to the driver", attributes("dra.net/numaNode", -1), Locus{"", -1}},
		{"nothing", attributes(), Locus{"", -1}},
		{"a hint", attributes("productName", "NVIDIA GB200", attributePCIBusID, "0018:06:00.0"), Locus{"", 1}},
		{"a hint for the other product", attributes("d.example.com/productName", "NVIDIA H100 80GB HBM3", attributePCIBusID, "0008:00:00.0"), Locus{"", 1}},
		{"capital letters", attributes("productName", "NVIDIA H100 80GB HBM3", attributePCIBusID, "000A:00:00.0"), Locus{"", 1}},
		{"a domain without a hint", attributes("productName", "NVIDIA H100 80GB HBM3", attributePCIBusID, "0000:53:00.0"), Locus{"", -1}},
		{"a product without a hint", attributes("productName", "NVIDIA L40S", attributePCIBusID, "0008:00:00.0"), Locus{"", -1}},
		{"a device without a product", attributes(attributePCIBusID, "0008:00:00.0"), Locus{"", -1}},
		{"the driver knows better than a hint", attributes("dra.net/numaNode", 3, "productName", "NVIDIA GB200", attributePCIBusID, "0018:06:00.0"), Locus{"", 3}},
	} {
		if got := LocusOf("d.example.com", tc.device, hints); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestKindsOfDevices(t *testing.T) {
	for _, tc := range []struct {
		name         string
		driver       string
		device       *resourceapi.Device
		accelerators float64
		rdma         bool
		channel      bool
	}{
		{"a GPU", "gpu.nvidia.com", attributes("type", "gpu"), 1, false, false},
		{"a GPU whose driver writes its own domain", "gpu.nvidia.com", attributes("gpu.nvidia.com/type", "mig", "gpu.nvidia.com/profile", "2g.20gb"), 2.0 / 7, false, false},
		{"a MIG device", "gpu.nvidia.com", attributes("type", "mig", "profile", "3g.40gb"), 3.0 / 7, false, false},
		{"a MIG device of an odd profile", "gpu.nvidia.com", attributes("type", "mig", "profile", "big"), 1, false, false},
		{"an AMD GPU", "gpu.amd.com", attributes(), 1, false, false},
		{"a NIC with RDMA", "dra.net", attributes("dra.net/rdma", true), 0, true, false},
		{"a NIC without", "dra.net", attributes("dra.net/rdma", false), 0, false, false},
		{"a virtual function with RDMA", "sriovnetwork.k8snetworkplumbingwg.io", attributes("rdmaCapable", true), 0, true, false},
		{"the same, qualified", "sriovnetwork.k8snetworkplumbingwg.io", attributes("sriovnetwork.k8snetworkplumbingwg.io/rdmaCapable", true), 0, true, false},
		{"a channel", "compute-domain.nvidia.com", attributes("type", "channel", "id", 0), 0, false, true},
		{"a daemon", "compute-domain.nvidia.com", attributes("type", "daemon", "id", 0), 0, false, false},
	} {
		if got := Accelerators(tc.driver, tc.device); got != tc.accelerators {
			t.Errorf("%s: got %v accelerators, want %v", tc.name, got, tc.accelerators)
		}
		if got := IsRDMA(tc.driver, tc.device); got != tc.rdma {
			t.Errorf("%s: RDMA %v, want %v", tc.name, got, tc.rdma)
		}
		if got := IsChannel(tc.driver, tc.device); got != tc.channel {
			t.Errorf("%s: channel %v, want %v", tc.name, got, tc.channel)
		}
	}
}
