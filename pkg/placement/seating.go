// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/score"
)

// seat finds a place for the pods of count in the nodes of the lists, by figures
// alone. The seats have the index of the class for a Kind. fixed are members that
// have their places, and taken is what they use of what is free.
func (f *field) seat(lists nodeLists, count []int, fixed []score.Member, taken *usage) ([]score.Seats, bool) {
	if f.p.Model == nil || f.free == nil {
		return f.firstFit(lists, count, taken)
	}
	may := f.mask(lists)
	room := &score.Room{Facts: f.p.Facts, Nodes: f.union(lists), Free: f.free, Levels: f.p.Split}
	room.Limit = func(kind, node int) int {
		class := f.order[kind]
		if !may[kind*f.size+node] {
			return 0
		}
		return int(f.guess[class][node]) - taken.pods(class, node)
	}
	if taken != nil {
		room.Free = slices.Clone(f.free)
		for n := range taken.resources {
			room.Free[n] = taken.left(f, n)
		}
	}
	seats, _, ok := f.p.Model.Pack(f.kinds(count), fixed, room)
	if !ok {
		return f.firstFit(lists, count, taken)
	}
	for i := range seats {
		seats[i].Kind = f.order[seats[i].Kind]
	}
	return seats, true
}

// mask tells for each class in order and each node whether it is in the lists.
func (f *field) mask(lists nodeLists) []bool {
	may := make([]bool, len(f.order)*f.size)
	for k, class := range f.order {
		for _, n := range lists[class] {
			may[k*f.size+n] = true
		}
	}
	return may
}

// union returns all nodes of the lists, each once.
func (f *field) union(lists nodeLists) []int {
	if len(f.order) == 1 {
		return lists[f.order[0]]
	}
	seen := make([]bool, f.size)
	nodes := make([]int, 0, f.size)
	for _, class := range f.order {
		for _, n := range lists[class] {
			if !seen[n] {
				seen[n] = true
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// firstFit fills the nodes in their order, heaviest class first.
func (f *field) firstFit(lists nodeLists, count []int, taken *usage) ([]score.Seats, bool) {
	var seats []score.Seats
	used := taken.clone()
	for _, class := range f.order {
		left := count[class]
		for _, n := range lists[class] {
			if left == 0 {
				break
			}
			most := min(left, int(f.guess[class][n])-taken.pods(class, n))
			if f.free != nil && most > 0 {
				most = fits(used.left(f, n), f.p.Classes[class].Requests, most)
			}
			if most <= 0 {
				continue
			}
			used.add(f, class, n, most)
			seats = append(seats, score.Seats{Kind: class, Node: n, Count: most})
			left -= most
		}
		if left > 0 {
			return nil, false
		}
	}
	return seats, true
}

// usage is what pods have taken of the nodes' resources. Nil is nothing.
type usage struct {
	// resources is what is left on each node that has got a pod, and seats the
	// number of pods of each class there.
	resources map[int][]int64
	seats     map[[2]int]int
}

func (u *usage) clone() *usage {
	c := &usage{resources: make(map[int][]int64), seats: make(map[[2]int]int)}
	if u != nil {
		for n, left := range u.resources {
			c.resources[n] = slices.Clone(left)
		}
		for key, n := range u.seats {
			c.seats[key] = n
		}
	}
	return c
}

func (u *usage) pods(class, node int) int {
	if u == nil {
		return 0
	}
	return u.seats[[2]int{class, node}]
}

// left returns what is left on a node.
func (u *usage) left(f *field, node int) []int64 {
	if left, touched := u.resources[node]; touched {
		return left
	}
	if f.free == nil {
		return nil
	}
	return f.free[node]
}

func (u *usage) add(f *field, class, node, count int) {
	u.seats[[2]int{class, node}] += count
	if f.free == nil {
		return
	}
	left, touched := u.resources[node]
	if !touched {
		left = slices.Clone(f.free[node])
		u.resources[node] = left
	}
	for r, amount := range f.p.Classes[class].Requests {
		if r < len(left) {
			left[r] -= amount * int64(count)
		}
	}
}

// usageOf sums up seats.
func (f *field) usageOf(seats []score.Seats) *usage {
	u := (*usage)(nil).clone()
	for _, seat := range seats {
		u.add(f, seat.Kind, seat.Node, seat.Count)
	}
	return u
}

// rate returns the time of seats, as far as it is known before they are taken.
func (f *field) rate(seats []score.Seats) score.Result {
	if f.p.Model == nil {
		return score.Result{Align: 1}
	}
	members := slices.Clone(f.fixed)
	for _, seat := range seats {
		m := f.member(seat.Kind, seat.Node)
		for range seat.Count {
			members = append(members, m)
		}
	}
	return f.p.Model.Rate(members, f.p.Facts)
}
