// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

const gpuDriver = "gpu.nvidia.com"

// slice makes a ResourceSlice of a driver's pool with devices named dev-0 and so
// on; its options say whom it serves.
func slice(name, pool string, devices int, options ...func(*resourceapi.ResourceSlice)) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec:       resourceapi.ResourceSliceSpec{Driver: gpuDriver, Pool: resourceapi.ResourcePool{Name: pool, Generation: 1}},
	}
	for n := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("dev-%d", n)})
	}
	for _, option := range options {
		option(s)
	}
	return s
}

func onNode(node string) func(*resourceapi.ResourceSlice) {
	return func(s *resourceapi.ResourceSlice) { s.Spec.NodeName = &node }
}

func ofDriver(driver string) func(*resourceapi.ResourceSlice) {
	return func(s *resourceapi.ResourceSlice) { s.Spec.Driver = driver }
}

func generation(generation int64) func(*resourceapi.ResourceSlice) {
	return func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Generation = generation }
}

func onAllNodes(s *resourceapi.ResourceSlice) { s.Spec.AllNodes = new(true) }

func emptyState() *structured.AllocatedState {
	return &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

func deviceID(pool, device string) structured.DeviceID {
	return structured.MakeDeviceID(gpuDriver, pool, device)
}

// allocation makes the result of an allocation from its parts.
func allocation(results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
}

// result is one allocated device.
func result(pool, device string, options ...func(*resourceapi.DeviceRequestAllocationResult)) resourceapi.DeviceRequestAllocationResult {
	r := resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: gpuDriver, Pool: pool, Device: device}
	for _, option := range options {
		option(&r)
	}
	return r
}
