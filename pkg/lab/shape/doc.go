// SPDX-License-Identifier: Apache-2.0

// Package shape turns a shape file into the nodes, DeviceClasses and ResourceSlices
// of a cluster. The format is described in pkg/lab/shapes/README.md. The package is
// pure: it reads no file and calls no API.
package shape
