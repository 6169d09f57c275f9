// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
)

// The tests here are of GPUs and NICs of one pod that should be near each other.

const pcieRoot = "resource.kubernetes.io/pcieRoot"

// nicClass creates the DeviceClass of the scenario's own RDMA NICs, and returns its name.
func (s *scenario) nicClass() string {
	s.t.Helper()
	class := "nics." + s.ownDriver()
	s.deviceClass(class, fmt.Sprintf("device.driver == %q", class))
	return class
}

// hgx gives the node 8 devices of each class: a GPU and a NIC on each of 8 PCIe roots,
// four at each NUMA node. They are published in orders that have nothing in common.
func hgx(gpuClass, nicClass string) nodeOption {
	publish := func(class, name string, order []int, rdma bool) nodeOption {
		var devices []resourcev1.Device
		for _, i := range order {
			numa := int64(i / 4)
			d := device(name+"-"+strconv.Itoa(i), pcieRoot, fmt.Sprintf("pci0000:%d0", i), "slot", strconv.Itoa(i))
			d.Attributes["dra.net/numaNode"] = resourcev1.DeviceAttribute{IntValue: &numa}
			if rdma {
				d.Attributes["dra.net/rdma"] = resourcev1.DeviceAttribute{BoolValue: &rdma}
			}
			devices = append(devices, d)
		}
		return publishes(class, devices...)
	}
	gpus := publish(gpuClass, "gpu", []int{5, 0, 3, 6, 1, 7, 4, 2}, false)
	nics := publish(nicClass, "nic", []int{2, 4, 7, 1, 0, 6, 3, 5}, true)
	return func(s *shape.Shape) {
		gpus(s)
		nics(s)
	}
}

// slotsOf returns the slots of a pod's GPUs and NICs.
func (s *scenario) slotsOf(pod string) (gpus, nics []int) {
	s.t.Helper()
	for _, r := range s.devicesOf(pod) {
		name, number, _ := strings.Cut(r.Device, "-")
		slot, err := strconv.Atoi(number)
		s.must(err)
		if name == "gpu" {
			gpus = append(gpus, slot)
		} else {
			nics = append(nics, slot)
		}
	}
	return gpus, nics
}

// Nothing in the API ties the devices of two claims together.
func TestGPUAndNICOfTwoClaimsAreNear(t *testing.T) {
	s := shared(t)
	gpuClass, nicClass := s.ownClass(), s.nicClass()
	s.node("x", hgx(gpuClass, nicClass))
	s.template("one-gpu", claimSpec(request("gpu", gpuClass, 1)))
	s.template("one-nic", claimSpec(request("nic", nicClass, 1)))
	pods := names("g", 8)
	s.gang("g", group("w", 8, pods...))
	for i, pod := range pods {
		claims := []podOption{fromTemplate("one", "one-gpu"), fromTemplate("two", "one-nic")}
		if i%2 > 0 {
			claims = []podOption{fromTemplate("one", "one-nic"), fromTemplate("two", "one-gpu")}
		}
		s.pod(pod, append(claims, of("g"))...)
	}
	s.bound(pods...)
	s.haveDevices(2, pods...)
	for _, pod := range pods {
		if gpus, nics := s.slotsOf(pod); len(gpus) != 1 || len(nics) != 1 || gpus[0] != nics[0] {
			t.Errorf("pod %s has GPU %v and NIC %v, want one of each on one PCIe root", pod, gpus, nics)
		}
	}
}

// A GB200 tray: no GPU shares a PCIe root with a NIC, and the driver of the GPUs does not
// tell their NUMA nodes. What machines of that product have is known.
func TestGB200GPUAndNICAreOfOneNUMANode(t *testing.T) {
	s := shared(t)
	gpuClass, nicClass := s.ownClass(), s.nicClass()
	var gpus, nics []resourcev1.Device
	for _, domain := range []string{"0019", "0008", "0018", "0009"} {
		gpus = append(gpus, device("gpu-"+domain, "productName", "NVIDIA GB200",
			"resource.kubernetes.io/pciBusID", domain+":06:00.0", pcieRoot, "pci"+domain+":00"))
	}
	for _, domain := range []string{"0000", "0002", "0010", "0012"} {
		numa := int64(0)
		if domain >= "0010" {
			numa = 1
		}
		nic := device("nic-"+domain, pcieRoot, "pci"+domain+":00")
		nic.Attributes["dra.net/numaNode"] = resourcev1.DeviceAttribute{IntValue: &numa}
		nic.Attributes["dra.net/rdma"] = resourcev1.DeviceAttribute{BoolValue: ptr.To(true)}
		nics = append(nics, nic)
	}
	s.node("x", publishes(gpuClass, gpus...), publishes(nicClass, nics...))
	s.template("both", claimSpec(request("gpu", gpuClass, 1), request("nic", nicClass, 1)))
	pods := names("g", 4)
	s.gang("g", group("w", 4, pods...))
	s.members("g", 4, fromTemplate("both", "both"))
	s.bound(pods...)
	for _, pod := range pods {
		// Of both, those of NUMA node 1 have the greater third digit.
		chosen := s.devicesOf(pod)
		if len(chosen) != 2 || chosen[0].Device[6] != chosen[1].Device[6] {
			t.Errorf("pod %s has %v, want a GPU and a NIC of one NUMA node", pod, chosen)
		}
	}
}

func TestGPUsAreOfOneNUMANode(t *testing.T) {
	s := shared(t)
	gpuClass, nicClass := s.ownClass(), s.nicClass()
	s.node("x", hgx(gpuClass, nicClass))
	s.template("four", claimSpec(request("gpu", gpuClass, 4)))
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, fromTemplate("four", "four"))
	s.bound(pods...)
	s.haveDevices(4, pods...)
	for _, pod := range pods {
		gpus, _ := s.slotsOf(pod)
		for _, slot := range gpus {
			if slot/4 != gpus[0]/4 {
				t.Errorf("pod %s has GPUs %v, which are of two NUMA nodes", pod, gpus)
				break
			}
		}
	}
}

// The NICs of four PCIe roots are taken. Four pods want a GPU with a NIC on its root, and
// four a GPU alone: none of these may be on one of the other four roots.
func TestPodsWithoutNICsLeaveGPUsWithNICs(t *testing.T) {
	s := shared(t)
	gpuClass, nicClass := s.ownClass(), s.nicClass()
	s.node("x", hgx(gpuClass, nicClass))
	s.template("holder", claimSpec(changed(request("nic", nicClass, 4), selecting(fmt.Sprintf("device.attributes[%q].slot in ['1', '3', '4', '6']", nicClass)))))
	s.template("one-gpu", claimSpec(request("gpu", gpuClass, 1)))
	spec := claimSpec(request("gpu", gpuClass, 1), request("nic", nicClass, 1))
	attribute := resourcev1.FullyQualifiedName(pcieRoot)
	spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &attribute}}
	s.template("both", spec)
	s.gang("holder", group("w", 1, "holder-0"))
	s.members("holder", 1, fromTemplate("four", "holder"))
	s.bound("holder-0")

	for i, order := range []string{"ggggbbbb", "bbbbgggg", "gbgbgbgb", "bggbbggb"} {
		gang := fmt.Sprintf("g%d", i)
		pods := names(gang, len(order))
		s.gang(gang, group("w", len(order), pods...))
		for j, kind := range order {
			template := "one-gpu"
			if kind == 'b' {
				template = "both"
			}
			s.pod(pods[j], of(gang), fromTemplate("one", template))
		}
		s.bound(pods...)
		for j, kind := range order {
			gpus, nics := s.slotsOf(pods[j])
			if len(gpus) != 1 || kind == 'b' && (len(nics) != 1 || nics[0] != gpus[0]) {
				t.Errorf("order %s: pod %s has GPU %v and NIC %v", order, pods[j], gpus, nics)
			}
		}
		s.gone(gang, pods...)
	}
}
