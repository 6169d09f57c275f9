// SPDX-License-Identifier: Apache-2.0

// Package run makes one run: a control plane of its own, the cluster and the load of a
// workload, one scheduler, and what was measured of it.
package run
