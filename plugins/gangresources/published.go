// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"fmt"
	"hash/maphash"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/devices"
)

// published is what is published of devices, kept from one session to the next while it
// is the same. It is not changed once made.
type published struct {
	// generation counts the changes. What has changed is told by sum, which is made of
	// the slices' addresses: a rule that taints devices changes a slice without a new
	// version of it.
	generation, sum uint64
	slices          []*resourceapi.ResourceSlice
	inventory       *devices.Inventory
}

// readSlices lists the ResourceSlices, and indexes them anew if one has changed. It
// belongs to the goroutine of the scheduling cycle.
func (p *Plugin) readSlices() (*published, error) {
	slices, err := p.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	var sum uint64 // does not depend on the order
	for _, slice := range slices {
		sum += maphash.Comparable(p.seed, slice)
	}
	if known := p.published; known.sum != sum || len(known.slices) != len(slices) {
		p.published = &published{generation: known.generation + 1, sum: sum, slices: slices, inventory: known.inventory.With(slices)}
	}
	return p.published, nil
}

// Slices returns all ResourceSlices.
func (s *Session) Slices() []*resourceapi.ResourceSlice { return s.published.slices }

// Generation tells versions of the ResourceSlices and DeviceClasses apart: while it is
// the same, so are they. It is of use within one process.
func (s *Session) Generation() string {
	return fmt.Sprintf("%d %x", s.published.generation, s.classes)
}

// Classes tells versions of the DeviceClasses apart, within one process.
func (s *Session) Classes() uint64 { return s.classes }

// sumOfClasses is the version of the DeviceClasses.
func (p *Plugin) sumOfClasses() (uint64, error) {
	classes, err := p.manager.DeviceClasses().List()
	if err != nil {
		return 0, fmt.Errorf("list DeviceClasses: %w", err)
	}
	type version struct {
		uid     types.UID
		version string
	}
	var sum uint64
	for _, class := range classes {
		sum += maphash.Comparable(p.seed, version{class.UID, class.ResourceVersion})
	}
	return sum, nil
}
