// SPDX-License-Identifier: Apache-2.0

// Package score rates where a gang sits: the time to move a byte between two of
// its accelerators in the best place that the cluster could offer if it were
// empty, divided by that time in the actual place. 1.0 is the best possible.
//
// Model holds the bandwidths and weights, Time computes the mean time of a
// placement, and Pack looks for a placement of least time.
package score
