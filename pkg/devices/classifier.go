// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	resourceapi "k8s.io/api/resource/v1"
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

// answer is what is known for one version of a slice.
type answer struct {
	version string
	// of is the digest of what was judged. The devices themselves would be kept in memory
	// when the slice is long gone.
	of     [sha256.Size]byte
	wanted []bool
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
	old, known := c.matches.Get(key)
	if known && old.(answer).version == slice.ResourceVersion {
		return old.(answer).wanted
	}
	now := answer{version: slice.ResourceVersion, of: digest(slice)}
	if known && old.(answer).of == now.of {
		// Drivers publish the same again, when they start or something else changes.
		now.wanted = old.(answer).wanted
	} else {
		now.wanted = c.judge(slice, class, selectors)
	}
	c.matches.Add(key, now)
	return now.wanted
}

// judge asks the selectors for each device of the slice.
func (c *Classifier) judge(slice *resourceapi.ResourceSlice, class *resourceapi.DeviceClass, selectors []resourceapi.DeviceSelector) []bool {
	wanted := make([]bool, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		wanted[i] = c.selects(class.Spec.Selectors, slice.Spec.Driver, device) && c.selects(selectors, slice.Spec.Driver, device)
	}
	return wanted
}

// digest is equal for slices whose devices selectors cannot tell apart.
func digest(slice *resourceapi.ResourceSlice) (sum [sha256.Size]byte) {
	hash := sha256.New()
	hash.Write([]byte(slice.Spec.Driver))
	for i := range slice.Spec.Devices {
		visible := visibleOf(&slice.Spec.Devices[i])
		encoded, err := visible.Marshal() // maps in the order of their keys
		if err != nil {
			// No field of a device makes it fail in v1.37: the version alone tells then.
			return sha256.Sum256([]byte(slice.UID + "/" + types.UID(slice.ResourceVersion)))
		}
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(encoded))))
		hash.Write(encoded)
	}
	hash.Sum(sum[:0])
	return sum
}

// visibleOf is the part of a device that selectors see: what CompilationResult.DeviceMatches
// takes (k8s.io/dynamic-resource-allocation/cel v0.37.2). A quantity notes its text when it
// is encoded, and slices are read by several goroutines: those here are copies.
func visibleOf(device *resourceapi.Device) *resourceapi.Device {
	visible := &resourceapi.Device{AllowMultipleAllocations: device.AllowMultipleAllocations, Attributes: device.Attributes}
	if len(device.Capacity) > 0 {
		visible.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(device.Capacity))
	}
	for name, capacity := range device.Capacity {
		visible.Capacity[name] = resourceapi.DeviceCapacity{Value: capacity.Value.DeepCopy()}
	}
	return visible
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
