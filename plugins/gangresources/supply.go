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

// Wants returns the sorts of devices that a request may get, in the order of preference:
// one, or its alternatives.
func Wants(request *resourceapi.DeviceRequest) []Want {
	if exactly := request.Exactly; exactly != nil {
		return []Want{{Class: exactly.DeviceClassName, Selectors: exactly.Selectors}}
	}
	wants := make([]Want, 0, len(request.FirstAvailable))
	for i := range request.FirstAvailable {
		sub := &request.FirstAvailable[i]
		wants = append(wants, Want{Class: sub.DeviceClassName, Selectors: sub.Selectors})
	}
	return wants
}

// plenty is the supply of a device that several claims may share.
const plenty = 1 << 20

// Supply returns how many devices of a sort a node has, and how many of them can be
// had now, as Tally.Supply does.
func (s *Session) Supply(node string, want Want) (total, free int64) {
	return s.Tally(want).Supply(node)
}

// Tally counts the devices of one sort for a session.
type Tally struct {
	session *Session
	// class is nil when there is no such class: then nothing is counted.
	class *resourceapi.DeviceClass
	want  Want
	// common is how many devices of the sort there are that are not tied to one node.
	common int
	// counts is what is known of each node. It is the plugin's.
	counts map[string]*count
}

// count is the number of devices of a sort that a node publishes by name, as it was at a
// version of the node.
type count struct {
	total, free int
	// shareable is set when several claims may share one of them.
	shareable bool
	// at is the version of the node, and seen that of the cluster at which it was still so.
	at, seen devices.Version
}

// Tally returns the count of a sort of devices.
func (s *Session) Tally(want Want) *Tally {
	key := want.key()
	if known := s.tallies[key]; known != nil {
		return known
	}
	t := &Tally{session: s, want: want}
	s.tallies[key] = t
	class, err := s.plugin.manager.DeviceClasses().Get(want.Class)
	if err != nil {
		return t
	}
	t.class = class
	var shareable bool
	t.common = s.inventory.Shared(s.meant(class, want, &shareable))
	if shareable {
		t.common = plenty
	}
	t.counts = s.plugin.counts.of(s.classes, key)
	return t
}

// Supply returns how many devices of the sort a node has, and how many of them can be
// had now. Neither is too low: of devices that share counters each is counted, one
// that several claims may share counts as plenty, and those of pools that are not
// tied to one node count for every node.
func (t *Tally) Supply(node string) (total, free int64) {
	if t.class == nil {
		return 0, 0
	}
	counted := t.count(node)
	if counted.shareable || t.common == plenty {
		return plenty, plenty
	}
	return int64(counted.total + t.common), int64(counted.free + t.common)
}

// Devices returns how many devices of the sort a node publishes by name and how many of
// them are free, the session's own choices taken into account. A class that does not exist
// has none.
func (t *Tally) Devices(node string) (total, free int) {
	counted := t.count(node)
	return counted.total, counted.free
}

// count counts the devices that a node publishes by name, again when something has
// changed about its pools.
func (t *Tally) count(node string) count {
	if t.class == nil {
		return count{}
	}
	s := t.session
	seen := s.inventory.Latest(s.ledger)
	known := t.counts[node]
	if known != nil && known.seen == seen {
		return *known
	}
	version := s.inventory.Version(node, s.ledger)
	if known == nil || known.at != version {
		known = &count{at: version}
		known.total, known.free = s.inventory.Count(node, s.ledger, s.meant(t.class, t.want, &known.shareable))
		t.counts[node] = known
	}
	known.seen = seen
	return *known
}

// maxCounts is how many sorts of devices are remembered.
const maxCounts = 64

// countBook remembers from one session to the next how many devices of each sort nodes
// have. It belongs to the goroutine of the scheduling cycle.
type countBook struct {
	// classes are those of the session (Session.Classes).
	classes uint64
	bySort  map[string]map[string]*count
}

// of returns what is known of the nodes for a sort of devices, by name of the node.
func (b *countBook) of(classes uint64, sort string) map[string]*count {
	if b.bySort == nil || b.classes != classes || b.bySort[sort] == nil && len(b.bySort) >= maxCounts {
		b.classes, b.bySort = classes, make(map[string]map[string]*count)
	}
	if b.bySort[sort] == nil {
		b.bySort[sort] = make(map[string]*count)
	}
	return b.bySort[sort]
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
