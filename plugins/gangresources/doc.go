// SPDX-License-Identifier: Apache-2.0

// Package gangresources is the plugin PodGangResources: the in-tree
// DynamicResources plugin, seen through the reservation of a gang.
//
// A pod without a reservation passes straight through to the in-tree plugin.
// For a whole gang, a Session allocates the devices of every member before the
// first of them is scheduled: it runs a second instance of the in-tree plugin
// whose view of the cluster (planningManager) is one node small and contains
// the choices made so far. Session.Reserve then makes the choices visible to
// the whole scheduler as pending allocations. When a member comes to its own
// scheduling cycle, PreFilter hands it the state that the session prepared;
// Filter and Reserve have nothing left to do, and Unreserve and PreBind are the
// in-tree ones.
//
// What is published and allocated is kept from one session to the next, with a count of the
// devices of each sort on each node; foresight has devices judged by CEL before a session
// asks.
//
// # Which devices
//
// The in-tree plugin gives a pod the first devices that fit. A session shows it the
// devices of the node in an order in which those come first that the pod should get,
// as package devices decides: near each other, GPUs beside NICs, larger groups left
// whole. None is hidden, so that constraints, alternatives, counters and the rest are
// the allocator's business as ever.
//
// Nor does the in-tree plugin come back to a choice. Session.Rearrange does: it has the
// allocator look for all members on a node at once, in the arrangements that package
// devices proposes, and then has the in-tree plugin allocate member by member, each of
// which sees exactly the devices that it is to get. How long that may take is bounded by a
// searchLimit.
//
// # Concurrency
//
// Sessions, PreFilter, Filter, Score and Reserve run in the scheduling cycle,
// which is one goroutine. PreBind and Unreserve run in binding cycles, many at
// a time; they use the real manager only and never see a session's view.
package gangresources
