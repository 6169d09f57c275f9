// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

// One claim for all: it is allocated once, where all of them can use it.
func TestClaimSharedByMembersOfAGang(t *testing.T) {
	s := shared(t)
	s.plainPods(names("solo", 2), gpu)
	pods := names("g", 4)
	s.claim("common", claimSpec(request("gpu", gpuClass, 1)))
	s.gang("g", group("w", 4, pods...))
	s.members("g", 4, claim("common"))
	s.unschedulable(pods, gpuClass)
	s.holdsNothing(pods...)
	s.deletePods("solo-0")
	s.bound(pods...)
	node := s.getPod(pods[0]).Spec.NodeName
	for _, name := range pods {
		pod := s.getPod(name)
		if pod.Spec.NodeName != node {
			t.Errorf("%s is on %s, and %s on %s, with one device", name, pod.Spec.NodeName, pods[0], node)
		}
		if !reservedFor(s.claimsOf(pod)[0], pod) {
			t.Errorf("the claim is not reserved for %s", name)
		}
	}
}

// A claim of each member's own besides the one that they share.
func TestSharedClaimBesideOwnClaims(t *testing.T) {
	s := shared(t)
	node := s.node("big", gpus(3, "NVIDIA L40S"))
	pods := names("g", 2)
	s.claim("common", claimSpec(request("gpu", gpuClass, 1)))
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, gpu, claim("common"))
	s.bound(pods...)
	for _, name := range pods {
		if got := s.getPod(name).Spec.NodeName; got != node {
			t.Errorf("%s is on %s: only %s has 3 GPUs", name, got, node)
		}
	}
}

// The claim is in use outside the gang already.
func TestGangJoinsAClaimThatIsInUse(t *testing.T) {
	s := shared(t)
	s.claim("common", claimSpec(request("gpu", gpuClass, 1)))
	s.plainPods([]string{"first"}, claim("common"))
	pods := names("g", 3)
	s.gang("g", group("w", 3, pods...))
	s.pod(pods[0], of("g"), claim("common"))
	s.pod(pods[1], of("g"), claim("common"))
	s.pod(pods[2], of("g"), gpu)
	s.bound(pods...)
	if a, b := s.getPod("first").Spec.NodeName, s.getPod(pods[0]).Spec.NodeName; a != b {
		t.Errorf("the claim is used on %s and on %s", a, b)
	}
}

func TestSeveralDevicesForOnePod(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []podOption
	}{
		{"two claims", []podOption{gpu, fromTemplate("second", gpuTemplate)}},
		{"one claim with a count", []podOption{fromTemplate("pair", "pair")}},
		{"one claim with two requests", []podOption{fromTemplate("both", "both")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			s.template("pair", claimSpec(request("gpu", gpuClass, 2)))
			s.template("both", claimSpec(request("one", gpuClass, 1), request("two", gpuClass, 1)))
			s.gang("g", group("pair", 1, "pair"), group("single", 1, "single"))
			s.pod("pair", append([]podOption{of("g")}, tc.opts...)...)
			s.pod("single", of("g"), gpu)
			pods := []string{"pair", "single"}
			// Two GPUs are there, on two nodes.
			s.unschedulable(pods, "group pair")
			s.holdsNothing(pods...)
			node := s.node("big", gpus(2, "NVIDIA L40S"))
			s.bound(pods...)
			if got := s.getPod("pair").Spec.NodeName; got != node {
				t.Errorf("the pod with two devices is on %s, want %s", got, node)
			}
			if got := s.getPod("single").Spec.NodeName; got == node {
				t.Errorf("the pod with one device is on %s too", got)
			}
		})
	}
}

// Two GPUs of one product, two of another: the list of alternatives lets all four run.
func TestAlternativesWithinAGang(t *testing.T) {
	s := shared(t)
	s.node("x", gpus(1, "NVIDIA T4"))
	s.node("y", gpus(1, "NVIDIA T4"))
	alternative := func(name, product string) resourcev1.DeviceSubRequest {
		return resourcev1.DeviceSubRequest{
			Name: name, DeviceClassName: gpuClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: fmt.Sprintf(`device.attributes["gpu.nvidia.com"].productName == %q`, product),
			}}},
		}
	}
	s.template("either", claimSpec(resourcev1.DeviceRequest{Name: "gpu", FirstAvailable: []resourcev1.DeviceSubRequest{
		alternative("l40s", "NVIDIA L40S"), alternative("t4", "NVIDIA T4"),
	}}))
	five := names("g", 5)
	s.gang("g", group("w", 5, five...))
	s.members("g", 5, fromTemplate("gpu", "either"))
	s.unschedulable(five, "5 pods", "room for 4")
	s.holdsNothing(five...)
	s.setFloor("g", 4)
	s.boundOf(4, five...)
	s.node("z", gpus(1, "NVIDIA L40S"))
	s.bound(five...)
}

// GPUs that a device plugin reports, without claims.
func TestGPUsOfADevicePlugin(t *testing.T) {
	s := shared(t)
	node := s.node("plugin", allocatable(gpuResource, "1"))
	pods := names("g", 3)
	s.gang("g", group("front", 1, pods[0]), group("worker", 2, pods[1:]...))
	s.pod(pods[0], of("g"), inRoom(s.ns))
	for _, name := range pods[1:] {
		s.pod(name, of("g"), inRoom(s.ns), extendedGPU)
	}
	s.unschedulable(pods, "group worker", gpuResource)
	s.holdsNothing(pods...)
	s.setAllocatable(node, gpuResource, "2")
	s.bound(pods...)
}

// The same request where DRA serves it, as the class of GPUs says.
func TestExtendedResourceServedByDRAInAGang(t *testing.T) {
	s := shared(t)
	s.takeGPU("solo")
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, extendedGPU)
	s.unschedulable(pods, "group w")
	s.holdsNothing(pods...)
	s.gpusUsable(1)
	s.deletePods("solo")
	s.bound(pods...)
	for _, name := range pods {
		s.until("the pod has a claim that is allocated and reserved for it", func() string {
			pod := s.getPod(name)
			if claims := s.claimsOf(pod); len(claims) != 1 || claims[0].Status.Allocation == nil || !reservedFor(claims[0], pod) {
				return fmt.Sprintf("its claims are %v", claims)
			}
			return ""
		})
	}
}

// A device plugin's GPU for one member, DRA for another, and none for a third.
func TestMixedKindsOfDevicesInAGang(t *testing.T) {
	s := shared(t)
	s.node("plugin", allocatable(gpuResource, "1"))
	s.plainPods(names("solo", 2), gpu)
	pods := []string{"front", "plugin", "dra"}
	s.gang("g", group("w", 3, pods...))
	s.pod("front", of("g"), cpu("1"))
	s.pod("plugin", of("g"), inRoom(s.ns), extendedGPU)
	s.pod("dra", of("g"), gpu)
	s.unschedulable(pods)
	s.holdsNothing(pods...)
	s.deletePods("solo-0")
	s.bound(pods...)
}
