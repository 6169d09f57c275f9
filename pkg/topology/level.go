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

// Intersect returns the level whose domains are what a domain of a and a domain of
// b have in common: two nodes are in one of them if they are in one domain of both
// levels. A node that is in no domain of either level is in none. Both levels have
// to be of the same cluster. If one is nil, the result is the other.
func Intersect(a, b *Level) *Level {
	switch {
	case a == nil:
		return b
	case b == nil || a == b:
		return a
	}
	both := &Level{Key: a.Key + "," + b.Key, Of: make([]int32, len(a.Of))}
	ids := make(map[[2]int32]int32)
	for i := range a.Of {
		pair := [2]int32{a.Of[i], b.Of[i]}
		if pair[0] == None || pair[1] == None {
			both.Of[i] = None
			continue
		}
		id, known := ids[pair]
		if !known {
			id = int32(len(both.Values))
			ids[pair] = id
			both.Values = append(both.Values, a.Values[pair[0]]+","+b.Values[pair[1]])
		}
		both.Of[i] = id
	}
	return both
}
