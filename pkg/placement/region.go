// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// nodeLists are the nodes that each class may use, by class.
type nodeLists [][]int

// regions walks the choices of a domain for every scope, the wider scopes first
// and for each the preferred levels in order. What cannot hold the pods by the
// sums of what its nodes have is passed over.
type regions struct {
	f *field
	// scopes are those of the field, after one that stands for the whole gang if
	// several parts of it are to be kept close to each other (see gathering).
	scopes []*scope
	// leaf is called with the nodes that a choice for every scope leaves to each
	// class, and reports whether the pods can be placed on them.
	leaf func(nodeLists) bool
	// leaves and work are left to be spent, on calls of leaf and on nodes looked at.
	// cut is set when they were not enough for everything.
	leaves, work int
	cut          bool
	// short is the most instructive of the scopes that found no domain.
	short *scopeShortage
}

// The walk is bounded by a number of leaves, and by a number of nodes looked at for
// each node, way of a scope and class in it that there is.
const (
	leavesInAll   = 64
	workAtLeast   = 1 << 21
	workPerChoice = 8
)

func newRegions(f *field, leaf func(nodeLists) bool) *regions {
	r := &regions{f: f, leaf: leaf, leaves: leavesInAll}
	if s := f.gathering(); s != nil {
		r.scopes = append(r.scopes, s)
	}
	for i := range f.scopes {
		if !f.scopes[i].free() {
			r.scopes = append(r.scopes, &f.scopes[i])
		}
	}
	// Of scopes that do not contain each other, the one with most pods has least
	// choice.
	slices.SortStableFunc(r.scopes, func(a, b *scope) int {
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(f.pods(b.classes), f.pods(a.classes)))
	})
	choices := 0
	for _, s := range r.scopes {
		choices += len(s.ways) * len(s.classes)
	}
	r.work = max(workAtLeast, workPerChoice*choices*f.size)
	return r
}

// gathering is a scope of all pods that would be in one domain of each level of
// Split. It is of use where parts of the gang choose domains of their own: nothing
// else makes them choose close to each other. Nil where it is not.
func (f *field) gathering() *scope {
	parts := 0
	for i := range f.scopes {
		if s := &f.scopes[i]; !s.free() && len(s.classes) < len(f.order) {
			parts++
		}
	}
	if parts < 2 || len(f.p.Split) == 0 {
		return nil
	}
	s := &scope{Scope: &Scope{}, index: -1, depth: -1, soft: true, classes: f.order}
	for _, level := range slices.Backward(f.p.Split) {
		s.Preferred = append(s.Preferred, level)
	}
	for _, pin := range f.pins {
		s.pins = append(s.pins, pin.Member.Node)
	}
	s.ways = make([]*partition, len(s.Preferred)+1)
	return s
}

// leavesFor is the number of leaves that are worth looking at for a problem of a
// size: fewer where each costs more.
func (f *field) leavesFor() int {
	pods := f.pods(f.order)
	return min(16, max(4, 16000/(f.size+pods+1)))
}

// walk reports whether any leaf succeeded, having tried as many as its share.
func (r *regions) walk(at int, lists nodeLists, share int) bool {
	if at == len(r.scopes) {
		r.leaves--
		return r.leaf(lists)
	}
	s := r.scopes[at]
	if s.soft {
		// All ways are looked at: what is close need not be what is preferred.
		share = max(2, share/len(s.ways))
	}
	found := false
	for number := range s.ways {
		reserve := 0
		if s.soft && number < len(s.Preferred) {
			reserve = r.work / 2
		}
		r.work -= reserve
		if r.way(at, number, lists, share) {
			found = true
		}
		r.work += reserve
		if found && !s.soft {
			break
		}
	}
	return found
}

// way looks at the parts of one partition for a scope.
func (r *regions) way(at, number int, lists nodeLists, share int) bool {
	s := r.scopes[at]
	parts := r.parts(s, number, lists)
	found := false
	for i, part := range parts {
		if share <= 0 || r.leaves <= 0 || r.work <= 0 {
			r.cut = true
			break
		}
		before := r.leaves
		if r.walk(at+1, s.narrow(number, part, lists), max(1, share/(len(parts)-i))) {
			found = true
		}
		share -= before - r.leaves
	}
	return found
}

// narrow leaves only the nodes of a part to the classes of the scope.
func (s *scope) narrow(number int, part int32, lists nodeLists) nodeLists {
	of := s.ways[number].of
	narrowed := slices.Clone(lists)
	for _, class := range s.classes {
		count := 0
		for _, n := range lists[class] {
			if of[n] == part {
				count++
			}
		}
		nodes := make([]int, 0, count)
		for _, n := range lists[class] {
			if of[n] == part {
				nodes = append(nodes, n)
			}
		}
		narrowed[class] = nodes
	}
	return narrowed
}

// holding is what a part of a partition has, at most, for the pods of a scope.
type holding struct {
	part int32
	// seats is the number of pods of each class that its nodes can take.
	seats []int64
	// inside tells whether a class has nodes in it: some, if it is of the scope, and
	// all that it has otherwise.
	inside []bool
	// free is the sum of what is left on its nodes, joint that of scope.joint.
	free  []int64
	joint []int64
	// shared levels are those of Split in which the part is in a domain with other
	// pods of the gang.
	shared int
	// class cannot be placed whole: placed of its pods can. missing is the number of
	// pods of all classes that have no place.
	class, placed int
	missing       int64
	leftover      int64
}

// parts returns the parts in which the scope has room, those to be tried first in
// front.
func (r *regions) parts(s *scope, number int, lists nodeLists) []int32 {
	p := s.way(number, r.f.size)
	holdings := r.holdings(s, p, lists, r.f.guess)
	var good []*holding
	var best *holding
	for i := range holdings {
		h := &holdings[i]
		r.f.judge(s, h)
		if h.missing == 0 {
			good = append(good, h)
		} else if best == nil || h.missing < best.missing {
			best = h
		}
	}
	if len(good) == 0 && number == len(s.Preferred) {
		r.noteShort(s, p, best)
	}
	r.draw(s, p, good, lists)
	slices.SortStableFunc(good, func(a, b *holding) int {
		return cmp.Or(
			cmp.Compare(b.shared, a.shared),
			cmp.Compare(a.leftover, b.leftover),
			cmp.Compare(p.names[a.part], p.names[b.part]))
	})
	parts := make([]int32, len(good))
	for i, h := range good {
		parts[i] = h.part
	}
	return parts
}

// holdings sums up the nodes of each part.
func (r *regions) holdings(s *scope, p *partition, lists nodeLists, limit [][]int32) []holding {
	classes := len(r.f.count)
	resources := 0
	if len(r.f.free) > 0 {
		resources = len(r.f.free[0])
	}
	holdings := make([]holding, len(p.domain))
	seats, inside := make([]int64, classes*len(holdings)), make([]bool, classes*len(holdings))
	free := make([]int64, resources*len(holdings))
	joint := s.together(r.f)
	sums := make([]int64, len(joint)*len(holdings))
	for i := range holdings {
		holdings[i] = holding{
			part: int32(i), seats: seats[i*classes : (i+1)*classes], inside: inside[i*classes : (i+1)*classes],
			free: free[i*resources : (i+1)*resources], joint: sums[i*len(joint) : (i+1)*len(joint)],
		}
	}
	counted := make([]bool, r.f.size)
	for _, class := range r.f.order {
		ours := slices.Contains(s.classes, class)
		if !ours && !p.inOne(lists[class]) {
			continue
		}
		r.work -= len(lists[class])
		for _, n := range lists[class] {
			if p.of[n] == topology.None {
				continue
			}
			h := &holdings[p.of[n]]
			h.inside[class] = true
			if ours {
				h.seats[class] += int64(limit[class][n])
			}
			if counted[n] {
				continue
			}
			counted[n] = true
			for res := range h.free {
				h.free[res] += max(r.f.free[n][res], 0)
			}
			for j := range joint {
				h.joint[j] += int64(joint[j][n])
			}
		}
	}
	return holdings
}

// inOne reports whether all the nodes are in one part.
func (p *partition) inOne(nodes []int) bool {
	for _, n := range nodes {
		if p.of[n] == topology.None || p.of[n] != p.of[nodes[0]] {
			return false
		}
	}
	return len(nodes) > 0
}

// judge works out how many pods of the scope have no place in a part, at least. The
// pods of other scopes count too if they have no nodes elsewhere.
func (f *field) judge(s *scope, h *holding) {
	h.class = -1
	need := make([]int64, len(h.free))
	short := func(class int, missing int64) {
		h.missing += missing
		if h.class < 0 {
			h.class, h.placed = class, f.count[class]-int(missing)
		}
	}
	for _, class := range f.order {
		ours := slices.Contains(s.classes, class)
		if !ours && !h.inside[class] {
			continue
		}
		pods := int64(f.count[class])
		if ours && h.seats[class] < pods {
			short(class, pods-h.seats[class])
		}
		var most int64
		for res, amount := range f.p.Classes[class].Requests {
			if res >= len(need) || amount <= 0 {
				continue
			}
			need[res] += amount * pods
			if over := need[res] - h.free[res]; over > 0 {
				most = max(most, min(pods, (over+amount-1)/amount))
			}
		}
		if most > 0 && (!ours || h.seats[class] >= pods) {
			short(class, most)
		}
	}
	if pods := int64(f.count[s.classes[0]]); h.missing == 0 {
		for j, seats := range h.joint {
			if pods += int64(f.count[s.classes[j+1]]); pods > seats {
				short(s.classes[j+1], min(pods-seats, int64(f.count[s.classes[j+1]])))
				break
			}
		}
	}
	h.leftover = h.seats[s.classes[0]] - int64(f.count[s.classes[0]])
}

// draw counts the levels in which each part is close to other pods of the gang:
// bound ones, and those whose domain has been chosen before.
func (r *regions) draw(s *scope, p *partition, parts []*holding, lists nodeLists) {
	if len(parts) < 2 || len(r.f.p.Split) == 0 {
		return
	}
	others := r.others(s, lists)
	if len(others) == 0 {
		return
	}
	byPart := make([]*holding, len(p.domain))
	for _, h := range parts {
		byPart[h.part] = h
	}
	for _, level := range r.f.p.Split {
		there := countDomains(level, others)
		done := make([]bool, len(byPart))
		for _, n := range lists[s.classes[0]] {
			part := p.of[n]
			if part == topology.None || byPart[part] == nil || done[part] {
				continue
			}
			if d := domainOf(level, n); d != topology.None && there[d] > 0 {
				byPart[part].shared++
				done[part] = true
			}
		}
	}
}

// others returns the nodes where other pods of the gang are, or will be.
func (r *regions) others(s *scope, lists nodeLists) []int {
	var nodes []int
	for _, pin := range r.f.pins {
		nodes = append(nodes, pin.Member.Node)
	}
	for _, class := range r.f.order {
		if !slices.Contains(s.classes, class) && len(lists[class]) < len(r.f.nodes[class]) {
			nodes = append(nodes, lists[class]...)
		}
	}
	if len(nodes) == 0 {
		nodes = r.f.p.Near
	}
	return nodes
}
