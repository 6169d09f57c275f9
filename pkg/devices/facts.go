// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/lru"
)

// cachedFacts is of how many slices the facts are kept; a slice takes some kilobytes.
const cachedFacts = 8192

// facts are what is read of the devices of a slice, in their order.
type facts struct {
	ids    []structured.DeviceID
	places []Locus
	nic    []bool
	// partitions are the partitions of a device, one for each of partitionSizes; nil
	// if no device has any.
	partitions [][len(partitionSizes)]string
}

// factCache remembers the facts of slices for as long as they do not change. It may be
// used by several goroutines.
type factCache struct {
	known *lru.Cache
	hints Hints
}

type factKey struct {
	uid     types.UID
	version string
}

func newFactCache(hints Hints) factCache {
	return factCache{known: lru.New(cachedFacts), hints: hints}
}

// of returns the facts of a slice. They must not be changed. A slice that is not from
// the API has no UID and is read each time.
func (c factCache) of(slice *resourceapi.ResourceSlice) *facts {
	if slice.UID == "" {
		return readFacts(slice, c.hints)
	}
	key := factKey{uid: slice.UID, version: slice.ResourceVersion}
	if known, ok := c.known.Get(key); ok {
		return known.(*facts)
	}
	f := readFacts(slice, c.hints)
	c.known.Add(key, f)
	return f
}

func readFacts(slice *resourceapi.ResourceSlice, hints Hints) *facts {
	n := len(slice.Spec.Devices)
	f := &facts{ids: make([]structured.DeviceID, n), places: make([]Locus, n), nic: make([]bool, n)}
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		f.ids[i] = deviceIn(slice, i)
		f.places[i] = LocusOf(slice.Spec.Driver, device, hints)
		f.nic[i] = IsRDMA(slice.Spec.Driver, device)
		for j, size := range partitionSizes {
			value := valueOf(slice.Spec.Driver, device, "partition"+strconv.Itoa(size))
			if value != "" && f.partitions == nil {
				f.partitions = make([][len(partitionSizes)]string, n)
			}
			if value != "" {
				f.partitions[i][j] = value
			}
		}
	}
	return f
}

// valueOf returns an attribute as a text, "" if there is none.
func valueOf(driver string, device *resourceapi.Device, name string) string {
	a, _ := attribute(driver, device, name)
	switch {
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	case a.VersionValue != nil:
		return *a.VersionValue
	}
	if n, ok := number(driver, device, name); ok {
		return strconv.FormatInt(n, 10)
	}
	return Text(driver, device, name)
}
