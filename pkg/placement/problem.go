// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// Problem is a gang to be placed.
type Problem struct {
	// Classes are the kinds of pods.
	Classes []Class
	// Pods are the members to be placed together, each by the index of its class.
	Pods []int
	// Nodes are the nodes of the cluster. They may be left out when there are
	// neither scopes nor a model; free resources are then learned from Place alone.
	Nodes []Node
	// Facts are what the score needs to know of each node. They may be left out when
	// there are neither scopes nor a model.
	Facts []score.Facts
	// Scopes are the parts of the gang that have to lie, or would rather lie, in one
	// domain, the wider before the narrower. They hold together: a class obeys all
	// scopes that it is in. Most form a tree (gang, group configs, groups), but the
	// members of a ComputeDomain may cut across it. Empty when nothing is
	// constrained.
	Scopes []Scope
	// Pins are the members that are bound already.
	Pins []Pin
	// Split are levels that are used to keep pods close where no scope says how,
	// broad to narrow: the fabric, then NVLink domains if the gang uses NVLink between
	// nodes.
	Split []*topology.Level
	// Model rates placements. Nil: every placement is as good as another.
	Model *score.Model
	// Companions are pods that are not placed now but belong to gangs of the same
	// workload: among domains that are equal for the gang, one that has room for
	// them too is preferred. Each is a class and a number. Near are the nodes where
	// members of such gangs are bound: among equals, nodes close to them are
	// preferred.
	Companions []Companion
	Near       []int
	// Reuse are nodes to which the gang would rather come back: of placements with
	// the same score, one with more pods there is preferred.
	Reuse []int
	// Interacts is set when whether a pod fits depends on where others of the gang
	// are, beyond the room they take: affinity, anti-affinity, spreading. The
	// order in which pods are placed then matters, and fewer orders are skipped.
	Interacts bool
	// Rearranges is set when a pod that is refused on a node may fit there once pods
	// placed there before are given other devices.
	Rearranges bool
	// Budget bounds the number of placements that Search tries once it
	// reconsiders its choices.
	Budget int
}

// Node is a node of the cluster.
type Node struct {
	// Free and Total are the amounts of each resource that are left, and that
	// there would be if the node were empty. All nodes have the same resources in
	// the same order: CPU, memory, pods, extended resources, devices by class.
	Free, Total []int64
}

// Class is a set of pods with the same needs.
type Class struct {
	// Weight orders classes: the heavier is placed first. It is a figure of
	// difficulty without a unit.
	Weight float64
	// Nodes are the indices of the nodes that the class may use now, in the order in
	// which they are to be tried.
	Nodes []int
	// Eligible are the nodes that it could use if they were empty; Nodes if nil.
	Eligible []int
	// Requests are the amounts that one pod takes of each resource of Node.
	Requests []int64
	// Scopes are the indices of the scopes that the class is in.
	Scopes []int
	// G, Unit, Domain, Channel and RDMA are those of score.Member.
	G               float64
	Unit            int32
	Domain, Channel int32
	RDMA            bool
}

// Scope is a part of a gang with a wish for where it lies.
type Scope struct {
	// Name is for refusals: "gang", or the name of the group config or group.
	Name string
	// Required is the level of which all pods of the scope have to be in one
	// domain, nil for none.
	Required *topology.Level
	// Preferred are the levels of which they would rather be in one domain: the
	// first is tried first. None of them is Required.
	Preferred []*topology.Level
}

// Pin is a bound member of the gang. It confines the scopes that it belongs to: to
// its domain of their Required level, or to the domains of all bound members where
// those lie in several already. A node without the label confines nothing.
type Pin struct {
	// Scopes are the indices of the scopes that the member is in.
	Scopes []int
	// Class is the class of pods like it, for Best, which places it anew. That class
	// need not have pods.
	Class int
	// Member is what the score needs to know, its node included.
	Member score.Member
}

// Companion is a number of pods of one class of another gang.
type Companion struct {
	Class, Count int
}

// Cluster tells whether pods fit, and remembers those placed.
type Cluster interface {
	// Count returns how many pods of the class, and no others, fit on the node
	// beside what is placed now at most. It may be too high, never too low: where
	// pods interact, it has to leave out what others of the gang could change by
	// being placed elsewhere. Search asks once for each node of a class.
	Count(class, node int) int
	// Place puts pod (an index into Problem.Pods) on the node if it fits there
	// beside what has been placed before, and returns the function that takes it
	// off again. Choices are taken back in reverse order. With rearrange, pods
	// placed on that node before may be given other devices to make room; taking
	// the pod off gives them back theirs.
	Place(pod, node int, rearrange bool) (undo func(), fits bool)
	// Align returns the score.Member.Align of a pod that is placed.
	Align(pod int) float64
}

// Shortage says why a problem has no solution.
type Shortage struct {
	// Class cannot be placed.
	Class int
	// Placed of Wanted pods of the class found a node.
	Placed, Wanted int
	// Alone is set when the class does not fit even without the other classes;
	// otherwise every class fits alone, but not all together.
	Alone bool
	// Scope is the scope that could not be satisfied, -1 when constraints are not
	// what is in the way: there is no room even without them. Domain is the domain of
	// its Required level that came nearest, topology.None if no node carries the
	// label.
	Scope  int
	Domain int32
	// Exhausted is set when the search was cut short by its budget, so that a
	// solution may exist.
	Exhausted bool
	// Infeasible is set when there is room, but only in places between which RDMA
	// does not work.
	Infeasible bool
	// Tried counts the placements that were tried.
	Tried int
}

// Solution is a placement of all pods of a problem.
type Solution struct {
	// Nodes is the node of each pod.
	Nodes []int
	// Time is that of the placement, bound members included.
	Time score.Result
}
