// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/devices"
)

// arrange returns the arrangement of the node's devices in which the in-tree plugin
// takes those for the pod that it should get.
func (s *Session) arrange(pod *v1.Pod, node *v1.Node) devices.Arrangement {
	world := s.inventory.World(node.Name)
	if len(world) == 0 {
		return devices.Arrangement{}
	}
	demand := s.demand(pod, node, world)
	if len(demand.Asks) == 0 {
		return devices.Arrangement{}
	}
	return s.plugin.chooser.Arrange(node.Name, world, s.ledger, demand)
}

// demand reads what the pod asks for.
func (s *Session) demand(pod *v1.Pod, node *v1.Node, world []*resourceapi.ResourceSlice) devices.Demand {
	var demand devices.Demand
	for i := range pod.Spec.ResourceClaims {
		claim, allocation := s.claimOf(pod, &pod.Spec.ResourceClaims[i])
		switch {
		case claim == nil:
		case allocation != nil:
			demand.Held = append(demand.Held, devicesIn(allocation)...)
		default:
			demand.Asks = s.appendAsks(demand.Asks, claim, world)
		}
	}
	s.addExtended(&demand, pod, node)
	return demand
}

// claimOf returns the claim behind a pod's entry and what has been allocated for it,
// by the session or before.
func (s *Session) claimOf(pod *v1.Pod, entry *v1.PodResourceClaim) (*resourceapi.ResourceClaim, *resourceapi.AllocationResult) {
	name, _, err := resourceclaim.Name(pod, entry)
	if err != nil || name == nil {
		return nil, nil
	}
	claim, err := s.plugin.manager.ResourceClaims().Get(pod.Namespace, *name)
	if err != nil {
		return nil, nil
	}
	if allocation := claim.Status.Allocation; allocation != nil {
		return claim, allocation
	}
	return claim, planningClaims{s.plugin.view}.GetPendingAllocation(claim.UID)
}

func devicesIn(allocation *resourceapi.AllocationResult) []structured.DeviceID {
	var ids []structured.DeviceID
	for i := range allocation.Devices.Results {
		r := &allocation.Devices.Results[i]
		if !ptr.Deref(r.AdminAccess, false) {
			ids = append(ids, structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return ids
}

// appendAsks appends what the requests of a claim ask for. Of alternatives it is the
// first for which there are enough devices. Admin access is to devices whoever has
// them, and none to choose.
func (s *Session) appendAsks(asks []devices.Ask, claim *resourceapi.ResourceClaim, world []*resourceapi.ResourceSlice) []devices.Ask {
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		match := matching(claim, request.Name)
		if exactly := request.Exactly; exactly != nil {
			if ask, ok := s.ask(exactly.DeviceClassName, exactly.Selectors, exactly.Tolerations, exactly.AllocationMode, exactly.Count); ok && !ptr.Deref(exactly.AdminAccess, false) {
				ask.Match = match
				asks = append(asks, ask)
			}
			continue
		}
		for j := range request.FirstAvailable {
			sub := &request.FirstAvailable[j]
			ask, ok := s.ask(sub.DeviceClassName, sub.Selectors, sub.Tolerations, sub.AllocationMode, sub.Count)
			if enough := max(1, ask.Count); ok && devices.Usable(world, s.ledger, enough, ask.Meant) >= enough {
				ask.Match = match
				asks = append(asks, ask)
				break
			}
		}
	}
	return asks
}

// ask returns what a request asks for; ok is false if its class does not exist.
func (s *Session) ask(class string, selectors []resourceapi.DeviceSelector, tolerations []resourceapi.DeviceToleration, mode resourceapi.DeviceAllocationMode, count int64) (ask devices.Ask, ok bool) {
	deviceClass, err := s.plugin.manager.DeviceClasses().Get(class)
	if err != nil {
		return devices.Ask{}, false
	}
	return devices.Ask{
		Count: int(count),
		All:   mode == resourceapi.DeviceAllocationModeAll,
		Meant: func(slice *resourceapi.ResourceSlice) []bool {
			return tolerated(slice, s.plugin.classifier.Wanted(slice, deviceClass, selectors), tolerations)
		},
	}, true
}

// tolerated leaves out devices with taints that are not tolerated.
func tolerated(slice *resourceapi.ResourceSlice, meant []bool, tolerations []resourceapi.DeviceToleration) []bool {
	shared := true
	for i := range slice.Spec.Devices {
		for _, taint := range slice.Spec.Devices[i].Taints {
			if !meant[i] || taint.Effect != resourceapi.DeviceTaintEffectNoSchedule && taint.Effect != resourceapi.DeviceTaintEffectNoExecute ||
				slices.ContainsFunc(tolerations, func(t resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(t, taint) }) {
				continue
			}
			if shared {
				meant, shared = slices.Clone(meant), false
			}
			meant[i] = false
		}
	}
	return meant
}

// matching returns the attributes on which the devices of a request have to agree
// with each other or with those of other requests.
func matching(claim *resourceapi.ResourceClaim, request string) []string {
	var match []string
	for _, c := range claim.Spec.Devices.Constraints {
		if c.MatchAttribute != nil && (len(c.Requests) == 0 || slices.ContainsFunc(c.Requests, func(name string) bool {
			return resourceclaim.BaseRequestRef(name) == request
		})) {
			match = append(match, string(*c.MatchAttribute))
		}
	}
	return match
}

// addExtended adds the extended resources of the pod. Those that a DeviceClass stands
// for and the node does not have itself are devices to choose. Others may be NICs
// that the kubelet chooses.
func (s *Session) addExtended(demand *devices.Demand, pod *v1.Pod, node *v1.Node) {
	if !asksExtended(pod) {
		return
	}
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		quantity := requests[name]
		if quantity.IsZero() || !schedutil.IsDRAExtendedResourceName(name) {
			continue
		}
		class := s.plugin.manager.DeviceClassResolver().GetDeviceClass(name)
		if own := node.Status.Allocatable[name]; class == nil || !own.IsZero() {
			demand.OtherNICs = true
			continue
		}
		if ask, ok := s.ask(class.Name, nil, nil, resourceapi.DeviceAllocationModeExactCount, quantity.Value()); ok {
			demand.Asks = append(demand.Asks, ask)
		}
	}
}

// asksExtended reports whether the pod may ask for extended resources. It takes less
// time than to add up what its containers ask for.
func asksExtended(pod *v1.Pod) bool {
	asks := func(containers []v1.Container) bool {
		return slices.ContainsFunc(containers, func(c v1.Container) bool {
			for name := range c.Resources.Requests {
				if schedutil.IsDRAExtendedResourceName(name) {
					return true
				}
			}
			return false
		})
	}
	return asks(pod.Spec.Containers) || asks(pod.Spec.InitContainers)
}
