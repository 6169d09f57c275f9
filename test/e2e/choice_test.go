// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// The tests here are of which devices members of a gang get where there is a choice.

// preferring asks for one device, by the first selector for which there is one.
func preferring(class string, expressions ...string) resourcev1.DeviceRequest {
	r := resourcev1.DeviceRequest{Name: "one"}
	for i, expression := range expressions {
		r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
			Name: fmt.Sprintf("choice-%d", i), DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourcev1.DeviceSelector{where(expression)},
		})
	}
	return r
}

// One GPU of two units, published whole and as two halves, the whole first. Who comes
// first would take the whole, and leave nothing.
func TestFirstChoiceLeavesRoomForTheRestOfTheGang(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request func(class string) resourcev1.DeviceRequest
	}{
		{"any device", func(class string) resourcev1.DeviceRequest { return request("one", class, 1) }},
		{"the whole preferred", func(class string) resourcev1.DeviceRequest {
			units := `device.attributes["` + class + `"].units == `
			return preferring(class, units+"2", units+"1")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			class := s.ownClass()
			two := resourcev1.CounterSet{Name: "set", Counters: map[string]resourcev1.Counter{"units": {Value: resource.MustParse("2")}}}
			node := s.node("x", partitions(class, two, partition("a-whole", 2), partition("half-0", 1), partition("half-1", 1)))
			s.template("one", claimSpec(tc.request(class)))

			trio := names("trio", 3)
			s.gang("trio", group("w", 3, trio...))
			s.members("trio", 3, fromTemplate("one", "one"))
			s.unschedulable(trio, "group w needs 3 pods", "room for 2", "0 of 3 "+class+" free")
			s.holdsNothing(trio...)
			s.gone("trio", trio...)

			pair := names("pair", 2)
			s.gang("pair", group("w", 2, pair...))
			s.members("pair", 2, fromTemplate("one", "one"))
			s.bound(pair...)
			got := append(deviceNames(s.devicesOf(pair[0])), deviceNames(s.devicesOf(pair[1]))...)
			slices.Sort(got)
			if want := []string{node + "/half-0", node + "/half-1"}; !slices.Equal(got, want) {
				t.Errorf("the pair has %v, want %v", got, want)
			}
			s.gone("pair", pair...)

			s.gang("solo", group("w", 1, "solo-0"))
			s.members("solo", 1, fromTemplate("one", "one"))
			s.bound("solo-0")
			if got, want := deviceNames(s.devicesOf("solo-0")), []string{node + "/a-whole"}; !slices.Equal(got, want) {
				t.Errorf("the pod alone has %v, want %v", got, want)
			}
			s.countersHold(map[string]int{"a-whole": 2, "half-0": 1, "half-1": 1}, 2)
		})
	}
}

// Where there is enough of what they prefer, on other nodes, they all get it.
func TestPreferredDevicesAreTakenWhileTheyLast(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	kind := `device.attributes["` + class + `"].kind == `
	s.template("either", claimSpec(preferring(class, kind+`"x"`, kind+`"y"`)))
	has := map[string]string{}
	for _, suffix := range []string{"x0", "x1", "y0", "y1"} {
		has[s.node(suffix, publishes(class, device("d", "kind", suffix[:1])))] = suffix[:1]
	}
	count := func(pods []string) map[string]int {
		kinds := map[string]int{}
		for _, pod := range pods {
			s.haveDevices(1, pod)
			kinds[has[s.getPod(pod).Spec.NodeName]]++
		}
		return kinds
	}
	four := names("four", 4)
	s.gang("four", group("w", 4, four...))
	s.members("four", 4, fromTemplate("one", "either"))
	s.bound(four...)
	if kinds := count(four); kinds["x"] != 2 || kinds["y"] != 2 {
		t.Errorf("the four have %v, want two of each", kinds)
	}
	s.gone("four", four...)
	for _, suffix := range []string{"x2", "x3"} {
		has[s.node(suffix, publishes(class, device("d", "kind", "x")))] = "x"
	}
	again := names("again", 4)
	s.gang("again", group("w", 4, again...))
	s.members("again", 4, fromTemplate("one", "either"))
	s.bound(again...)
	if kinds := count(again); kinds["x"] != 4 {
		t.Errorf("the four have %v, and there are four x", kinds)
	}
}

// A claim of eight devices that are to differ in an attribute of which there are seven
// values: the allocator would try combinations for years to see that there is none.
func TestExplodingSearchHoldsNobodyUp(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	var devices []resourcev1.Device
	for i := range 32 {
		devices = append(devices, device(fmt.Sprintf("d-%d", i), "slot", fmt.Sprint(i%7)))
	}
	for n := range 20 {
		s.node(fmt.Sprintf("x%d", n), publishes(class, devices...))
	}
	var requests []resourcev1.DeviceRequest
	for _, name := range names("one", 8) {
		requests = append(requests, request(name, class, 1))
	}
	spec := claimSpec(requests...)
	attribute := resourcev1.FullyQualifiedName(class + "/slot")
	spec.Devices.Constraints = []resourcev1.DeviceConstraint{{DistinctAttribute: &attribute}}
	s.template("eight", spec)
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, fromTemplate("eight", "eight"))
	s.unschedulable(pods, "group w needs 2 pods", "20 nodes", "the search for devices was cut short")

	// It blocks for filterTimeout (10 s) what is not cut short; this is half of it.
	const latency = 5 * time.Second
	for i := range 5 {
		// Its PodGang changes, and it is tried again.
		s.editGang("g", func(spec *v1alpha1.PodGangSpec) {
			spec.PodGroups[0].MinReplicas = int32(2 - i%2)
		})
		gang := fmt.Sprintf("other-%d", i)
		other := names(gang, 2)
		s.gang(gang, group("w", 2, other...))
		s.pod(other[0], of(gang), gpu)
		s.pod(other[1], of(gang), gpu)
		start := time.Now()
		s.bound(other...)
		took := time.Since(start)
		t.Logf("gang %s was bound in %v", gang, took)
		if took > latency {
			t.Errorf("gang %s took %v behind the other, want at most %v", gang, took, latency)
		}
		s.gone(gang, other...)
	}
	s.holdsNothing(pods...)
}
