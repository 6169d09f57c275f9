// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/devices"
)

const (
	nicClass = "nic.example.com"
	pcieRoot = "resource.kubernetes.io/pcieRoot"
)

// hgxCluster has one machine with GPUs and NICs, and a class of each.
func hgxCluster(claims ...*resourceapi.ResourceClaim) []runtime.Object {
	objects := append(cluster(nil), hgx("n1", 3)...)
	objects = append(objects, &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: nicClass, UID: "nic-class"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: `device.driver == "` + nicDriver + `"`,
		}}}},
	})
	for _, claim := range claims {
		objects = append(objects, claim)
	}
	return objects
}

// nicClaim returns a claim for one NIC.
func nicClaim(name string, selectors ...string) *resourceapi.ResourceClaim {
	claim := makeClaim(name)
	request := claim.Spec.Devices.Requests[0].Exactly
	request.DeviceClassName = nicClass
	for _, s := range selectors {
		request.Selectors = append(request.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: s}})
	}
	return claim
}

// names are the devices of an allocation, without their pool.
func names(allocations ...*Allocation) []string {
	var list []string
	for _, name := range chosen(allocations...) {
		list = append(list, strings.FieldsFunc(name, func(r rune) bool { return r == '+' || r == ',' })...)
	}
	slices.Sort(list)
	return list
}

func TestDevicesOfTwoClaimsAreNear(t *testing.T) {
	nearSix := nicClaim("nic", `device.attributes["resource.kubernetes.io"].pcieRoot == "pci6"`)
	for _, tc := range []struct {
		name    string
		objects []runtime.Object
		pod     *v1.Pod
	}{
		{"GPU first", hgxCluster(makeClaim("gpu"), nicClaim("nic")), makePod("p", "gpu", "nic")},
		{"NIC first", hgxCluster(makeClaim("gpu"), nicClaim("nic")), makePod("p", "nic", "gpu")},
		{"one of them given", hgxCluster(makeClaim("gpu"), nearSix), makePod("p", "gpu", "nic")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.objects...)
			got := names(f.allocate(f.session(), tc.pod, "n1"))
			if len(got) != 2 || strings.TrimPrefix(got[0], "gpu-") != strings.TrimPrefix(got[1], "nic-") {
				t.Errorf("the pod has %v, want a GPU and the NIC on its root", got)
			}
		})
	}
}

func TestDevicesAreNearThoseOfAClaimAllocatedBefore(t *testing.T) {
	f := newFixture(t, hgxCluster(nicClaim("shared", `device.attributes["resource.kubernetes.io"].pcieRoot == "pci6"`), makeClaim("gpu"))...)
	s := f.session()
	f.allocate(s, makePod("first", "shared"), "n1")
	got := f.allocate(s, makePod("second", "gpu", "shared"), "n1")
	if names := names(got); !slices.Contains(names, "gpu-6") {
		t.Errorf("the pod has %v, want the GPU beside nic-6", names)
	}
}

func TestExtendedResourcesAreChosenLikeClaims(t *testing.T) {
	f := newFixture(t, hgxCluster()...)
	class, err := f.plugin.manager.DeviceClasses().Get(gpuClass)
	noError(t, err)
	class = class.DeepCopy()
	class.Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	// The scheduler feeds it from its informer.
	f.plugin.manager.DeviceClassResolver().(cache.ResourceEventHandler).OnAdd(class, true)
	pod := makePod("p")
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"example.com/gpu": resource.MustParse("4")}}}}
	got := names(f.allocate(f.session(), pod, "n1"))
	if first := []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3"}; !slices.Equal(got, first) && !slices.Equal(got, []string{"gpu-4", "gpu-5", "gpu-6", "gpu-7"}) {
		t.Errorf("the pod has %v, want four GPUs of one NUMA node", got)
	}
}

// What the in-tree plugin makes of a claim does not change with the order of devices.
func TestOrderChangesNothingElse(t *testing.T) {
	all := makeClaim("all")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode, all.Spec.Devices.Requests[0].Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	admin := makeClaim("admin")
	admin.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	either := makeClaim("either")
	sub := func(name, expression string, count int64) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{
			Name: name, DeviceClassName: gpuClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
		}
	}
	root := `device.attributes["resource.kubernetes.io"].pcieRoot`
	either.Spec.Devices.Requests[0].Exactly = nil
	either.Spec.Devices.Requests[0].FirstAvailable = []resourceapi.DeviceSubRequest{
		sub("none", root+` == "pci9"`, 1), sub("two", root+` in ["pci1", "pci5", "pci6"]`, 2), sub("one", "true", 1),
	}
	attribute := resourceapi.FullyQualifiedName(pcieRoot)
	pair := makeClaim("pair")
	pair.Spec.Devices.Requests = append(pair.Spec.Devices.Requests, *nicClaim("x").Spec.Devices.Requests[0].DeepCopy())
	pair.Spec.Devices.Requests[1].Name = "nic"
	pair.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute}}
	for _, tc := range []struct {
		claim *resourceapi.ResourceClaim
		want  func(names []string) bool
	}{
		{all, func(names []string) bool { return len(names) == 8 }},
		{admin, func(names []string) bool { return len(names) == 1 }},
		{either, func(names []string) bool { return slices.Equal(names, []string{"gpu-5", "gpu-6"}) }},
		{pair, func(names []string) bool { return len(names) == 2 && names[0][4:] == names[1][4:] }},
	} {
		t.Run(tc.claim.Name, func(t *testing.T) {
			f := newFixture(t, append(hgxCluster(tc.claim.DeepCopy()), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: namespace, Labels: map[string]string{resourceapi.DRAAdminNamespaceLabelKey: "true"},
			}})...)
			if got := names(f.allocate(f.session(), makePod("p", tc.claim.Name), "n1")); !tc.want(got) {
				t.Errorf("the pod has %v", got)
			}
		})
	}
}

// A search that ends at once in the order in which devices are published must not be
// lost because it would take years in another.
func TestPublishedOrderIsTriedWhenTheSearchInAnotherIsCutShort(t *testing.T) {
	claim := exploding()
	claim.Spec.Devices.Constraints = nil
	last := claim.Spec.Devices.Requests[len(claim.Spec.Devices.Requests)-1].Exactly
	last.Selectors = ofKind("only")
	var list []resourceapi.Device
	for i := range 31 {
		list = append(list, kind(fmt.Sprintf("d-%d", i), "any"))
	}
	list = append(list, kind("wanted", "only"))
	f := newFixture(t, append(append(cluster(nil), claim), nodeWith("n1", nil, list...)...)...)
	s := f.session()
	trap := devices.Arrangement{Rank: map[structured.DeviceID]float64{structured.MakeDeviceID(driver, "n1", "wanted"): -1}}
	pod, node := makePod("a", "a"), nodeInfo("n1")
	if a, status := s.allocate(f.ctx, pod, node, trap); a != nil || !strings.Contains(status.Message(), "cut short") {
		t.Fatalf("the search in this order should be cut short, got %v, %v", chosen(a), status)
	}
	if a, status := s.allocateArranged(f.ctx, pod, node, trap); a == nil {
		t.Errorf("got a refusal: %v", status)
	}
}
