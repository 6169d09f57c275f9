// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Shape is a cluster's hardware as API objects.
type Shape struct {
	Name        string
	Description string

	Nodes         []*corev1.Node
	DeviceClasses []*resourcev1.DeviceClass
	Slices        []*resourcev1.ResourceSlice
	// Taken are devices that something outside the test already uses.
	Taken []Taken
}

// Taken says that one pod on the node holds these devices, through one claim.
type Taken struct {
	// Name is unique in the shape; the pod and the claim get it.
	Name        string
	Node        string
	DeviceClass string
	Driver      string
	Devices     []string
}

// DevicesByDriver counts the devices of all slices.
func (s *Shape) DevicesByDriver() map[string]int {
	count := map[string]int{}
	for _, slice := range s.Slices {
		if n := len(slice.Spec.Devices); n > 0 {
			count[slice.Spec.Driver] += n
		}
	}
	return count
}

// GPUs counts whole GPUs, as CountGPUs does.
func (s *Shape) GPUs() int {
	n := 0
	for _, slice := range s.Slices {
		n += CountGPUs(slice)
	}
	return n
}

// CountGPUs counts the whole GPUs of a slice.
func CountGPUs(slice *resourcev1.ResourceSlice) int {
	n := 0
	for i := range slice.Spec.Devices {
		if IsGPU(slice.Spec.Driver, &slice.Spec.Devices[i]) {
			n++
		}
	}
	return n
}

// IsGPU reports whether the device's attribute "type" is "gpu", which is how drivers
// tell a GPU from its partitions.
func IsGPU(driver string, d *resourcev1.Device) bool {
	kind, ok := d.Attributes["type"]
	if !ok {
		kind = d.Attributes[resourcev1.QualifiedName(driver+"/type")]
	}
	return kind.StringValue != nil && *kind.StringValue == "gpu"
}

// Summary is one line: "2 nodes, 2 GPUs, 4 ResourceSlices".
func (s *Shape) Summary() string {
	parts := []string{plural(len(s.Nodes), "node")}
	if gpus := s.GPUs(); gpus > 0 {
		parts = append(parts, plural(gpus, "GPU"))
	}
	devices := s.DevicesByDriver()
	for _, driver := range slices.Sorted(maps.Keys(devices)) {
		if driver != "gpu.nvidia.com" || s.GPUs() != devices[driver] {
			parts = append(parts, plural(devices[driver], driver+" device"))
		}
	}
	parts = append(parts, plural(len(s.Slices), "ResourceSlice"))
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
