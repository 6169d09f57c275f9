// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/lru"
)

const (
	// cachedExpressions is how many compiled selectors are kept.
	cachedExpressions = 100
	// cachedMatches is how many pairs of slice and class are kept. A slice holds up
	// to 128 devices, so this is about a megabyte.
	cachedMatches = 16384
)

// Classifier knows which devices a DeviceClass selects. It remembers its answers
// for as long as neither slice nor class changes. It may be used by several
// goroutines.
type Classifier struct {
	expressions *cel.Cache
	matches     *lru.Cache
}

// matchKey names one version of a slice and one of a class.
type matchKey struct {
	slice, class               types.UID
	sliceVersion, classVersion string
}

// NewClassifier returns a classifier that compiles selectors with the features.
func NewClassifier(features cel.Features) *Classifier {
	return &Classifier{
		expressions: cel.NewCache(cachedExpressions, features),
		matches:     lru.New(cachedMatches),
	}
}

// Selected tells for each device of the slice whether the class selects it. A
// selector that does not compile, or fails for a device, selects nothing.
func (c *Classifier) Selected(slice *resourceapi.ResourceSlice, class *resourceapi.DeviceClass) []bool {
	key := matchKey{slice: slice.UID, class: class.UID, sliceVersion: slice.ResourceVersion, classVersion: class.ResourceVersion}
	if known, ok := c.matches.Get(key); ok {
		return known.([]bool)
	}
	selected := make([]bool, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		selected[i] = c.selects(class, slice.Spec.Driver, &slice.Spec.Devices[i])
	}
	c.matches.Add(key, selected)
	return selected
}

func (c *Classifier) selects(class *resourceapi.DeviceClass, driver string, device *resourceapi.Device) bool {
	for i := range class.Spec.Selectors {
		selector := class.Spec.Selectors[i].CEL
		if selector == nil {
			return false
		}
		compiled := c.expressions.GetOrCompile(selector.Expression)
		if compiled.Error != nil {
			return false
		}
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver:                   driver,
			AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
		})
		if err != nil || !matches {
			return false
		}
	}
	return true
}
