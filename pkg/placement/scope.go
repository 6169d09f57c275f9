// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strings"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// scope is a Scope with what its bound members fix.
type scope struct {
	*Scope
	index int
	// soft is set where Preferred are not wishes, only good guesses.
	soft bool
	// classes are those of the scope that have pods, heaviest first.
	classes []int
	// depth is the number of scopes that contain this one.
	depth int
	// pins are the nodes of its bound members.
	pins []int
	// required is the domain of each node that the scope may use: of the Required
	// level, or 0 for all without one. None for the nodes that it may not use. Where
	// bound members lie in several domains, those count as one.
	required []int32
	// ways are the partitions of the nodes by each of the preferred levels and by
	// Required alone, made when first needed.
	ways []*partition
	// joint is, for each number of its first classes from two on, how many pods of
	// all of them each node can take, at most; made when first needed.
	joint [][]int32
}

// partition divides nodes into parts, of which a scope takes one.
type partition struct {
	// of is the part of each node, None for a node in no part.
	of []int32
	// names are the label values of each part, for the order among equals.
	names []string
	// domain is the Required domain of each part, None without a Required level.
	domain []int32
}

// scopesOf prepares the scopes that have pods. Without preferences only what is
// required is seen.
func scopesOf(p *Problem, pins []Pin, order []int, preferences bool) []scope {
	var scopes []scope
	for i := range p.Scopes {
		s := scope{Scope: &p.Scopes[i], index: i}
		if !preferences {
			s.Scope = &Scope{Name: p.Scopes[i].Name, Required: p.Scopes[i].Required}
		}
		for _, class := range order {
			if slices.Contains(p.Classes[class].Scopes, i) {
				s.classes = append(s.classes, class)
			}
		}
		if len(s.classes) == 0 {
			continue
		}
		for _, pin := range pins {
			if slices.Contains(pin.Scopes, i) {
				s.pins = append(s.pins, pin.Member.Node)
			}
		}
		for j := range scopes {
			if containsAll(scopes[j].classes, s.classes) {
				s.depth = max(s.depth, scopes[j].depth+1)
			}
		}
		s.confine()
		s.ways = make([]*partition, len(s.Preferred)+1)
		scopes = append(scopes, s)
	}
	return scopes
}

func containsAll(all, some []int) bool {
	for _, v := range some {
		if !slices.Contains(all, v) {
			return false
		}
	}
	return true
}

// confine works out which nodes the scope may use.
func (s *scope) confine() {
	if s.Required == nil {
		return
	}
	s.required = s.Required.Of
	fixed := make(map[int32]bool)
	first := topology.None
	for _, n := range s.pins {
		if d := domainOf(s.Required, n); d != topology.None {
			if len(fixed) == 0 || d < first {
				first = d
			}
			fixed[d] = true
		}
	}
	if len(fixed) == 0 {
		return
	}
	s.required = make([]int32, len(s.Required.Of))
	for n, d := range s.Required.Of {
		s.required[n] = topology.None
		if fixed[d] {
			s.required[n] = first
		}
	}
}

// requiredOf returns the domain of a node that counts for the scope; None if it
// may not use the node. Only for scopes with a Required level.
func (s *scope) requiredOf(node int) int32 {
	if node >= len(s.required) {
		return topology.None
	}
	return s.required[node]
}

// way returns the partition by the preferred level of that number, or by what is
// required alone after the last.
func (s *scope) way(number, size int) *partition {
	if s.ways[number] == nil {
		s.ways[number] = s.divide(number, size)
	}
	return s.ways[number]
}

func (s *scope) divide(number, size int) *partition {
	part := &partition{of: make([]int32, size)}
	var level *topology.Level
	held := topology.None
	if number < len(s.Preferred) {
		level = s.Preferred[number]
		var one bool
		if held, one = oneDomain(level, s.pins); !one {
			// Bound members have missed this level already.
			for n := range part.of {
				part.of[n] = topology.None
			}
			return part
		}
	}
	known := make(map[[2]int32]int32)
	for n := range part.of {
		key := [2]int32{topology.None, topology.None}
		part.of[n] = topology.None
		if s.Required != nil {
			if key[0] = s.requiredOf(n); key[0] == topology.None {
				continue
			}
		}
		if level != nil {
			if key[1] = domainOf(level, n); key[1] == topology.None || held != topology.None && key[1] != held {
				continue
			}
		}
		at, ok := known[key]
		if !ok {
			at = int32(len(known))
			known[key] = at
			part.names = append(part.names, s.nameOf(key, level))
			part.domain = append(part.domain, key[0])
		}
		part.of[n] = at
	}
	return part
}

func (s *scope) nameOf(key [2]int32, level *topology.Level) string {
	var names []string
	if key[0] != topology.None {
		names = append(names, s.Required.Values[key[0]])
	}
	if key[1] != topology.None {
		names = append(names, level.Values[key[1]])
	}
	return strings.Join(names, "\x00")
}

// together returns joint. A node takes no more pods of several classes than if each
// asked for the least that any of them does of every resource.
func (s *scope) together(f *field) [][]int32 {
	if s.joint != nil || f.free == nil || len(s.classes) < 2 {
		return s.joint
	}
	least := slices.Clone(f.p.Classes[s.classes[0]].Requests)
	sum := slices.Clone(f.limit[s.classes[0]])
	for _, class := range s.classes[1:] {
		requests := f.p.Classes[class].Requests
		least = least[:min(len(least), len(requests))]
		for r := range least {
			least[r] = min(least[r], requests[r])
		}
		joint := make([]int32, f.size)
		for n, limit := range f.limit[class] {
			if sum[n] += limit; sum[n] > 0 {
				joint[n] = int32(fits(f.free[n], least, int(sum[n])))
			}
		}
		s.joint = append(s.joint, joint)
	}
	return s.joint
}

// oneDomain returns the domain that all the nodes are in; None and true without
// nodes.
func oneDomain(level *topology.Level, nodes []int) (int32, bool) {
	domain := topology.None
	for i, n := range nodes {
		d := domainOf(level, n)
		if d == topology.None || i > 0 && d != domain {
			return topology.None, false
		}
		domain = d
	}
	return domain, true
}

// free reports whether the scope neither requires nor prefers anything.
func (s *scope) free() bool {
	return s.Required == nil && len(s.Preferred) == 0
}

// missed returns how many of the preferred levels of each depth of the scopes a
// placement misses, the wider scopes first: the fewer, the better.
func (f *field) missed(seats []score.Seats) []int {
	depth := 0
	for i := range f.scopes {
		depth = max(depth, f.scopes[i].depth+1)
	}
	missed := make([]int, depth)
	for i := range f.scopes {
		s := &f.scopes[i]
		for _, level := range s.Preferred {
			if s.within(level, seats) {
				break
			}
			missed[s.depth]++
		}
	}
	return missed
}

// within reports whether all of the scope is in one domain of the level.
func (s *scope) within(level *topology.Level, seats []score.Seats) bool {
	domain, one := oneDomain(level, s.pins)
	if !one {
		return false
	}
	for _, seat := range seats {
		if seat.Count == 0 || !slices.Contains(s.classes, seat.Kind) {
			continue
		}
		d := domainOf(level, seat.Node)
		if d == topology.None || domain != topology.None && d != domain {
			return false
		}
		domain = d
	}
	return true
}

// keeps reports whether all of the scope's seats are in one domain of what it
// requires.
func (s *scope) keeps(seats []score.Seats) bool {
	if s.Required == nil {
		return true
	}
	domain := topology.None
	for _, seat := range seats {
		if seat.Count == 0 || !slices.Contains(s.classes, seat.Kind) {
			continue
		}
		d := s.requiredOf(seat.Node)
		if d == topology.None || domain != topology.None && d != domain {
			return false
		}
		domain = d
	}
	return true
}
