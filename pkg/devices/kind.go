// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Drivers whose devices are recognised. Attributes come before drivers where there
// is one that tells.
const (
	driverNVIDIA        = "gpu.nvidia.com"
	driverAMD           = "gpu.amd.com"
	DriverComputeDomain = "compute-domain.nvidia.com"
)

// Attributes that drivers publish. Those without a domain belong to their driver.
const (
	attributeType        = "type"
	attributeProfile     = "profile"
	attributeRDMA        = "dra.net/rdma"
	attributeRDMACapable = "rdmaCapable"
	attributePCIeRoot    = "resource.kubernetes.io/pcieRoot"
	attributeNUMANode    = "resource.kubernetes.io/numaNode"
	attributeDranetNUMA  = "dra.net/numaNode"
	attributePCIBusID    = "resource.kubernetes.io/pciBusID"
	attributeProduct     = "productName"
)

// migSlices is the number of compute slices that a whole GPU can be cut into.
const migSlices = 7

// Accelerators returns how many accelerators a device is: 1 for a whole one, N/7 for
// a MIG device of profile "Ng.*", 0 for a device of another sort.
func Accelerators(driver string, device *resourceapi.Device) float64 {
	if driver != driverNVIDIA && driver != driverAMD {
		return 0
	}
	if Text(driver, device, attributeType) != "mig" {
		return 1
	}
	slices, _, found := strings.Cut(Text(driver, device, attributeProfile), "g.")
	n, err := strconv.Atoi(slices)
	if !found || err != nil || n < 1 || n > migSlices {
		return 1
	}
	return float64(n) / migSlices
}

// IsRDMA reports whether a device says of itself that it does RDMA.
func IsRDMA(driver string, device *resourceapi.Device) bool {
	for _, name := range []string{attributeRDMA, attributeRDMACapable} {
		if a, ok := attribute(driver, device, name); ok && a.BoolValue != nil && *a.BoolValue {
			return true
		}
	}
	return false
}

// IsChannel reports whether a device is an IMEX channel.
func IsChannel(driver string, device *resourceapi.Device) bool {
	return driver == DriverComputeDomain && Text(driver, device, attributeType) == "channel"
}

// attribute returns an attribute by its bare or qualified name. A bare name means
// the domain of the driver, and a driver may write its own either way.
func attribute(driver string, device *resourceapi.Device, name string) (resourceapi.DeviceAttribute, bool) {
	if a, ok := device.Attributes[resourceapi.QualifiedName(name)]; ok {
		return a, true
	}
	if bare, own := strings.CutPrefix(name, driver+"/"); own {
		a, ok := device.Attributes[resourceapi.QualifiedName(bare)]
		return a, ok
	}
	if !strings.Contains(name, "/") {
		a, ok := device.Attributes[resourceapi.QualifiedName(driver+"/"+name)]
		return a, ok
	}
	return resourceapi.DeviceAttribute{}, false
}

// Text returns an attribute that is a string, "" if it is none. Of a list, it is
// the first.
func Text(driver string, device *resourceapi.Device, name string) string {
	a, _ := attribute(driver, device, name)
	switch {
	case a.StringValue != nil:
		return *a.StringValue
	case len(a.StringValues) > 0:
		return a.StringValues[0]
	}
	return ""
}

// number returns an attribute that is a number. Of a list, it is the first.
func number(driver string, device *resourceapi.Device, name string) (int64, bool) {
	a, _ := attribute(driver, device, name)
	switch {
	case a.IntValue != nil:
		return *a.IntValue, true
	case len(a.IntValues) > 0:
		return a.IntValues[0], true
	}
	return 0, false
}
