// SPDX-License-Identifier: Apache-2.0

package placement

// Problem is a gang to be placed.
type Problem struct {
	// Classes are the kinds of pods.
	Classes []Class
	// Pods are the members to be placed together, each by the index of its class.
	Pods []int
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

// Class is a set of pods with the same needs.
type Class struct {
	// Weight orders classes: the heavier is placed first. It is a figure of
	// difficulty without a unit.
	Weight float64
	// Nodes are the indices of the nodes that the class may use, in the order in
	// which they are to be tried.
	Nodes []int
}

// Cluster tells whether pods fit, and remembers those placed.
type Cluster interface {
	// Place puts pod (an index into Problem.Pods) on the node if it fits there
	// beside what has been placed before, and returns the function that takes it
	// off again. Choices are taken back in reverse order. With rearrange, pods
	// placed on that node before may be given other devices to make room; taking
	// the pod off gives them back theirs.
	Place(pod, node int, rearrange bool) (undo func(), fits bool)
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
	// Exhausted is set when the search was cut short by its budget, so that a
	// solution may exist.
	Exhausted bool
	// Tried counts the placements that were tried.
	Tried int
}
