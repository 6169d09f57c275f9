// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/lru"
)

const (
	// cachedExpressions is how many compiled selectors are kept.
	cachedExpressions = 100
	// cachedMatches is how many answers for a slice are kept. A plan asks for all
	// slices of the cluster, for each sort of device that it needs, in the same order
	// as the last one: what is too small for that is of no use. An entry is about 300
	// bytes.
	cachedMatches = 1 << 17
)

// Classifier knows which devices a DeviceClass selects. It remembers its answers
// for as long as neither the devices of a slice nor the class changes. It may be used by
// several goroutines.
type Classifier struct {
	expressions *cel.Cache
	matches     *lru.Cache
}

// matchKey names a slice, one version of a class, and the selectors of a request besides.
type matchKey struct {
	slice, class types.UID
	classVersion string
	selectors    string
}

// answer is what is known for one version of a slice, and what it was made of.
type answer struct {
	version string
	driver  string
	devices []resourceapi.Device
	wanted  []bool
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
	return c.Wanted(slice, class, nil)
}

// Wanted tells for each device of the slice whether the class and the selectors of a
// request select it.
func (c *Classifier) Wanted(slice *resourceapi.ResourceSlice, class *resourceapi.DeviceClass, selectors []resourceapi.DeviceSelector) []bool {
	key := matchKey{slice: slice.UID, class: class.UID, classVersion: class.ResourceVersion, selectors: SelectorKey(selectors)}
	now := answer{version: slice.ResourceVersion, driver: slice.Spec.Driver, devices: slice.Spec.Devices}
	if known, ok := c.matches.Get(key); ok {
		known := known.(answer)
		switch {
		case known.version == now.version:
			return known.wanted
		case known.driver == now.driver && equality.Semantic.DeepEqual(known.devices, now.devices):
			// Drivers publish the same again, when they start or something else changes.
			now.wanted = known.wanted
			c.matches.Add(key, now)
			return now.wanted
		}
	}
	now.wanted = make([]bool, len(now.devices))
	for i := range now.devices {
		device := &now.devices[i]
		now.wanted[i] = c.selects(class.Spec.Selectors, now.driver, device) && c.selects(selectors, now.driver, device)
	}
	c.matches.Add(key, now)
	return now.wanted
}

// SelectorKey returns a text that is equal for equal selectors.
func SelectorKey(selectors []resourceapi.DeviceSelector) string {
	key := ""
	for i := range selectors {
		if selectors[i].CEL != nil {
			key += selectors[i].CEL.Expression
		}
		key += "\x00"
	}
	return key
}

func (c *Classifier) selects(selectors []resourceapi.DeviceSelector, driver string, device *resourceapi.Device) bool {
	for i := range selectors {
		selector := selectors[i].CEL
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
