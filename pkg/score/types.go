// SPDX-License-Identifier: Apache-2.0

package score

// Facts is what the score needs to know of a node.
type Facts struct {
	// Clique is the NVLink domain of the node, topology.None if it is in none.
	Clique int32
	// Fabric are the network domains of the node, narrowest first, topology.None
	// where a label is missing.
	Fabric []int32
}

// Member is a pod of a gang in its place.
type Member struct {
	// Node is the index of the node.
	Node int
	// G is the number of accelerators. A slice of one counts as a fraction.
	G float64
	// Unit is the part of the gang that the pod belongs to. Pods of one unit talk
	// to each other more than to those of other units.
	Unit int32
	// Domain is the ComputeDomain whose NVLink the pod uses, topology.None without.
	Domain int32
	// Channel is the claim for an IMEX channel that several pods share,
	// topology.None for a claim of the pod's own or none.
	Channel int32
	// RDMA is set when the pod reaches an RDMA device.
	RDMA bool
	// Align is how well its accelerators reach their NICs, in (0, 1]; 1 is as well
	// as the machine allows.
	Align float64
}

// Kind is a number of pods that are alike, to be placed by Pack.
type Kind struct {
	// Count is the number of pods.
	Count int
	// G, Unit, Domain and RDMA are those of a Member; Align is taken to be 1.
	G      float64
	Unit   int32
	Domain int32
	RDMA   bool
	// Requests are the amounts that one pod takes of each resource of a Room.
	Requests []int64
}

// Seats says how many pods of a kind sit on a node.
type Seats struct {
	Kind, Node, Count int
}

// Result is the mean time of a placement.
type Result struct {
	// Time is the mean time to move a byte between two accelerators, in seconds
	// per 10⁹ bytes. It is 0 when there are no two.
	Time float64
	// Pairs is set when there are two accelerator pods or more. Without, Align is
	// that of the only one, or 1 if there is none.
	Pairs bool
	Align float64
	// Infeasible is set when RDMA does not work between two of the places.
	Infeasible bool
}
