// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The tests here are of what the in-tree DRA plugin supports, in gangs.

// Each of the members wants all devices of a node, however many there are.
func TestAllDevicesOfANodeForEachMember(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	s.template("all", claimSpec(changed(request("all", class, 1), all)))
	s.template("one", claimSpec(request("one", class, 1)))
	x := s.node("x", publishes(class, like(device("d"), 3)...))
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, fromTemplate("all", "all"))
	s.unschedulable(pods, "group w needs 2 pods", "room for 1")
	s.holdsNothing(pods...)
	y := s.node("y", publishes(class, like(device("d"), 2)...))
	s.bound(pods...)
	var got []string
	for _, pod := range pods {
		got = append(got, deviceNames(s.devicesOf(pod))...)
	}
	slices.Sort(got)
	if want := []string{x + "/d-0", x + "/d-1", x + "/d-2", y + "/d-0", y + "/d-1"}; !slices.Equal(got, want) {
		t.Errorf("the members have %v, want %v", got, want)
	}
	// Not with one of them taken.
	s.deletePods(pods...)
	s.plainPods([]string{"solo"}, fromTemplate("one", "one"))
	for _, pod := range pods {
		s.pod(pod, of("g"), fromTemplate("all", "all"))
	}
	s.unschedulable(pods, "room for 1")
	s.holdsNothing(pods...)
	s.deletePods("solo")
	s.bound(pods...)
}

// Members with admin access see devices that are in use, and take none from others.
func TestAdminAccessInAGang(t *testing.T) {
	s := shared(t)
	s.deviceMayRepeat()
	class := s.ownClass()
	s.labelNamespace(resourcev1.DRAAdminNamespaceLabelKey, "true")
	s.template("one", claimSpec(request("one", class, 1)))
	s.template("admin", claimSpec(changed(request("admin", class, 1), all, asAdmin)))
	s.node("x", publishes(class, like(device("d"), 2)...))
	s.plainPods([]string{"solo"}, fromTemplate("one", "one"))
	admins, pods := names("admin", 3), names("user", 2)
	s.gang("g", group("admin", 3, admins...), group("user", 2, pods...))
	for _, name := range admins {
		s.pod(name, of("g"), fromTemplate("admin", "admin"))
	}
	for _, name := range pods {
		s.pod(name, of("g"), fromTemplate("one", "one"))
	}
	everybody := append(slices.Clone(admins), pods...)
	s.unschedulable(everybody, "group user needs 2 pods", "room for 1")
	s.holdsNothing(everybody...)
	s.deletePods("solo")
	s.bound(everybody...)
	s.haveDevices(1, pods...)
	for _, name := range admins {
		results := s.devicesOf(name)
		if len(results) != 2 {
			t.Errorf("pod %s sees %v, want both devices", name, deviceNames(results))
		}
		for _, r := range results {
			if !ptr.Deref(r.AdminAccess, false) {
				t.Errorf("pod %s has device %s without admin access", name, r.Device)
			}
		}
	}
}

func (s *scenario) labelNamespace(key, value string) {
	s.t.Helper()
	namespaces := s.client().CoreV1().Namespaces()
	s.retryConflict(func() error {
		ns, err := namespaces.Get(s.ctx, s.ns, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ns.Labels[key] = value
		_, err = namespaces.Update(s.ctx, ns, metav1.UpdateOptions{})
		return err
	})
}

// partition is a device that takes a number of units of the counters of its set.
func partition(name string, units int64) resourcev1.Device {
	d := device(name)
	d.Attributes["units"] = resourcev1.DeviceAttribute{IntValue: &units}
	d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{
		CounterSet: "set", Counters: map[string]resourcev1.Counter{"units": {Value: *resource.NewQuantity(units, resource.DecimalSI)}},
	}}
	return d
}

// One device of two units, or two of one.
func TestPartitionsOfADeviceInAGang(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	two := resourcev1.CounterSet{Name: "set", Counters: map[string]resourcev1.Counter{"units": {Value: resource.MustParse("2")}}}
	node := s.node("x", partitions(class, two, partition("whole", 2), partition("half-0", 1), partition("half-1", 1)))
	for name, units := range map[string]string{"half": "1", "whole": "2"} {
		s.template(name, claimSpec(changed(request("part", class, 1), selecting(`device.attributes["`+class+`"].units == `+units))))
	}
	half, whole := fromTemplate("part", "half"), fromTemplate("part", "whole")

	trio := names("trio", 3)
	s.gang("trio", group("w", 3, trio...))
	s.members("trio", 3, half)
	s.unschedulable(trio, "group w needs 3 pods", class, "room for 2")
	s.holdsNothing(trio...)
	s.gone("trio", trio...)

	mixed := []string{"mixed-whole", "mixed-half"}
	s.gang("mixed", group("whole", 1, mixed[0]), group("half", 1, mixed[1]))
	s.pod(mixed[0], of("mixed"), whole)
	s.pod(mixed[1], of("mixed"), half)
	s.unschedulable(mixed, class)
	s.holdsNothing(mixed...)

	pair := names("pair", 2)
	s.gang("pair", group("w", 2, pair...))
	s.members("pair", 2, half)
	s.bound(pair...)
	got := append(deviceNames(s.devicesOf(pair[0])), deviceNames(s.devicesOf(pair[1]))...)
	slices.Sort(got)
	if want := []string{node + "/half-0", node + "/half-1"}; !slices.Equal(got, want) {
		t.Errorf("the pair has %v, want %v", got, want)
	}

	solo := names("solo", 1)
	s.gang("solo", group("w", 1, solo...))
	s.members("solo", 1, whole)
	s.unschedulable(solo, class)
	s.holdsNothing(solo...)
	s.deletePods(pair[0])
	s.holdsNothing(solo...) // one half is still taken
	s.deletePods(pair[1])
	s.bound(solo...)
	if got, want := deviceNames(s.devicesOf(solo[0])), []string{node + "/whole"}; !slices.Equal(got, want) {
		t.Errorf("the pod has %v, want %v", got, want)
	}
	s.countersHold(map[string]int{"whole": 2, "half-0": 1, "half-1": 1}, 2)
}

// countersHold checks that devices which are allocated at the same time have never taken
// more units than there are.
func (s *scenario) countersHold(units map[string]int, limit int) {
	s.t.Helper()
	records := slices.Clone(s.c.history.of(s.ns))
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.revision, b.revision) })
	taken := map[string]int{}
	for _, r := range records {
		c, ok := r.object.(*resourcev1.ResourceClaim)
		if !ok {
			continue
		}
		delete(taken, c.Name)
		if !r.deleted && c.Status.Allocation != nil {
			for _, result := range c.Status.Allocation.Devices.Results {
				if result.Driver == s.ownDriver() {
					taken[c.Name] += units[result.Device]
				}
			}
		}
		sum := 0
		for _, n := range taken {
			sum += n
		}
		if sum > limit {
			s.t.Errorf("with claim %s, %d units of %d are allocated", c.Name, sum, limit)
		}
	}
}

// Members share a device up to its capacity.
func TestSharesOfADeviceInAGang(t *testing.T) {
	s := shared(t)
	s.deviceMayRepeat()
	class := s.ownClass()
	const memory = resourcev1.QualifiedName("memory")
	big := device("big")
	big.AllowMultipleAllocations = ptr.To(true)
	big.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{memory: {Value: resource.MustParse("10Gi")}}
	node := s.node("x", publishes(class, big))
	s.template("share", claimSpec(changed(request("share", class, 1), capacity(memory, "4Gi"))))
	pods := names("g", 3)
	s.gang("g", group("w", 3, pods...))
	s.members("g", 3, fromTemplate("share", "share"))
	s.unschedulable(pods, "group w needs 3 pods", "room for 2")
	s.holdsNothing(pods...)
	s.setFloor("g", 2)
	s.boundOf(2, pods...)
	s.marker()
	s.boundOf(2, pods...) // the third needs more than the 2Gi that are left
	var waiting string
	shares := map[string]bool{}
	for _, name := range pods {
		if s.getPod(name).Spec.NodeName == "" {
			waiting = name
			continue
		}
		s.checkShare(name, node+"/big", memory, "4Gi", shares)
	}
	// A small one still finds room beside them.
	s.template("small", claimSpec(changed(request("share", class, 1), capacity(memory, "2Gi"))))
	s.gang("small", group("w", 1, "small-0"))
	s.members("small", 1, fromTemplate("share", "small"))
	s.bound("small-0")
	s.checkShare("small-0", node+"/big", memory, "2Gi", shares)
	s.deletePods("small-0")
	s.waits([]string{waiting})
	s.deletePods(pods[slices.IndexFunc(pods, func(name string) bool { return name != waiting })])
	s.bound(waiting)
	s.checkShare(waiting, node+"/big", memory, "4Gi", shares)
}

func (s *scenario) checkShare(pod, device string, capacity resourcev1.QualifiedName, quantity string, shares map[string]bool) {
	s.t.Helper()
	results := s.devicesOf(pod)
	if got := deviceNames(results); !slices.Equal(got, []string{device}) {
		s.t.Errorf("pod %s has %v, want %s", pod, got, device)
		return
	}
	share := string(ptr.Deref(results[0].ShareID, ""))
	if share == "" || shares[share] {
		s.t.Errorf("pod %s has share %q, want one of its own", pod, share)
	}
	shares[share] = true
	if got := results[0].ConsumedCapacity[capacity]; got.Cmp(resource.MustParse(quantity)) != 0 {
		s.t.Errorf("pod %s has %s of the device, want %s", pod, got.String(), quantity)
	}
}

func TestDeviceTaintsInAGang(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	devices := like(device("d"), 2)
	const taint = "e2e.test/broken"
	devices[0].Taints = []resourcev1.DeviceTaint{{Key: taint, Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	node := s.node("x", publishes(class, devices...))
	s.template("intact", claimSpec(request("one", class, 1)))
	s.template("any", claimSpec(changed(request("one", class, 1), tolerating(taint))))
	pods, tolerant := names("g", 2), names("tolerant", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, fromTemplate("one", "intact"))
	s.unschedulable(pods, "group w needs 2 pods", "room for 1")
	s.holdsNothing(pods...)
	s.gang("tolerant", group("w", 2, tolerant...))
	s.members("tolerant", 2, fromTemplate("one", "any"))
	s.bound(tolerant...)
	s.haveDevices(1, tolerant...)
	s.deletePods(tolerant...)
	s.unschedulable(pods, "room for 1")
	s.holdsNothing(pods...)
	s.editDevices(node, class, func(devices []resourcev1.Device) { devices[0].Taints = nil })
	s.bound(pods...)
	s.haveDevices(1, pods...)
}

// Devices that have to be attached before a pod can use them.
const (
	attached       = "e2e.test/attached"
	attachingFails = "e2e.test/failed"
)

// attachable is a driver's device of which the scheduler waits to be told that it is
// attached to the node.
func attachable(name string) resourcev1.Device {
	d := device(name)
	d.BindsToNode = ptr.To(true)
	d.BindingConditions, d.BindingFailureConditions = []string{attached}, []string{attachingFails}
	return d
}

// One member's device is not ready for binding: the others, which have all they need,
// are not bound before it.
func TestBindingConditionsHoldTheWholeGang(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	s.node("x", publishes(class, attachable("d")))
	s.template("one", claimSpec(request("one", class, 1)))
	pods := names("g", 3)
	s.gang("g", group("w", 3, pods...))
	s.pod(pods[0], of("g"), inRoom(s.ns), cpu("1"))
	s.pod(pods[1], of("g"), fromTemplate("one", "one"))
	s.pod(pods[2], of("g"), gpu)
	s.allocatedFor(pods...)
	s.marker()
	s.neverBound(pods...)
	s.setDeviceCondition(pods[1], attached)
	s.bound(pods...)
}

// A device cannot be attached: everything is given back, and tried again.
func TestBindingThatFailsOnADeviceUndoesTheGang(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	s.node("x", publishes(class, like(attachable("d"), 2)...))
	s.template("one", claimSpec(request("one", class, 1)))
	pods := names("g", 3)
	s.gang("g", group("w", 3, pods...))
	s.pod(pods[0], of("g"), fromTemplate("one", "one"))
	s.pod(pods[1], of("g"), fromTemplate("one", "one"))
	s.pod(pods[2], of("g"), gpu)
	s.allocatedFor(pods...)
	seen := len(s.c.history.of(s.ns))
	s.setDeviceCondition(pods[1], attachingFails)
	s.allCleared(seen, pods...)
	s.neverBound(pods...)
	s.tells("g", "GangUndone", pods[1], "written by the test")
	s.allocatedFor(pods...)
	s.setDeviceCondition(pods[0], attached)
	s.setDeviceCondition(pods[1], attached)
	s.bound(pods...)
}

func constrained(class string, count int64, constraint resourcev1.DeviceConstraint) resourcev1.ResourceClaimSpec {
	spec := claimSpec(request("some", class, count))
	spec.Devices.Constraints = []resourcev1.DeviceConstraint{constraint}
	return spec
}

// Each member wants two devices that agree, or do not, on an attribute.
func TestConstraintsOnDevicesInAGang(t *testing.T) {
	boards := func(boards ...string) []resourcev1.Device {
		var devices []resourcev1.Device
		for i, name := range names("d", len(boards)) {
			devices = append(devices, device(name, "board", boards[i]))
		}
		return devices
	}
	for _, tc := range []struct {
		name       string
		constraint func(attribute resourcev1.FullyQualifiedName) resourcev1.DeviceConstraint
		// first has room for one member, second for another.
		first, second []resourcev1.Device
		equal         bool
	}{
		{
			"matchAttribute",
			func(a resourcev1.FullyQualifiedName) resourcev1.DeviceConstraint {
				return resourcev1.DeviceConstraint{MatchAttribute: &a}
			},
			boards("a", "b", "a", "c"), boards("b", "a", "c", "c"), true,
		},
		{
			"distinctAttribute",
			func(a resourcev1.FullyQualifiedName) resourcev1.DeviceConstraint {
				return resourcev1.DeviceConstraint{DistinctAttribute: &a}
			},
			boards("a", "a", "a", "b"), boards("c", "c", "a"), false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			class := s.ownClass()
			s.template("two", constrained(class, 2, tc.constraint(resourcev1.FullyQualifiedName(class+"/board"))))
			pods := names("g", 2)
			s.node("x", publishes(class, tc.first...))
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, fromTemplate("two", "two"))
			s.unschedulable(pods, "group w needs 2 pods", "room for 1")
			s.holdsNothing(pods...)
			s.node("y", publishes(class, tc.second...))
			s.bound(pods...)
			s.haveDevices(2, pods...)
			board := map[string]string{}
			for suffix, devices := range map[string][]resourcev1.Device{"x": tc.first, "y": tc.second} {
				for _, d := range devices {
					board[s.ns+"-"+suffix+"/"+d.Name] = *d.Attributes["board"].StringValue
				}
			}
			for _, pod := range pods {
				got := deviceNames(s.devicesOf(pod))
				if a, b := board[got[0]], board[got[1]]; (a == b) != tc.equal {
					t.Errorf("pod %s has devices %v of boards %s and %s", pod, got, a, b)
				}
			}
		})
	}
}
