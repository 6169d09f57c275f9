// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// deviceClass makes a class of one version with the selectors given.
func deviceClass(version string, expressions ...string) *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "class", ResourceVersion: version}}
	for _, expression := range expressions {
		class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return class
}

func TestSelected(t *testing.T) {
	mixed := slice("s", "n1", 3, onNode("n1"), func(s *resourceapi.ResourceSlice) {
		for i, kind := range []string{"gpu", "nic", "gpu"} {
			s.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": {StringValue: new(kind)}}
		}
		s.Spec.Devices[0].Attributes["model"] = resourceapi.DeviceAttribute{StringValue: new("H100")}
	})
	const gpu = `device.attributes["gpu.nvidia.com"].type == "gpu"`
	for _, tc := range []struct {
		name  string
		class *resourceapi.DeviceClass
		want  []bool
	}{
		{"no selector selects all", deviceClass("1"), []bool{true, true, true}},
		{"by driver", deviceClass("1", `device.driver == "gpu.nvidia.com"`), []bool{true, true, true}},
		{"by another driver", deviceClass("1", `device.driver == "nic.example.com"`), []bool{false, false, false}},
		{"by attribute", deviceClass("1", gpu), []bool{true, false, true}},
		{"all selectors must match; one that fails for a device does not", deviceClass("1", gpu, `device.attributes["gpu.nvidia.com"].model == "H100"`), []bool{true, false, false}},
		{"a selector that does not compile", deviceClass("1", "no such thing"), []bool{false, false, false}},
		{"a selector that is no CEL", &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{}}}}, []bool{false, false, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			classifier := NewClassifier(cel.Features{})
			for range 2 { // computed, then remembered
				if diff := cmp.Diff(tc.want, classifier.Selected(mixed, tc.class)); diff != "" {
					t.Errorf("selected (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestSelectedFollowsChanges(t *testing.T) {
	classifier := NewClassifier(cel.Features{})
	s := slice("s", "n1", 1, onNode("n1"))
	for _, step := range []struct {
		what  string
		slice *resourceapi.ResourceSlice
		class *resourceapi.DeviceClass
		want  []bool
	}{
		{"at first", s, deviceClass("1"), []bool{true}},
		{"a new version of the class", s, deviceClass("2", "false"), []bool{false}},
		{"a new version of the slice", slice("s", "n1", 2, func(s *resourceapi.ResourceSlice) { s.ResourceVersion = "2" }), deviceClass("1"), []bool{true, true}},
		{"the first versions again", s, deviceClass("1"), []bool{true}},
	} {
		if diff := cmp.Diff(step.want, classifier.Selected(step.slice, step.class)); diff != "" {
			t.Errorf("%s: selected (-want +got):\n%s", step.what, diff)
		}
	}
}

// The answer for devices that are published again as they were is the one that is known;
// anything that a selector may see makes it another.
func TestSelectedOfDevicesPublishedAnew(t *testing.T) {
	attribute := func(value string) func(*resourceapi.ResourceSlice) {
		return func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": {StringValue: &value}}
		}
	}
	capacity := func(value string) func(*resourceapi.ResourceSlice) {
		return func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(value)}}
		}
	}
	version := func(version string) func(*resourceapi.ResourceSlice) {
		return func(s *resourceapi.ResourceSlice) { s.ResourceVersion = version }
	}
	for _, tc := range []struct {
		name       string
		old, slice *resourceapi.ResourceSlice
		known      bool
	}{
		{"nothing else", slice("s", "n1", 1, attribute("gpu")), slice("s", "n1", 1, attribute("gpu"), version("2"), generation(2)), true},
		{"the same capacity in another unit", slice("s", "n1", 1, capacity("1Gi")), slice("s", "n1", 1, capacity("1024Mi"), version("2")), true},
		{"what selectors do not see", slice("s", "n1", 1), slice("s", "n1", 1, version("2"), func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].Name = "renamed" }), true},
		{"devices that may be shared", slice("s", "n1", 1), slice("s", "n1", 1, version("2"), func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].AllowMultipleAllocations = new(true) }), false},
		{"another attribute", slice("s", "n1", 1, attribute("gpu")), slice("s", "n1", 1, attribute("mig"), version("2")), false},
		{"another capacity", slice("s", "n1", 1, capacity("1Gi")), slice("s", "n1", 1, capacity("2Gi"), version("2")), false},
		{"another device", slice("s", "n1", 1), slice("s", "n1", 2, version("2")), false},
		{"another driver", slice("s", "n1", 1), slice("s", "n1", 1, version("2"), ofDriver("other")), false},
	} {
		classifier, class := NewClassifier(cel.Features{}), deviceClass("1", "true")
		old, now := classifier.Selected(tc.old, class), classifier.Selected(tc.slice, class)
		if known := &old[0] == &now[0]; known != tc.known {
			t.Errorf("%s: taken from what is known: %v, want %v", tc.name, known, tc.known)
		}
	}
}

// Slices are shared too. With a classifier of its own a goroutine finds no answer of another.
func TestSelectedFromManyGoroutines(t *testing.T) {
	s := slice("s", "n1", 4, onNode("n1"))
	limit := resource.MustParse("1024Mi")
	s.Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {
		Value:         resource.MustParse("40960Mi"),
		RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &limit, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &limit}},
	}}
	shared := NewClassifier(cel.Features{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, classifier := range []*Classifier{NewClassifier(cel.Features{}), shared} {
				for range 50 {
					if got := classifier.Selected(s, deviceClass("1", "true")); len(got) != 4 || !got[3] {
						t.Errorf("got %v", got)
					}
				}
			}
		})
	}
	wg.Wait()
}
