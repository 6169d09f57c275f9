// SPDX-License-Identifier: Apache-2.0

// Package devices knows which devices a node publishes and which of them are
// taken. It works on objects handed to it and never asks the API server.
//
// Inventory answers what there is: the ResourceSlices that matter for one node,
// so that an allocation looks at a small world instead of the whole cluster's.
// Ledger answers what is left: the allocated state that a plan starts from,
// with the plan's own choices added and, when a choice is withdrawn, removed.
// Classifier answers which devices a DeviceClass means. Chooser answers which of
// them a pod should get where there is a choice: the allocator takes the first that
// fit, so the answer is an Arrangement, an order in which to show them. Arrangements
// answers what else to try when there is not enough for all.
package devices
