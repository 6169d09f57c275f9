// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// field is the cluster as one search sees it, in figures: how much of what the
// nodes can take, at most. Nothing in it changes while the search goes on, except
// guess.
type field struct {
	p *Problem
	// size is the number of nodes.
	size int
	// count is the number of pods to be placed of each class, and order lists the
	// classes that have any, heaviest first.
	count []int
	order []int
	// nodes are the nodes that each class may use, rank the place of a node in that
	// list. Both are nil for a class without pods.
	nodes [][]int
	rank  [][]int32
	// free is what is left on each node; nil if that is not known.
	free [][]int64
	// limit is the number of pods of a class that a node can take at most, guess the
	// same as far as refusals have taught. Limit is proof, guess is not.
	limit, guess [][]int32
	// taught is set when guess is lower than limit somewhere: what follows from the
	// guess is then no proof.
	taught bool

	scopes []scope
	// pins are the bound members, fixed the same for the score.
	pins  []Pin
	fixed []score.Member
	// levels are the levels of the problem, each once, for judging how tightly a
	// domain holds the gang; room is the number of pods of the heaviest class that
	// each domain of each level can take, made when it is first needed.
	levels []*topology.Level
	room   [][]int64
	// companions are the limits of the companions' classes, by class.
	companions [][]int32
	// near counts the nodes of Problem.Near in each domain of each level of Split.
	near [][]int32
	// reuse tells for each node whether it is in Problem.Reuse, nil if none is.
	reuse []bool
}

// newField sees the cluster as it is now.
func newField(p *Problem, cluster Cluster) *field {
	f := &field{p: p, pins: p.Pins, count: make([]int, len(p.Classes))}
	for _, class := range p.Pods {
		f.count[class]++
	}
	for _, pin := range p.Pins {
		f.fixed = append(f.fixed, pin.Member)
	}
	nodesOf := func(class int) []int { return p.Classes[class].Nodes }
	f.prepare(nodesOf, cluster.Count)
	if len(p.Nodes) > 0 {
		f.free = make([][]int64, len(p.Nodes))
		for n := range p.Nodes {
			f.free[n] = p.Nodes[n].Free
		}
	}
	f.companions = make([][]int32, len(p.Classes))
	for _, c := range p.Companions {
		if f.limit[c.Class] != nil {
			f.companions[c.Class] = f.limit[c.Class]
		} else if f.companions[c.Class] == nil {
			f.companions[c.Class] = f.limitsOf(c.Class, nodesOf(c.Class), cluster.Count)
		}
	}
	f.scopes = scopesOf(p, f.pins, f.order, true)
	f.note()
	return f
}

// teach lowers the guess for a class on a node.
func (f *field) teach(class, node int, most int32) {
	if most < f.guess[class][node] {
		f.guess[class][node], f.taught = most, true
	}
}

// forget takes back what refusals have taught.
func (f *field) forget() {
	for class := range f.guess {
		copy(f.guess[class], f.limit[class])
	}
	f.taught = false
}

// newEmptyField sees the cluster as if nothing were on its nodes, bound members of
// the gang included, and no domain were preferred.
func newEmptyField(p *Problem) *field {
	f := &field{p: p, count: make([]int, len(p.Classes)), free: make([][]int64, len(p.Nodes))}
	for _, class := range p.Pods {
		f.count[class]++
	}
	for _, pin := range p.Pins {
		f.count[pin.Class]++
	}
	for n := range p.Nodes {
		f.free[n] = p.Nodes[n].Total
	}
	eligible := func(class int) []int {
		if c := &p.Classes[class]; c.Eligible != nil {
			return c.Eligible
		}
		return p.Classes[class].Nodes
	}
	f.prepare(eligible, func(class, node int) int {
		return fits(f.free[node], p.Classes[class].Requests, f.count[class])
	})
	f.scopes = scopesOf(p, nil, f.order, false)
	f.note()
	return f
}

// prepare orders the classes and asks for the limits of their nodes.
func (f *field) prepare(nodesOf func(class int) []int, count func(class, node int) int) {
	f.size = len(f.p.Nodes)
	f.nodes, f.rank = make([][]int, len(f.count)), make([][]int32, len(f.count))
	f.limit, f.guess = make([][]int32, len(f.count)), make([][]int32, len(f.count))
	for class := range f.count {
		for _, n := range nodesOf(class) {
			f.size = max(f.size, n+1)
		}
	}
	for class, n := range f.count {
		if n == 0 {
			continue
		}
		f.order = append(f.order, class)
		f.nodes[class] = nodesOf(class)
		f.rank[class] = make([]int32, f.size)
		for at, n := range f.nodes[class] {
			f.rank[class][n] = int32(at)
		}
		f.limit[class] = f.limitsOf(class, f.nodes[class], count)
		f.guess[class] = slices.Clone(f.limit[class])
	}
	slices.SortStableFunc(f.order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(f.p.Classes[b].Weight, f.p.Classes[a].Weight),
			cmp.Compare(len(f.nodes[a]), len(f.nodes[b])))
	})
}

func (f *field) limitsOf(class int, nodes []int, count func(class, node int) int) []int32 {
	limits := make([]int32, f.size)
	for _, n := range nodes {
		limits[n] = int32(min(count(class, n), 1<<20))
	}
	return limits
}

// note lists the levels, the domains of Near, and what is in Reuse.
func (f *field) note() {
	add := func(level *topology.Level) {
		if level != nil && !slices.Contains(f.levels, level) {
			f.levels = append(f.levels, level)
		}
	}
	for _, level := range f.p.Split {
		add(level)
	}
	for i := range f.p.Scopes {
		add(f.p.Scopes[i].Required)
		for _, level := range f.p.Scopes[i].Preferred {
			add(level)
		}
	}
	for _, level := range f.p.Split {
		f.near = append(f.near, countDomains(level, f.p.Near))
	}
	for _, n := range f.p.Reuse {
		if f.reuse == nil {
			f.reuse = make([]bool, f.size)
		}
		if n < f.size {
			f.reuse[n] = true
		}
	}
}

// reused returns the nodes of each class that are in Reuse.
func (f *field) reused() nodeLists {
	lists := make(nodeLists, len(f.nodes))
	for class, nodes := range f.nodes {
		for _, n := range nodes {
			if f.reuse[n] {
				lists[class] = append(lists[class], n)
			}
		}
	}
	return lists
}

// countDomains counts the nodes in each domain of a level.
func countDomains(level *topology.Level, nodes []int) []int32 {
	if len(nodes) == 0 {
		return nil
	}
	counts := make([]int32, len(level.Values))
	for _, n := range nodes {
		if d := domainOf(level, n); d != topology.None {
			counts[d]++
		}
	}
	return counts
}

// domainOf returns the domain of a node, None for one that the level does not know.
func domainOf(level *topology.Level, node int) int32 {
	if node < 0 || node >= len(level.Of) {
		return topology.None
	}
	return level.Of[node]
}

// roomOf returns how many pods of the heaviest class each domain of a level takes.
func (f *field) roomOf(level int) []int64 {
	if f.room == nil {
		f.room = make([][]int64, len(f.levels))
	}
	if f.room[level] == nil {
		room := make([]int64, len(f.levels[level].Values))
		class := f.order[0]
		for _, n := range f.nodes[class] {
			if d := domainOf(f.levels[level], n); d != topology.None {
				room[d] += int64(f.limit[class][n])
			}
		}
		f.room[level] = room
	}
	return f.room[level]
}

// fits returns how many times the requests fit into what is free, most at most.
func fits(free, requests []int64, most int) int {
	for r, amount := range requests {
		if amount > 0 && r < len(free) {
			most = min(most, int(max(free[r], 0)/amount))
		}
	}
	return most
}

// pods returns the number of pods of the classes that are to be placed.
func (f *field) pods(classes []int) int {
	sum := 0
	for _, class := range classes {
		sum += f.count[class]
	}
	return sum
}

// member is a pod of a class in a place, as far as the class tells.
func (f *field) member(class, node int) score.Member {
	c := &f.p.Classes[class]
	return score.Member{Node: node, G: c.G, Unit: c.Unit, Domain: c.Domain, Channel: c.Channel, RDMA: c.RDMA, Align: 1}
}

// kinds returns a kind for each of the classes in order, with the pods of count.
func (f *field) kinds(count []int) []score.Kind {
	kinds := make([]score.Kind, len(f.order))
	for k, class := range f.order {
		c := &f.p.Classes[class]
		kinds[k] = score.Kind{Count: count[class], G: c.G, Unit: c.Unit, Domain: c.Domain, RDMA: c.RDMA, Requests: c.Requests}
	}
	return kinds
}
