// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// scopeShortage is a scope without a domain that has room for it.
type scopeShortage struct {
	scope    *scope
	shortage Shortage
}

// noteShort keeps the shortage of the narrowest scope that found no domain, and of
// that the one that came nearest.
func (r *regions) noteShort(s *scope, p *partition, best *holding) {
	shortage := Shortage{Class: s.classes[0], Wanted: r.f.count[s.classes[0]], Scope: -1, Domain: topology.None}
	if s.Required != nil {
		shortage.Scope = s.index
	}
	if best != nil {
		shortage.Class, shortage.Placed, shortage.Wanted = best.class, best.placed, r.f.count[best.class]
		shortage.Domain = p.domain[best.part]
	}
	was := r.short
	if was == nil || s.index > was.scope.index ||
		s.index == was.scope.index && shortage.Wanted-shortage.Placed < was.shortage.Wanted-was.shortage.Placed {
		r.short = &scopeShortage{scope: s, shortage: shortage}
	}
}

// screen returns the shortage of a problem that cannot be solved by the sums of
// what the nodes have: of a class alone, of all together, or of one scope.
func (f *field) screen() *Shortage {
	for _, class := range f.order {
		seats := 0
		for _, n := range f.nodes[class] {
			seats += int(f.limit[class][n])
		}
		if seats < f.count[class] {
			return &Shortage{
				Class: class, Placed: seats, Wanted: f.count[class],
				Alone: true, Scope: -1, Domain: topology.None,
			}
		}
	}
	if len(f.order) == 0 {
		return nil
	}
	r := newRegions(f, nil)
	all := scope{Scope: &Scope{}, index: -1, classes: f.order, ways: make([]*partition, 1)}
	if len(r.parts(&all, 0, f.nodes)) == 0 {
		return &r.short.shortage
	}
	for i := range f.scopes {
		if s := &f.scopes[i]; s.Required != nil && len(r.parts(s, len(s.Preferred), f.nodes)) == 0 {
			return &r.short.shortage
		}
	}
	if class, found := f.torn(); found {
		shortage := f.blame(class, 0, -1)
		return &shortage
	}
	return nil
}

// torn returns a class that talks by RDMA if no domain of the fabric's broadest level
// has enough room for all that do, where RDMA does not work between two of them. A node
// without a label may be near any domain.
func (f *field) torn() (class int, found bool) {
	m := f.p.Model
	if m == nil || !m.StrictTop || !m.Labelled {
		return 0, false
	}
	if f.meshed() {
		return 0, false
	}
	domains := make(map[int32]bool)
	talks := func(g float64, rdma bool, nvlink int32) bool { return g > 0 && rdma && nvlink == topology.None }
	for _, pin := range f.pins {
		if d := f.top(pin.Member.Node); d != topology.None && talks(pin.Member.G, pin.Member.RDMA, pin.Member.Domain) {
			domains[d] = true
		}
	}
	pinned := len(domains) > 0
	var classes []int
	for _, class := range f.order {
		c := &f.p.Classes[class]
		if c.G > 0 && c.Domain != topology.None {
			return 0, false // NVLink may do instead
		}
		if !talks(c.G, c.RDMA, c.Domain) {
			continue
		}
		classes = append(classes, class)
		for _, n := range f.nodes[class] {
			if d := f.top(n); d != topology.None && !pinned {
				domains[d] = true
			}
		}
	}
	if len(classes) == 0 || len(domains) == 0 {
		return 0, false
	}
	for d := range domains {
		short := slices.IndexFunc(classes, func(class int) bool {
			room := 0
			for _, n := range f.nodes[class] {
				if at := f.top(n); at == d || at == topology.None {
					room += int(f.limit[class][n])
				}
			}
			return room < f.count[class]
		})
		if short < 0 {
			return 0, false
		}
	}
	return classes[0], true
}

// meshed reports whether a narrower domain of the fabric reaches over two of the
// broadest level: RDMA works within it.
func (f *field) meshed() bool {
	tops := make(map[[2]int32]int32)
	for n := range f.p.Facts {
		top := f.top(n)
		if top == topology.None {
			continue
		}
		fabric := f.p.Facts[n].Fabric
		for level, d := range fabric[:len(fabric)-1] {
			key := [2]int32{int32(level), d} //nolint:gosec // there are few levels
			if other, known := tops[key]; d != topology.None && known && other != top {
				return true
			}
			tops[key] = top
		}
	}
	return false
}

// top is the domain of a node at the broadest level of the fabric.
func (f *field) top(node int) int32 {
	fabric := f.p.Facts[node].Fabric
	if len(fabric) == 0 {
		return topology.None
	}
	return fabric[len(fabric)-1]
}

// blame makes the shortage of a class that found no place for some of its pods,
// given the node of one that did, -1 for none. Where the class is confined, the
// widest scope that confines it is named.
func (f *field) blame(class, placed, node int) Shortage {
	shortage := Shortage{Class: class, Placed: placed, Wanted: f.count[class], Scope: -1, Domain: topology.None}
	for i := range f.scopes {
		s := &f.scopes[i]
		if s.Required == nil || !slices.Contains(s.classes, class) {
			continue
		}
		shortage.Scope = s.index
		if node >= 0 {
			shortage.Domain = s.requiredOf(node)
		}
		break
	}
	return shortage
}
