// SPDX-License-Identifier: Apache-2.0

// Package podgang is the plugin PodGang: it schedules the pods of a Grove PodGang
// together or not at all.
//
// What happens to a gang, by extension point (one file each; PreEnqueue is the
// small plugin PodGangGate, the rest the plugin PodGang):
//
//   - PreEnqueue keeps members out of the queue until their gang is ready, and
//     then lets one in, the leader.
//   - PreFilter of the leader plans the whole gang, reserves its devices, and
//     lets the other members in. PreFilter of any planned member returns its node.
//   - Filter keeps pods from nodes that are kept for a gang which has waited for long
//     and comes before them (starve.go).
//   - PostFilter keeps other plugins from evicting pods for a lone member.
//   - Reserve and Unreserve report that a member's cycle has begun, or has failed.
//   - Permit holds members until the whole floor has arrived.
//   - Bind holds members until the whole floor is prepared, then binds.
//   - PostBind reports that a member is bound.
//   - EventsToRegister wakes a gang that did not fit when something happens that
//     could change that.
//
// # A plan
//
// A world is the cluster as one plan sees it; it tells the search (pkg/placement)
// whether pods fit. Its layout says where members are to be relative to each other:
// constraints of the PodGang, in the order of levels that a ClusterTopologyBinding
// tells (bindings.go) or the arguments; one NVLink domain for each ComputeDomain;
// near the members that have a place, and near gangs of the same PodCliqueSet
// replica. The landscape keeps the topology of the cluster from one plan to the next, the
// screenBook what the filters have said of nodes that have not changed since, and the
// keyBook which pods ask for the same. What a plan needs for each node of the cluster lies
// in the scratch, which the next plan uses again.
// A member that joins a gang which has its floors is placed in the same way, alone
// (join.go).
//
// # Concurrency
//
// PreFilter, PostFilter, Reserve and Permit run in the scheduling cycle, which is
// one goroutine, and so the landscape, the screenBook, the keyBook and the remembered best
// placements need no lock; Bind, PostBind and Unreserve run in binding cycles, many at a time;
// PreEnqueue, Less and the queueing hints run under the lock of the scheduling queue.
// Filter runs in the scheduling cycle for several nodes at a time, and reads the book of
// kept nodes alone. The state they share is the gang.Index and the books (of waits,
// turns, keeps and so on), each with a lock of its own that is a leaf. Nothing may call
// the queue (Activate) while holding a lock of ours.
package podgang
