// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// node returns a node whose pool has the given devices, in their order, and the
// counters, if there are any, in a slice of their own.
func nodeWith(name string, counters []resourceapi.CounterSet, devices ...resourceapi.Device) []runtime.Object {
	objects := []runtime.Object{makeNode(name)}
	specs := []resourceapi.ResourceSliceSpec{{Devices: devices}}
	if counters != nil {
		specs = append(specs, resourceapi.ResourceSliceSpec{SharedCounters: counters})
	}
	for i, spec := range specs {
		spec.Driver, spec.NodeName = driver, ptr.To(name)
		spec.Pool = resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(len(specs))}
		slice := fmt.Sprintf("%s-slice-%d", name, i)
		objects = append(objects, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: slice, UID: types.UID(slice)}, Spec: spec})
	}
	return objects
}

// unitSets returns counter sets of two units each.
func unitSets(names ...string) []resourceapi.CounterSet {
	var sets []resourceapi.CounterSet
	for _, name := range names {
		sets = append(sets, resourceapi.CounterSet{Name: name, Counters: units(2)})
	}
	return sets
}

func units(n int64) map[string]resourceapi.Counter {
	return map[string]resourceapi.Counter{"units": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
}

// part is a device that takes units of a counter set.
func part(name, set string, n int64) resourceapi.Device {
	d := kind(name, fmt.Sprint(n))
	d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: units(n)}}
	return d
}

// kind is a device with the attribute kind.
func kind(name, value string) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: &value}}}
}

// parted are the devices of a GPU that can be had whole or in halves.
func parted(gpu string) []resourceapi.Device {
	return []resourceapi.Device{part(gpu+"-whole", gpu, 2), part(gpu+"-half-0", gpu, 1), part(gpu+"-half-1", gpu, 1)}
}

func ofKind(value string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: fmt.Sprintf("device.attributes[%q].kind == %q", driver, value),
	}}}
}

// claimOf returns a claim for one device of a kind; "" is any. Several kinds are
// alternatives, the first preferred.
func claimOf(name string, kinds ...string) *resourceapi.ResourceClaim {
	claim := makeClaim(name)
	request := &claim.Spec.Devices.Requests[0]
	if len(kinds) == 1 {
		if kinds[0] != "" {
			request.Exactly.Selectors = ofKind(kinds[0])
		}
		return claim
	}
	request.Exactly = nil
	for _, k := range kinds {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: "kind-" + k, DeviceClassName: gpuClass, Selectors: ofKind(k),
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		})
	}
	return claim
}

// chosen lists the devices of allocations.
func chosen(allocations ...*Allocation) []string {
	var names []string
	for _, a := range allocations {
		var own []string
		for _, signal := range a.signals {
			own = append(own, strings.ReplaceAll(devicesOf(signal.claim), "n1/", ""))
		}
		names = append(names, strings.Join(own, "+"))
	}
	return names
}

// Members come one after the other; the choices for the first are reconsidered when
// there is nothing left for the next.
func TestEarlierChoicesAreReconsidered(t *testing.T) {
	numa := resourceapi.FullyQualifiedName(driver + "/kind")
	pair := claimOf("c1", "")
	pair.Spec.Devices.Requests[0].Exactly.Count = 2
	pair.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &numa}}
	for _, tc := range []struct {
		name    string
		devices []resourceapi.Device
		sets    []resourceapi.CounterSet
		claims  []*resourceapi.ResourceClaim
		want    []string
		// refused is how many of the last members do not fit.
		refused int
	}{
		{
			name: "one alone gets what it prefers", devices: parted("g"), sets: unitSets("g"),
			claims: []*resourceapi.ResourceClaim{claimOf("c0", "2", "1")},
			want:   []string{"g-whole"},
		},
		{
			name: "two that take any device", devices: parted("g"), sets: unitSets("g"),
			claims: []*resourceapi.ResourceClaim{claimOf("c0", ""), claimOf("c1", "")},
			want:   []string{"g-half-0", "g-half-1"},
		},
		{
			name: "two that prefer the whole", devices: parted("g"), sets: unitSets("g"),
			claims: []*resourceapi.ResourceClaim{claimOf("c0", "2", "1"), claimOf("c1", "2", "1")},
			want:   []string{"g-half-0", "g-half-1"},
		},
		{
			name: "three do not fit, and the two are left with what they had", devices: parted("g"), sets: unitSets("g"),
			claims:  []*resourceapi.ResourceClaim{claimOf("c0", "2", "1"), claimOf("c1", "2", "1"), claimOf("c2", "2", "1")},
			want:    []string{"g-half-0", "g-half-1"},
			refused: 1,
		},
		{
			name: "the latest choice is reconsidered first", devices: append(parted("g"), parted("h")...), sets: unitSets("g", "h"),
			claims: []*resourceapi.ResourceClaim{claimOf("c0", "2", "1"), claimOf("c1", "2", "1"), claimOf("c2", "2", "1")},
			want:   []string{"g-whole", "h-half-0", "h-half-1"},
		},
		{
			name: "a later member that needs the whole", devices: append(parted("g"), parted("h")...), sets: unitSets("g", "h"),
			claims: []*resourceapi.ResourceClaim{claimOf("c0", ""), claimOf("c1", ""), claimOf("c2", "2")},
			want:   []string{"g-half-0", "g-half-1", "h-whole"},
		},
		{
			name: "a later member is pickier", devices: []resourceapi.Device{kind("a", "rare"), kind("b", "common")},
			claims: []*resourceapi.ResourceClaim{claimOf("c0", ""), claimOf("c1", "rare")},
			want:   []string{"b", "a"},
		},
		{
			name: "a later member needs two that agree", devices: []resourceapi.Device{kind("a", "x"), kind("b", "y"), kind("c", "x")},
			claims: []*resourceapi.ResourceClaim{claimOf("c0", ""), pair},
			want:   []string{"b", "a,c"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := append(cluster(nil), nodeWith("n1", tc.sets, tc.devices...)...)
			for _, claim := range tc.claims {
				objects = append(objects, claim)
			}
			f := newFixture(t, objects...)
			s := f.session()
			var got []*Allocation
			var befores [][]string
			for _, claim := range tc.claims {
				befores = append(befores, chosen(got...))
				a, status := s.Rearrange(f.ctx, makePod("pod-"+claim.Name, claim.Name), nodeInfo("n1"))
				if status.IsSuccess() {
					got = append(got, a)
				}
			}
			if want := len(tc.claims) - tc.refused; len(got) != want {
				t.Fatalf("%d members fit, want %d: %v", len(got), want, chosen(got...))
			}
			if names := chosen(got...); !slices.Equal(names, tc.want) {
				t.Errorf("they have %v, want %v", names, tc.want)
			}
			for i := len(got) - 1; i >= 0; i-- {
				s.Undo(got[i])
				if now := chosen(got[:i]...); !slices.Equal(now, befores[i]) {
					t.Errorf("without member %d the others have %v, want %v as before it", i, now, befores[i])
				}
			}
			if total, free := s.Devices("n1", gpuClass); free != total {
				t.Errorf("%d of %d devices are free after all was undone", free, total)
			}
		})
	}
}

// With many members on a node there are too many combinations to try them all. Those
// that leave out what consumes most are tried before that.
func TestManyChoicesAreReconsideredWithinTheLimit(t *testing.T) {
	const parts, gpus = 7, 2
	var devices []resourceapi.Device
	var sets []resourceapi.CounterSet
	for gpu := range gpus {
		set := fmt.Sprintf("gpu-%d", gpu)
		sets = append(sets, resourceapi.CounterSet{Name: set, Counters: units(parts)})
		devices = append(devices, part(set+"-whole", set, parts))
		for i := range parts {
			devices = append(devices, part(fmt.Sprintf("%s-part-%d", set, i), set, 1))
		}
	}
	for name, kinds := range map[string][]string{"any device": {""}, "the whole preferred": {fmt.Sprint(parts), "1"}} {
		t.Run(name, func(t *testing.T) {
			objects := append(cluster(nil), nodeWith("n1", sets, devices...)...)
			const members = parts * gpus
			for i := range members + 1 {
				objects = append(objects, claimOf(fmt.Sprintf("c%d", i), kinds...))
			}
			f := newFixture(t, objects...)
			s := f.session()
			var last []*Allocation
			for i := range members {
				a, status := s.Rearrange(f.ctx, makePod(fmt.Sprintf("p%d", i), fmt.Sprintf("c%d", i)), nodeInfo("n1"))
				if !status.IsSuccess() {
					t.Fatalf("member %d of %d: %v", i+1, members, status)
				}
				last = append(last, a)
			}
			if a, _ := s.Rearrange(f.ctx, makePod("one-more", fmt.Sprintf("c%d", members)), nodeInfo("n1")); a != nil {
				t.Errorf("one more than there are parts has %v, beside %v", chosen(a), chosen(last...))
			}
		})
	}
}

// exploding is a claim, named a, of eight requests, one device each, that are to differ in
// an attribute of which there are only seven values. To be sure that there is no
// way, the allocator would have to try hundreds of millions of combinations.
func exploding() *resourceapi.ResourceClaim {
	claim := makeClaim("a")
	request := claim.Spec.Devices.Requests[0]
	claim.Spec.Devices.Requests = nil
	for i := range 8 {
		next := *request.DeepCopy()
		next.Name = fmt.Sprintf("gpu-%d", i)
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, next)
	}
	claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/kind"))}}
	return claim
}

func TestExplodingSearchIsCutShort(t *testing.T) {
	var devices []resourceapi.Device
	for i := range 32 {
		devices = append(devices, kind(fmt.Sprintf("d-%d", i), fmt.Sprint(i%7)))
	}
	objects := append(cluster(nil), exploding(), makeClaim("b"))
	const nodes = 20
	for n := range nodes {
		objects = append(objects, nodeWith(fmt.Sprintf("n%d", n), nil, devices...)...)
	}
	f := newFixture(t, objects...)
	s := f.session()
	for n := range nodes {
		status := f.refuse(s, makePod("a", "a"), fmt.Sprintf("n%d", n))
		if !status.IsRejected() || !strings.Contains(status.Message(), "the search for devices was cut short after") {
			t.Fatalf("got status %v, want a refusal that says that the search was cut short", status)
		}
	}
	if s.limit.left > 0 {
		t.Errorf("%d looks at devices are left: the search was not limited by what the session has", s.limit.left)
	}
	// What is simple is found all the same.
	f.allocate(s, makePod("b", "b"), "n0")
}

func TestSearchThatTakesTooLongIsCutShort(t *testing.T) {
	var devices []resourceapi.Device
	for i := range 32 {
		devices = append(devices, kind(fmt.Sprintf("d-%d", i), fmt.Sprint(i%7)))
	}
	objects := append(append(cluster(nil), exploding()), nodeWith("n1", nil, devices...)...)
	f := newFixture(t, objects...)
	f.plugin.filterTimeout = time.Nanosecond
	status := f.refuse(f.session(), makePod("a", "a"), "n1")
	if want := "the search for devices was cut short after 1ns"; status.Message() != want {
		t.Errorf("got %q, want %q", status.Message(), want)
	}
}

// More requests than devices: that takes no search.
func TestTooFewDevicesAreSeenAtOnce(t *testing.T) {
	claim := exploding()
	claim.Spec.Devices.Constraints = nil
	f := newFixture(t, append(cluster(map[string]int{"n1": 7}), claim)...)
	s := f.session()
	left := s.limit.left
	if got := f.refuse(s, makePod("a", "a"), "n1").Message(); got != cannotAllocate {
		t.Errorf("got %q, want %q", got, cannotAllocate)
	}
	if s.limit.left != left {
		t.Errorf("the search took %d looks at devices beyond those free", left-s.limit.left)
	}
}
