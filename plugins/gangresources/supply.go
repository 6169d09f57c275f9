// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/devices"
)

// Want is what a request asks for, apart from the number.
type Want struct {
	// Class is a DeviceClass, Selectors are those of the request besides.
	Class     string
	Selectors []resourceapi.DeviceSelector
}

// plenty is the supply of a device that several claims may share.
const plenty = 1 << 20

// Supply returns how many devices of a sort a node has, and how many of them can be
// had now. Neither is too low: of devices that share counters each is counted, one
// that several claims may share counts as plenty, and those of pools that are not
// tied to one node count for every node.
func (s *Session) Supply(node string, want Want) (total, free int64) {
	class, err := s.plugin.manager.DeviceClasses().Get(want.Class)
	if err != nil {
		return 0, 0
	}
	key := want.key()
	common, known := s.common[key]
	if !known {
		var shareable bool
		common = s.inventory.Shared(s.meant(class, want, &shareable))
		if shareable {
			common = plenty
		}
		s.common[key] = common
	}
	counted := s.count(node, class, want)
	if counted.shareable || common == plenty {
		return plenty, plenty
	}
	return int64(counted.total + common), int64(counted.free + common)
}

// countKey names a sort of device on a node.
type countKey struct {
	node, want string
}

// count is the number of devices of a sort that a node publishes by name, as it was at a
// version of the ledger.
type count struct {
	total, free int
	// shareable is set when several claims may share one of them.
	shareable bool
	at        int
}

// count counts the devices of a sort on a node, once for each version of the ledger.
func (s *Session) count(node string, class *resourceapi.DeviceClass, want Want) count {
	key := countKey{node: node, want: want.key()}
	if known, ok := s.counts[key]; ok && known.at == s.ledger.Version() {
		return known
	}
	c := count{at: s.ledger.Version()}
	c.total, c.free = s.inventory.Count(node, s.ledger, s.meant(class, want, &c.shareable))
	s.counts[key] = c
	return c
}

// meant selects the devices of a sort, and notes whether several claims may share one.
func (s *Session) meant(class *resourceapi.DeviceClass, want Want, shareable *bool) devices.Selector {
	return func(slice *resourceapi.ResourceSlice) []bool {
		wanted := s.plugin.classifier.Wanted(slice, class, want.Selectors)
		for i := range wanted {
			if wanted[i] && ptr.Deref(slice.Spec.Devices[i].AllowMultipleAllocations, false) {
				*shareable = true
			}
		}
		return wanted
	}
}

// key is equal for equal wants.
func (w Want) key() string {
	return w.Class + "\n" + devices.SelectorKey(w.Selectors)
}

// Nature is what sort of device a request gets.
type Nature struct {
	// Accelerators is how many accelerators each device is.
	Accelerators float64
	// RDMA: each is an RDMA device. Channel: each is an IMEX channel. Shared: each may
	// serve several claims.
	RDMA, Channel, Shared bool
}

// Nature returns what a request gets, judged by one of the devices of the cluster that
// it would take: the first of the slice with the least name. It is zero when there is
// none.
func (s *Session) Nature(want Want) Nature {
	class, err := s.plugin.manager.DeviceClasses().Get(want.Class)
	if err != nil {
		return Nature{}
	}
	var first *resourceapi.ResourceSlice
	at := -1
	for _, slice := range s.published.slices {
		if first != nil && slice.Name > first.Name {
			continue
		}
		if i := slices.Index(s.plugin.classifier.Wanted(slice, class, want.Selectors), true); i >= 0 {
			first, at = slice, i
		}
	}
	if first == nil {
		return Nature{}
	}
	driver, device := first.Spec.Driver, &first.Spec.Devices[at]
	return Nature{
		Accelerators: devices.Accelerators(driver, device),
		RDMA:         devices.IsRDMA(driver, device),
		Channel:      devices.IsChannel(driver, device),
		Shared:       ptr.Deref(device.AllowMultipleAllocations, false),
	}
}

// ClassOfResource returns the DeviceClass whose devices stand for an extended
// resource, "" if there is none.
func (s *Session) ClassOfResource(name v1.ResourceName) string {
	if class := s.plugin.manager.DeviceClassResolver().GetDeviceClass(name); class != nil {
		return class.Name
	}
	return ""
}

// Loci returns where the accelerators and the RDMA devices are that a pod has: what
// the allocation has chosen for it, nil for none, and what its claims have in the API.
func (s *Session) Loci(pod *v1.Pod, chosen *Allocation) (accelerators, nics []devices.Locus) {
	add := func(allocation *resourceapi.AllocationResult) {
		if allocation == nil {
			return
		}
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			device := s.inventory.Device(result.Driver, result.Pool, result.Device)
			if device == nil || ptr.Deref(result.AdminAccess, false) {
				continue
			}
			accelerators, nics = s.file(result.Driver, device, accelerators, nics)
		}
	}
	if chosen != nil {
		for _, signal := range chosen.signals {
			add(signal.claim.Status.Allocation)
		}
	}
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, err := s.plugin.manager.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil || chosen.has(claim) {
			continue
		}
		allocation := claim.Status.Allocation
		if allocation == nil {
			allocation = s.plugin.manager.ResourceClaims().GetPendingAllocation(claim.UID)
		}
		add(allocation)
	}
	return accelerators, nics
}

// has reports whether the allocation has chosen devices for the claim.
func (a *Allocation) has(claim *resourceapi.ResourceClaim) bool {
	if a == nil {
		return false
	}
	for _, signal := range a.signals {
		if signal.uid == claim.UID {
			return true
		}
	}
	return false
}

// NodeLoci returns where the accelerators and the RDMA devices of a node are.
func (s *Session) NodeLoci(node string) (accelerators, nics []devices.Locus) {
	s.inventory.OnNode(node, func(driver string, device *resourceapi.Device) {
		accelerators, nics = s.file(driver, device, accelerators, nics)
	})
	return accelerators, nics
}

func (s *Session) file(driver string, device *resourceapi.Device, accelerators, nics []devices.Locus) (_, _ []devices.Locus) {
	switch {
	case devices.Accelerators(driver, device) > 0:
		accelerators = append(accelerators, devices.LocusOf(driver, device, s.plugin.hints))
	case devices.IsRDMA(driver, device):
		nics = append(nics, devices.LocusOf(driver, device, s.plugin.hints))
	}
	return accelerators, nics
}
