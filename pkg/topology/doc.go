// SPDX-License-Identifier: Apache-2.0

// Package topology knows which nodes are close to each other: the domains that
// node labels describe, the order of their levels, and the families of labels
// that clusters carry for NVLink domains and network fabrics.
//
// Each label key is a level of its own, and a domain is the set of nodes with one
// value of it. Levels need not nest: a rack may lie in two blocks, and an NVLink
// domain may span racks. A node without the label is in no domain of that level.
package topology
