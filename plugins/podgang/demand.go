// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/devices"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// channelClass is the DeviceClass of IMEX channels that NVIDIA's driver installs.
const channelClass = "compute-domain-default-channel.nvidia.com"

// demand is what one pod of a class asks for, as far as the search counts it and the
// score looks at it.
type demand struct {
	// requests are the amounts of resources, devices not included.
	requests v1.ResourceList
	// devices are what the pod's claims and extended resources ask for by number. A
	// claim that other pods may share is left out.
	devices []deviceDemand
	// choices are the alternatives of each request that names several.
	choices [][]deviceDemand
	// most is how many pods of the class one node can hold whatever it has, 0 for
	// no limit.
	most int

	// accelerators is how many the pod has, rdma whether it reaches an RDMA device.
	accelerators float64
	rdma         bool
	// domain names the ComputeDomain of the pod's channel, "" if it has none, and
	// domainUID is its UID if that is known. channel names the claim for the channel
	// if others may share it.
	domain, domainUID, channel string
}

// deviceDemand is a number of devices of one sort.
type deviceDemand struct {
	want  gangresources.Want
	count int64
}

// hasDomain reports whether the pod claims an IMEX channel.
func (d *demand) hasDomain() bool { return d.domain != "" }

// natures tells what sort of device a request gets, and which class stands for an
// extended resource.
type natures interface {
	Nature(want gangresources.Want) gangresources.Nature
	ClassOfResource(name v1.ResourceName) string
}

// demandOf reads the pod. claimOf returns the claim behind an entry, nil if it is
// not known.
func demandOf(args *config.PodGangArgs, pod *v1.Pod, sorts natures, claimOf func(*v1.Pod, *v1.PodResourceClaim) *resourceapi.ResourceClaim) *demand {
	d := &demand{
		requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
		rdma:     args.RDMA.Assume == config.RDMAAlways,
	}
	for name, quantity := range d.requests {
		class := sorts.ClassOfResource(name)
		switch {
		case quantity.IsZero():
			continue
		case slices.Contains(args.Accelerators.ExtendedResources, string(name)):
			d.accelerators += quantity.AsApproximateFloat64()
		case class != "":
			d.adds(args, sorts, gangresources.Want{Class: class}, quantity.Value())
		}
		d.rdma = d.rdma || slices.Contains(args.RDMA.ExtendedResources, string(name))
	}
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		if claim := claimOf(pod, entry); claim != nil {
			d.addClaim(args, sorts, entry, claim)
		}
	}
	if usesHostPorts(pod) || keepsApart(pod) {
		d.most = 1
	}
	return d
}

// adds notes a number of devices for the score, and returns what they are.
func (d *demand) adds(args *config.PodGangArgs, sorts natures, want gangresources.Want, count int64) gangresources.Nature {
	nature := sorts.Nature(want)
	if nature.Accelerators == 0 && slices.Contains(args.Accelerators.DeviceClasses, want.Class) {
		nature.Accelerators = 1
	}
	nature.RDMA = nature.RDMA || slices.Contains(args.RDMA.DeviceClasses, want.Class)
	nature.Channel = nature.Channel || want.Class == channelClass
	d.accelerators += nature.Accelerators * float64(count)
	d.rdma = d.rdma || nature.RDMA
	return nature
}

// addClaim notes what a claim asks for. A claim by name may be shared: what it asks
// for is then needed once for all its users, and not counted for any.
func (d *demand) addClaim(args *config.PodGangArgs, sorts natures, entry *v1.PodResourceClaim, claim *resourceapi.ResourceClaim) {
	named := entry.ResourceClaimName != nil
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		want, count, exact := read(request)
		if want.Class == "" || request.Exactly != nil && ptr.Deref(request.Exactly.AdminAccess, false) {
			continue
		}
		nature := d.adds(args, sorts, want, count)
		if nature.Channel {
			d.domain, d.domainUID = domainOf(entry, claim)
			if named {
				d.channel = claim.Namespace + "/" + claim.Name
			}
		}
		switch {
		case named || claim.Status.Allocation != nil:
		case exact:
			d.devices = append(d.devices, deviceDemand{want: want, count: count})
		case request.Exactly != nil:
			if !nature.Shared {
				// All devices of a node are for one pod.
				d.most = 1
			}
		default:
			d.addChoice(request)
		}
	}
}

// addChoice notes the alternatives of a request. One that takes all devices of a node
// counts as one device.
func (d *demand) addChoice(request *resourceapi.DeviceRequest) {
	var choice []deviceDemand
	for i, want := range gangresources.Wants(request) {
		choice = append(choice, deviceDemand{want: want, count: max(1, request.FirstAvailable[i].Count)})
	}
	d.choices = append(d.choices, choice)
}

// read returns what a request asks for. Of alternatives it is the first, and of all
// devices of a node one. exact tells that it is that number of that sort and nothing
// else.
func read(request *resourceapi.DeviceRequest) (want gangresources.Want, count int64, exact bool) {
	wants := gangresources.Wants(request)
	switch {
	case len(wants) == 0:
		return gangresources.Want{}, 0, false
	case request.Exactly == nil:
		return wants[0], max(1, request.FirstAvailable[0].Count), false
	case request.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll:
		return wants[0], 1, false
	}
	return wants[0], max(1, request.Exactly.Count), true
}

// domainOf names the ComputeDomain of a claim for a channel: by the UID in the
// driver's configuration in the claim, else by the template or the claim itself.
func domainOf(entry *v1.PodResourceClaim, claim *resourceapi.ResourceClaim) (name, uid string) {
	configs := make([]*resourceapi.OpaqueDeviceConfiguration, 0, 2)
	for i := range claim.Spec.Devices.Config {
		configs = append(configs, claim.Spec.Devices.Config[i].Opaque)
	}
	if allocation := claim.Status.Allocation; allocation != nil {
		for i := range allocation.Devices.Config {
			configs = append(configs, allocation.Devices.Config[i].Opaque)
		}
	}
	for _, opaque := range configs {
		if opaque == nil || opaque.Driver != devices.DriverComputeDomain {
			continue
		}
		var parameters struct {
			DomainID string `json:"domainID"`
		}
		if err := json.Unmarshal(opaque.Parameters.Raw, &parameters); err == nil && parameters.DomainID != "" {
			return parameters.DomainID, parameters.DomainID
		}
	}
	if entry.ResourceClaimTemplateName != nil {
		return claim.Namespace + "/" + *entry.ResourceClaimTemplateName, ""
	}
	return claim.Namespace + "/" + claim.Name, ""
}

// keepsApart reports whether two such pods may not be on one node by their own
// anti-affinity.
func keepsApart(pod *v1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err == nil && term.TopologyKey == v1.LabelHostname && len(term.Namespaces) == 0 && term.NamespaceSelector == nil &&
			len(term.MatchLabelKeys) == 0 && len(term.MismatchLabelKeys) == 0 && selector.Matches(labels.Set(pod.Labels)) {
			return true
		}
	}
	return false
}

// usesHostPorts reports whether two such pods cannot be on one node.
func usesHostPorts(pod *v1.Pod) bool {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				return true
			}
		}
	}
	return false
}
