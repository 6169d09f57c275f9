// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// What the in-tree plugin says of a pod by itself, a session says of it as the only
// member of a gang, with each feature on and, where that is possible, off.
func TestSessionAllocatesAsTheInTreePlugin(t *testing.T) {
	broken := kind("broken", "gpu")
	broken.Taints = []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	attachable := kind("attachable", "gpu")
	attachable.BindingConditions, attachable.BindingFailureConditions = []string{"example.com/attached"}, []string{"example.com/failed"}
	big := kind("big", "gpu")
	big.AllowMultipleAllocations = ptr.To(true)
	big.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
	changed := func(change func(*resourceapi.ExactDeviceRequest)) *resourceapi.ResourceClaim {
		claim := makeClaim("a")
		change(claim.Spec.Devices.Requests[0].Exactly)
		return claim
	}
	for _, tc := range []struct {
		name    string
		gate    featuregate.Feature // "" is stable
		devices []resourceapi.Device
		sets    []resourceapi.CounterSet
		claim   *resourceapi.ResourceClaim
		// want is what is allocated with the gate on.
		want string
	}{
		{"partitions", features.DRAPartitionableDevices, parted("g"), unitSets("g"), claimOf("a", "1"), "n1/g-half-0"},
		{"a tainted device", features.DRADeviceTaints, []resourceapi.Device{broken}, nil, makeClaim("a"), ""},
		{"a tainted device that is tolerated", features.DRADeviceTaints, []resourceapi.Device{broken}, nil, changed(func(r *resourceapi.ExactDeviceRequest) {
			r.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/broken", Operator: resourceapi.DeviceTolerationOpExists}}
		}), "n1/broken"},
		{"binding conditions", features.DRADeviceBindingConditions, []resourceapi.Device{attachable}, nil, makeClaim("a"), "n1/attachable"},
		{"a share of a device", features.DRAConsumableCapacity, []resourceapi.Device{big}, nil, changed(func(r *resourceapi.ExactDeviceRequest) {
			r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}}
		}), "n1/big"},
		{"more than the capacity of a device", features.DRAConsumableCapacity, []resourceapi.Device{big}, nil, changed(func(r *resourceapi.ExactDeviceRequest) {
			r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("40Gi")}}
		}), ""},
		{"admin access", features.DRAAdminAccess, []resourceapi.Device{kind("d", "gpu")}, nil, changed(func(r *resourceapi.ExactDeviceRequest) {
			r.AdminAccess = ptr.To(true)
		}), "n1/d"},
		{"alternatives", features.DRAPrioritizedList, []resourceapi.Device{kind("d", "y")}, nil, claimOf("a", "x", "y"), "n1/d"},
		{"all devices", "", []resourceapi.Device{kind("d", "x"), kind("e", "x")}, nil, changed(func(r *resourceapi.ExactDeviceRequest) {
			r.AllocationMode, r.Count = resourceapi.DeviceAllocationModeAll, 0
		}), "n1/d,n1/e"},
	} {
		for _, on := range []bool{true, false} {
			name := tc.name
			if !on {
				spec, known := utilfeature.DefaultMutableFeatureGate.GetAll()[tc.gate]
				if tc.gate == "" || !known || spec.LockToDefault {
					continue
				}
				name += ", feature off"
			}
			t.Run(name, func(t *testing.T) {
				if tc.gate != "" && !on {
					featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, tc.gate, false)
				}
				objects := append(append(cluster(nil), runtime.Object(tc.claim.DeepCopy())), nodeWith("n1", tc.sets, tc.devices...)...)
				f := newFixture(t, objects...)
				ours, ourReason := "", ""
				a, status := f.session().Allocate(f.ctx, makePod("a", "a"), nodeInfo("n1"))
				if ourReason = status.Message(); a != nil {
					ours = devicesOf(a.signals[0].claim)
				}
				theirs, theirReason := f.inTree("a")
				if ours != theirs || ourReason != theirReason {
					t.Errorf("a session gives %q (%s), the in-tree plugin %q (%s)", ours, ourReason, theirs, theirReason)
				}
				if on && ours != tc.want {
					t.Errorf("got %q (%s), want %q", ours, ourReason, tc.want)
				}
			})
		}
	}
}

// inTree allocates the claim of that name for a pod as the in-tree plugin does, and
// returns the devices, or why there are none.
func (f *fixture) inTree(claim string) (devices, reason string) {
	f.t.Helper()
	pod := makePod("in-tree", claim)
	plugin := f.plugin.DynamicResources
	state := framework.NewCycleState()
	if _, status := plugin.PreFilter(f.ctx, state, pod, nil); !status.IsSuccess() {
		return "", status.Message()
	}
	if status := plugin.Filter(f.ctx, state, pod, nodeInfo("n1")); !status.IsSuccess() {
		return "", status.Message()
	}
	noError(f.t, plugin.Reserve(f.ctx, state, pod, "n1").AsError())
	allocated := *f.claim(claim)
	allocated.Status.Allocation = f.plugin.manager.ResourceClaims().GetPendingAllocation(allocated.UID)
	return devicesOf(&allocated), ""
}

// Four members share a claim. Whoever comes first writes it, also before the others
// have come to their own cycles, and nobody takes that back.
func TestMembersThatShareAClaimInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 1, 0, 2}, {2, 3, 0, 1}} {
		f := newFixture(t, append(cluster(map[string]int{"n1": 2}), makeClaim("common"))...)
		s := f.session()
		var allocations []*Allocation
		for _, name := range []string{"p0", "p1", "p2", "p3"} {
			allocations = append(allocations, f.allocate(s, makePod(name, "common"), "n1"))
		}
		_, err := s.Reserve(allocations)
		noError(t, err)
		devices := ""
		for _, member := range order {
			pod := allocations[member].Pod
			state := f.cycle(pod) // the claim is written when the second comes here
			noError(t, f.plugin.PreBind(f.ctx, state, pod, "n1").AsError())
			claim := f.claim("common")
			if devices == "" {
				devices = devicesOf(claim)
			}
			if got := devicesOf(claim); got == "" || got != devices {
				t.Errorf("order %v: after member %d the claim has %q, want %q", order, member, got, devices)
			}
			known, err := f.plugin.manager.ResourceClaims().Get(namespace, "common")
			noError(t, err)
			if devicesOf(known) != devices {
				t.Errorf("order %v: after member %d the scheduler takes the claim to have %q", order, member, devicesOf(known))
			}
		}
		var users []string
		for _, user := range f.claim("common").Status.ReservedFor {
			users = append(users, user.Name)
		}
		slices.Sort(users)
		if want := []string{"p0", "p1", "p2", "p3"}; !slices.Equal(users, want) {
			t.Errorf("order %v: the claim is reserved for %v, want %v", order, users, want)
		}
		writes := 0
		for _, action := range f.client.Actions() {
			if action.Matches("update", "resourceclaims") || action.Matches("patch", "resourceclaims") {
				writes++
			}
		}
		if writes > 2 {
			t.Errorf("order %v: %d writes of the claim, want one for the finalizer and one for all members", order, writes)
		}
	}
}
