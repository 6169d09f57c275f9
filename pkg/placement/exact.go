// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// A problem is tiny, and all ways to seat it are looked at, up to these numbers of
// nodes and pods. The number of seats that are tried in all is bounded too.
const (
	tinyNodes    = 8
	tinyPods     = 8
	tinySteps    = 500_000
	tinyFinalist = 2_000
)

// enumeration looks at all ways to seat a tiny problem, by figures alone, and
// passes over those that cannot become the best. Classes and nodes are numbered
// within it: the classes in the field's order, the nodes as listed. A slot is a
// class on a node.
type enumeration struct {
	f     *field
	lists nodeLists
	nodes []int
	// limit is the most pods of each slot, 0 where the class may not use the node.
	limit []int
	// cost is the time between a pod of one slot and one of another, weighted; lone
	// is that between a pod of a slot and all bound members; base that between the
	// bound members. The mean time is their sum divided by mass.
	cost       []float64
	lone       []float64
	base, mass float64
	align      []float64
	// refused are contents of each node, by class, that the cluster has refused.
	refused [][][]int
	// steps are left to be spent; cut is set when they were not enough.
	steps int
	cut   bool

	// seats counts the pods of each slot so far, left is what they leave of the
	// node's resources, and sum the cost between them.
	seats []int
	left  [][]int64
	sum   float64
	// domain is that of each scope, of which held pods have a seat.
	domain []int32
	held   []int

	// found is set when there is a way: missed and least are the best so far.
	found  bool
	missed []int
	least  float64
	seated []score.Seats
	// final is set in the second pass, which picks the best of those that are as
	// good; finalists are left to be compared.
	final     bool
	finalists int
	best      *candidate
}

// tiny reports whether the problem is small enough for an enumeration.
func (f *field) tiny() bool {
	pods := f.pods(f.order)
	return pods > 0 && pods <= tinyPods && len(f.usable()) <= tinyNodes
}

// usable are the nodes that can take a pod of any class.
func (f *field) usable() []int {
	var nodes []int
	for _, n := range f.union(f.nodes) {
		for _, class := range f.order {
			if f.limit[class][n] > 0 {
				nodes = append(nodes, n)
				break
			}
		}
		if len(nodes) > tinyNodes {
			break
		}
	}
	return nodes
}

func newEnumeration(f *field) *enumeration {
	e := &enumeration{f: f, lists: f.nodes, nodes: f.usable(), steps: tinySteps}
	slots := len(f.order) * len(e.nodes)
	e.limit, e.seats = make([]int, slots), make([]int, slots)
	e.align = make([]float64, slots)
	e.refused = make([][][]int, len(e.nodes))
	e.domain, e.held = make([]int32, len(f.scopes)), make([]int, len(f.scopes))
	for slot := range e.align {
		e.align[slot] = 1
	}
	for c, class := range f.order {
		for i, n := range e.nodes {
			if slices.Contains(f.nodes[class], n) {
				e.limit[c*len(e.nodes)+i] = int(f.limit[class][n])
			}
		}
	}
	for _, n := range e.nodes {
		if f.free == nil {
			break
		}
		e.left = append(e.left, slices.Clone(f.free[n]))
	}
	e.price()
	return e
}

// member is a pod of a slot.
func (e *enumeration) member(slot int) score.Member {
	m := e.f.member(e.f.order[slot/len(e.nodes)], e.nodes[slot%len(e.nodes)])
	m.Align = e.align[slot]
	return m
}

// price works out the cost of all pairs of slots.
func (e *enumeration) price() {
	slots := len(e.limit)
	e.cost, e.lone = make([]float64, slots*slots), make([]float64, slots)
	e.base, e.mass = 0, 0
	if e.f.p.Model == nil {
		return
	}
	facts := e.f.p.Facts
	between := func(a, b score.Member) (cost, weight float64) {
		if weight = a.G * b.G; weight == 0 {
			return 0, 0
		}
		if a.Unit != b.Unit {
			weight *= e.f.p.Model.UnitWeight
		}
		return weight * e.f.p.Model.Rate([]score.Member{a, b}, facts).Time, weight
	}
	for a := range slots {
		if e.limit[a] == 0 {
			continue
		}
		for b := range a + 1 {
			if e.limit[b] > 0 {
				e.cost[a*slots+b], _ = between(e.member(a), e.member(b))
				e.cost[b*slots+a] = e.cost[a*slots+b]
			}
		}
		for _, pin := range e.f.fixed {
			cost, _ := between(e.member(a), pin)
			e.lone[a] += cost
		}
	}
	e.weigh(between)
}

// weigh works out the cost between bound members, and the weight of all pairs,
// which does not depend on where they are.
func (e *enumeration) weigh(between func(a, b score.Member) (cost, weight float64)) {
	members := slices.Clone(e.f.fixed)
	for i, a := range members {
		for _, b := range members[:i] {
			cost, _ := between(a, b)
			e.base += cost
		}
	}
	for _, class := range e.f.order {
		for range e.f.count[class] {
			members = append(members, e.f.member(class, e.nodes[0]))
		}
	}
	for i, a := range members {
		for _, b := range members[:i] {
			_, weight := between(a, b)
			e.mass += weight
		}
	}
}

func (e *enumeration) time() float64 {
	if e.mass == 0 {
		return 0
	}
	return (e.base + e.sum) / e.mass
}

// search returns the best way that has not been refused, nil if there is none. If
// not complete, there may be a better one.
func (e *enumeration) search() (best *candidate, complete bool) {
	e.found, e.final, e.cut, e.best, e.least = false, false, false, nil, math.Inf(1)
	e.descend(0, 0, e.count(0))
	if !e.found {
		return nil, !e.cut
	}
	if !e.cut {
		e.final, e.finalists = true, tinyFinalist
		e.descend(0, 0, e.count(0))
	}
	if e.best == nil {
		e.best = e.f.assess(e.seated, e.lists, e.rate(e.seated, e.least))
	}
	return e.best, !e.cut
}

func (e *enumeration) rate(seats []score.Seats, time float64) score.Result {
	r := e.f.rate(seats)
	if r.Pairs {
		r.Time = time
	}
	return r
}

func (e *enumeration) count(c int) int {
	if c >= len(e.f.order) {
		return 0
	}
	return e.f.count[e.f.order[c]]
}

// descend seats the rest of a class on the nodes from one on, and then the classes
// after it.
func (e *enumeration) descend(c, at, rest int) {
	if e.steps--; e.steps < 0 {
		e.cut = true
		return
	}
	if rest == 0 {
		if e.hopeless() {
			return
		}
		if c+1 >= len(e.f.order) {
			e.arrive()
			return
		}
		e.descend(c+1, 0, e.count(c+1))
		return
	}
	if at == len(e.nodes) || e.slow() {
		return
	}
	slot := c*len(e.nodes) + at
	for k := min(rest, e.limit[slot]); k >= 0; k-- {
		if k > 0 && !e.enter(c, at, k) {
			continue
		}
		e.descend(c, at+1, rest-k)
		if k > 0 {
			e.leave(c, at, k)
		}
	}
}

// slow reports whether the time alone rules out what has been seated.
func (e *enumeration) slow() bool {
	return e.found && !slices.ContainsFunc(e.missed, func(n int) bool { return n > 0 }) && e.time() > e.bar()
}

// bar is the time up to which a way is worth looking at.
func (e *enumeration) bar() float64 {
	if e.final {
		return e.least / (1 - scoreStep)
	}
	return e.least
}

// hopeless reports whether nothing that is added can make this the best.
func (e *enumeration) hopeless() bool {
	t := e.time()
	if math.IsInf(t, 1) {
		return true
	}
	if !e.found {
		return false
	}
	d := slices.Compare(e.f.missed(e.list()), e.missed)
	return d > 0 || d == 0 && t > e.bar()
}

// arrive takes note of a complete way.
func (e *enumeration) arrive() {
	seats := e.list()
	missed, t := e.f.missed(seats), e.time()
	if !e.final {
		d := slices.Compare(missed, e.missed)
		if !e.found || d < 0 || d == 0 && t < e.least {
			e.found, e.missed, e.least, e.seated = true, missed, t, seats
		}
		return
	}
	if e.finalists--; e.finalists < 0 {
		return
	}
	c := e.f.assess(seats, e.lists, e.rate(seats, t))
	if e.best == nil || better(c, e.best, e.least) < 0 {
		e.best = c
	}
}

func (e *enumeration) list() []score.Seats {
	seats := make([]score.Seats, 0, tinyPods)
	for slot, n := range e.seats {
		if n > 0 {
			seats = append(seats, score.Seats{Kind: e.f.order[slot/len(e.nodes)], Node: e.nodes[slot%len(e.nodes)], Count: n})
		}
	}
	return seats
}

// enter seats k pods of a class on a node, if they have room there and it keeps to
// what the scopes require.
func (e *enumeration) enter(c, at, k int) bool {
	class, node := e.f.order[c], e.nodes[at]
	if e.left != nil && fits(e.left[at], e.f.p.Classes[class].Requests, k) < k {
		return false
	}
	for i := range e.f.scopes {
		s := &e.f.scopes[i]
		if s.Required == nil || !slices.Contains(s.classes, class) {
			continue
		}
		d := s.requiredOf(node)
		if d == topology.None || e.held[i] > 0 && e.domain[i] != d {
			return false
		}
	}
	slot := c*len(e.nodes) + at
	e.seats[slot] += k
	if e.forbidden(at) {
		e.seats[slot] -= k
		return false
	}
	e.account(c, at, k, 1)
	return true
}

// leave takes k pods off again.
func (e *enumeration) leave(c, at, k int) {
	e.seats[c*len(e.nodes)+at] -= k
	e.account(c, at, k, -1)
}

// account adds what k pods of a class on a node take and cost, or takes it away.
func (e *enumeration) account(c, at, k, sign int) {
	class, node := e.f.order[c], e.nodes[at]
	if e.left != nil {
		for r, amount := range e.f.p.Classes[class].Requests {
			if r < len(e.left[at]) {
				e.left[at][r] -= amount * int64(k*sign)
			}
		}
	}
	for i := range e.f.scopes {
		s := &e.f.scopes[i]
		if s.Required != nil && slices.Contains(s.classes, class) {
			e.held[i] += k * sign
			if sign > 0 {
				e.domain[i] = s.requiredOf(node)
			}
		}
	}
	e.sum = e.total()
}

// total is the cost of all that is seated. It is summed up anew, so that nothing is
// left of what has been infinite.
func (e *enumeration) total() float64 {
	if e.mass == 0 {
		return 0
	}
	var sum float64
	for a, n := range e.seats {
		if n == 0 {
			continue
		}
		row := e.cost[a*len(e.seats):]
		sum += float64(n)*e.lone[a] + float64(n*(n-1))/2*row[a]
		for b, m := range e.seats[:a] {
			if m > 0 {
				sum += float64(n*m) * row[b]
			}
		}
	}
	return sum
}

// forbidden reports whether what a node holds has been refused.
func (e *enumeration) forbidden(at int) bool {
	for _, contents := range e.refused[at] {
		within := true
		for c, n := range contents {
			within = within && e.seats[c*len(e.nodes)+at] >= n
		}
		if within {
			return true
		}
	}
	return false
}

// forbid rules out that a node holds as many pods of each class as were refused, or
// more.
func (e *enumeration) forbid(refusals []refusal) {
	for _, r := range refusals {
		contents := make([]int, len(e.f.order))
		for c, class := range e.f.order {
			contents[c] = r.contents[class]
		}
		at := slices.Index(e.nodes, r.node)
		e.refused[at] = append(e.refused[at], contents)
	}
}

// learn notes how well pods that have been placed reach their NICs, and reports
// whether that is news.
func (e *enumeration) learn(class, node int, align float64) bool {
	slot := slices.Index(e.f.order, class)*len(e.nodes) + slices.Index(e.nodes, node)
	if e.align[slot] == align {
		return false
	}
	e.align[slot] = align
	return true
}
