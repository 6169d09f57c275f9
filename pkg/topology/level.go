// SPDX-License-Identifier: Apache-2.0

package topology

// None is the domain of a node that does not carry the label of a level.
const None int32 = -1

// Level is the values of one node label in a cluster. It is read-only.
type Level struct {
	// Key is the label key.
	Key string
	// Of is the domain of each node, by the node's index; None if it has none.
	Of []int32
	// Values are the label values of the domains. A domain may have lost its nodes.
	Values []string
}
