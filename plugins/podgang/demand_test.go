// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// sortsByClass knows what devices of a class are.
type sortsByClass map[string]gangresources.Nature

func (s sortsByClass) Nature(want gangresources.Want) gangresources.Nature { return s[want.Class] }

func (s sortsByClass) ClassOfResource(name v1.ResourceName) string {
	if name == "example.com/backed" {
		return "gpu"
	}
	return ""
}

// apartBy keeps the pod off the domains of pods with a label.
func apartBy(key, label, value string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: value}},
		}}}}
	}
}

func TestDemandOfAPod(t *testing.T) {
	sorts := sortsByClass{"gpu": {Accelerators: 1}, "mig": {Accelerators: 3.0 / 7}, "nic": {RDMA: true}, "chan": {Channel: true}}
	args := &config.PodGangArgs{
		Accelerators: config.Accelerators{DeviceClasses: []string{"odd"}, ExtendedResources: []string{"nvidia.com/gpu"}},
		RDMA:         config.RDMA{Assume: config.RDMAAuto, DeviceClasses: []string{"odd-nic"}, ExtendedResources: []string{"rdma/ib"}},
	}
	always := &config.PodGangArgs{RDMA: config.RDMA{Assume: config.RDMAAlways}}
	all, either, admin := exactly(1, "gpu"), exactly(1, "gpu"), exactly(1, "gpu")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	either.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{FirstAvailable: []resourceapi.DeviceSubRequest{{DeviceClassName: "gpu", Count: 2}, {DeviceClassName: "mig", Count: 1}}}
	admin.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	domain := exactly(1, "chan")
	domain.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: "compute-domain.nvidia.com", Parameters: runtime.RawExtension{Raw: []byte(`{"kind":"ComputeDomainChannelConfig","domainID":"uid-1"}`)},
	}}}}
	taken := exactly(4, "gpu")
	taken.Status.Allocation = &resourceapi.AllocationResult{}
	claims := map[string]*resourceapi.ResourceClaim{
		"p-four": exactly(4, "gpu"), "p-mig": exactly(2, "mig"), "p-nic": exactly(1, "nic"), "p-odd": exactly(1, "odd"), "p-oddnic": exactly(1, "odd-nic"),
		"p-all": all, "p-either": either, "p-admin": admin, "p-chan": exactly(1, "chan"), "p-domain": domain, "p-taken": taken, "p-usual": exactly(1, channelClass),
		"shared": exactly(1, "chan"), "group": exactly(1, "gpu"),
	}
	for name, claim := range claims {
		claim.Namespace, claim.Name = "ns", name
	}
	w := testWorld(0, claims)
	devicesOf := func(pairs ...any) []deviceDemand {
		var list []deviceDemand
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, deviceDemand{want: gangresources.Want{Class: pairs[i].(string)}, count: int64(pairs[i+1].(int))})
		}
		return list
	}
	for _, tc := range []struct {
		name string
		args *config.PodGangArgs
		pod  *v1.Pod
		want demand
	}{
		{"nothing", args, testPod("p"), demand{}},
		{"GPUs", args, testPod("p", claimingFrom("four")), demand{accelerators: 4, devices: devicesOf("gpu", 4)}},
		{"parts of GPUs and a NIC", args, testPod("p", claimingFrom("mig"), claimingFrom("nic")), demand{accelerators: 6.0 / 7, rdma: true, devices: devicesOf("mig", 2, "nic", 1)}},
		{"classes of the arguments", args, testPod("p", claimingFrom("odd"), claimingFrom("oddnic")), demand{accelerators: 1, rdma: true, devices: devicesOf("odd", 1, "odd-nic", 1)}},
		{"all GPUs of a node", args, testPod("p", claimingFrom("all")), demand{accelerators: 1, most: 1}},
		{"alternatives", args, testPod("p", claimingFrom("either")), demand{accelerators: 2, choices: [][]deviceDemand{devicesOf("gpu", 2, "mig", 1)}}},
		{"a look at GPUs", args, testPod("p", claimingFrom("admin")), demand{}},
		{"GPUs that it has already", args, testPod("p", claimingFrom("taken")), demand{accelerators: 4}},
		{"a channel, named by its template", args, testPod("p", claimingFrom("chan")), demand{domain: "ns/chan", devices: devicesOf("chan", 1)}},
		{"a channel that no node publishes", args, testPod("p", claimingFrom("usual")), demand{domain: "ns/usual", devices: devicesOf(channelClass, 1)}},
		{"a channel of a domain", args, testPod("p", claimingFrom("domain")), demand{domain: "uid-1", domainUID: "uid-1", devices: devicesOf("chan", 1)}},
		{"a channel to share", args, testPod("p", claiming("shared")), demand{domain: "ns/shared", channel: "ns/shared"}},
		{"a GPU to share", args, testPod("p", claiming("group")), demand{accelerators: 1}},
		{"extended resources", args, testPod("p", requesting(0, map[v1.ResourceName]string{"nvidia.com/gpu": "2", "rdma/ib": "1"})), demand{accelerators: 2, rdma: true}},
		{"an extended resource that devices stand for", args, testPod("p", requesting(0, map[v1.ResourceName]string{"example.com/backed": "3"})), demand{accelerators: 3}},
		{"a host port", args, testPod("p", func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} }), demand{most: 1}},
		{"apart by host", args, testPod("p", labelled("app", "x"), apartBy(v1.LabelHostname, "app", "x")), demand{most: 1}},
		{"apart from others", args, testPod("p", labelled("app", "x"), apartBy(v1.LabelHostname, "app", "y")), demand{}},
		{"apart by zone", args, testPod("p", labelled("app", "x"), apartBy(v1.LabelTopologyZone, "app", "x")), demand{}},
		{"RDMA by the host", always, testPod("p"), demand{rdma: true}},
	} {
		got := demandOf(tc.args, tc.pod, sorts, w.claim)
		got.requests = nil
		if diff := cmp.Diff(&tc.want, got, cmp.AllowUnexported(demand{}, deviceDemand{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestANodePreparedForAnotherDomainIsRefused(t *testing.T) {
	node := func(uid string) *v1.Node {
		n := &v1.Node{}
		if uid != "" {
			n.Labels = map[string]string{labelComputeDomain: uid}
		}
		return n
	}
	for _, tc := range []struct {
		name   string
		demand demand
		node   *v1.Node
		want   bool
	}{
		{"no node label", demand{domain: "a", domainUID: "a"}, node(""), true},
		{"the same domain", demand{domain: "a", domainUID: "a"}, node("a"), true},
		{"another domain", demand{domain: "a", domainUID: "a"}, node("b"), false},
		{"a domain whose UID is not known", demand{domain: "ns/t"}, node("b"), true},
		{"no channel", demand{}, node("b"), true},
	} {
		if status := admitsDomain(&tc.demand, tc.node); status.IsSuccess() != tc.want {
			t.Errorf("%s: got %v", tc.name, status)
		}
	}
}
