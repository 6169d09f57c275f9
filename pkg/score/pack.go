// SPDX-License-Identifier: Apache-2.0

package score

import (
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// Room is the nodes that may be used and what they have.
type Room struct {
	// Facts are those of every node.
	Facts []Facts
	// Nodes are the indices of the nodes that may be used, in order of preference.
	Nodes []int
	// Free are the amounts of each resource that every node has left.
	Free [][]int64
	// Limit returns how many pods of a kind a node can hold beside what is bound
	// there, and without pods of other kinds, at most. 0 means that the node may not
	// be used.
	Limit func(kind, node int) int
	// Levels are the levels to keep the pods close by, broad to narrow. The node is
	// a level beyond the last.
	Levels []*topology.Level
}

// Pack places all pods of the kinds in the room, so that the mean time of them and
// the fixed members is short. It reports false if it finds no place for all.
func (m *Model) Pack(kinds []Kind, fixed []Member, room *Room) (seats []Seats, t Result, ok bool) {
	members := append([]Member(nil), fixed...)
	used := make(map[int][]int64)
	for k := range kinds {
		left := kinds[k].Count
		for _, node := range room.Nodes {
			free := used[node]
			if free == nil {
				free = append([]int64(nil), room.Free[node]...)
				used[node] = free
			}
			n := min(left, room.Limit(k, node))
			for r, amount := range kinds[k].Requests {
				if amount > 0 {
					n = min(n, int(free[r]/amount))
				}
			}
			if n <= 0 {
				continue
			}
			for r, amount := range kinds[k].Requests {
				free[r] -= amount * int64(n)
			}
			left -= n
			seats = append(seats, Seats{Kind: k, Node: node, Count: n})
			for range n {
				members = append(members, Member{Node: node, G: kinds[k].G, Unit: kinds[k].Unit,
					Domain: kinds[k].Domain, Channel: topology.None, RDMA: kinds[k].RDMA, Align: 1})
			}
		}
		if left > 0 {
			return nil, Result{}, false
		}
	}
	t = m.Rate(members, room.Facts)
	return seats, t, !t.Infeasible
}
