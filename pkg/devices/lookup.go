// SPDX-License-Identifier: Apache-2.0

package devices

import (
	resourceapi "k8s.io/api/resource/v1"
)

// Device returns a device by its driver, pool and name, nil if no slice of the
// newest generation of its pool has it.
func (inv *Inventory) Device(driver, pool, name string) *resourceapi.Device {
	slices := inv.pools[poolID{driver: driver, pool: pool}]
	generation := newestGeneration(slices)
	for _, slice := range slices {
		if slice.Spec.Pool.Generation != generation {
			continue
		}
		for i := range slice.Spec.Devices {
			if slice.Spec.Devices[i].Name == name {
				return &slice.Spec.Devices[i]
			}
		}
	}
	return nil
}

// OnNode calls visit for each device that the node publishes by name.
func (inv *Inventory) OnNode(node string, visit func(driver string, device *resourceapi.Device)) {
	for _, id := range inv.poolsOf(node) {
		generation := newestGeneration(inv.pools[id])
		for _, slice := range inv.pools[id] {
			if slice.Spec.Pool.Generation != generation || slice.Spec.NodeName == nil || *slice.Spec.NodeName != node {
				continue
			}
			for i := range slice.Spec.Devices {
				visit(slice.Spec.Driver, &slice.Spec.Devices[i])
			}
		}
	}
}

// Shared returns the number of the meant devices in pools that are not tied to one
// node by name.
func (inv *Inventory) Shared(meant Selector) int {
	total := 0
	for _, id := range inv.shared {
		generation := newestGeneration(inv.pools[id])
		for _, slice := range inv.pools[id] {
			if slice.Spec.Pool.Generation != generation || slice.Spec.NodeName != nil {
				continue
			}
			for _, selected := range meant(slice) {
				if selected {
					total++
				}
			}
		}
	}
	return total
}
