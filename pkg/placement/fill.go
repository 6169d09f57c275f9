// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// Fill places further pods as far as they fit, and returns their nodes, -1 for a
// pod that found none. Pods are indices into Problem.Pods. base is the solution for
// the first pods of the problem, nil if there is none: the pods obey what their
// scopes require, in the domains that bound members and those of base have fixed,
// and go where they miss the fewest preferred levels, close to them, and then in the
// order of their classes.
func Fill(p *Problem, cluster Cluster, pods []int, base *Solution) []int {
	if len(pods) == 0 {
		return []int{}
	}
	fill := newFilling(p, cluster, pods, base)
	nodes := make([]int, len(pods))
	for n, pod := range pods {
		nodes[n] = fill.place(pod)
	}
	return nodes
}

// filling is one run of Fill.
type filling struct {
	problem *Problem
	cluster Cluster
	f       *field
	guard   *guard
	// order are the nodes of each class in the order in which they are tried, nil
	// until they are needed; those before next have refused the class.
	order nodeLists
	next  []int
	// near counts the members in each domain of each level.
	near [][]int32
	// done counts the pods placed. failed is what it was when no node took a pod of a
	// class: until another is placed, none will.
	done   int
	failed []int
}

func newFilling(p *Problem, cluster Cluster, pods []int, base *Solution) *filling {
	fill := &filling{problem: p, cluster: cluster, order: make(nodeLists, len(p.Classes)), next: make([]int, len(p.Classes)), failed: make([]int, len(p.Classes))}
	for class := range fill.failed {
		fill.failed[class] = -1
	}
	if len(p.Scopes) == 0 && p.Model == nil {
		for class := range p.Classes {
			fill.order[class] = p.Classes[class].Nodes
		}
		return fill
	}
	more := *p
	more.Pods = make([]int, len(pods))
	for n, pod := range pods {
		more.Pods[n] = p.Pods[pod]
	}
	more.Pins = slices.Clone(p.Pins)
	more.Companions = nil
	if base != nil {
		for pod, node := range base.Nodes {
			class := p.Pods[pod]
			member := fieldOf(p).member(class, node)
			more.Pins = append(more.Pins, Pin{Scopes: p.Classes[class].Scopes, Class: class, Member: member})
		}
	}
	fill.f = newField(&more, cluster)
	fill.guard = newGuard(fill.f)
	members := make([]int, len(more.Pins))
	for i := range more.Pins {
		members[i] = more.Pins[i].Member.Node
	}
	for _, level := range fill.f.levels {
		fill.near = append(fill.near, countDomains(level, members))
	}
	return fill
}

func fieldOf(p *Problem) *field { return &field{p: p} }

// place places one pod and returns its node, -1 if it found none.
func (fill *filling) place(pod int) int {
	class := fill.problem.Pods[pod]
	if fill.failed[class] == fill.done {
		return -1
	}
	if fill.order[class] == nil {
		fill.order[class] = fill.sorted(class)
		fill.next[class] = 0
	}
	start := fill.next[class]
	if fill.problem.Interacts {
		start = 0
	}
	candidates := fill.order[class]
	for at := start; at < len(candidates); at++ {
		node := candidates[at]
		fill.next[class] = at
		if fill.guard == nil || fill.guard.keeps(class, node) {
			if _, fits := fill.cluster.Place(pod, node, false); fits {
				fill.done++
				fill.placed(class, node)
				return node
			}
		}
		fill.next[class] = at + 1
	}
	fill.failed[class] = fill.done
	return -1
}

// placed notes a pod that has been placed. The first of a scope says where the
// others of it go.
func (fill *filling) placed(class, node int) {
	if fill.guard == nil {
		return
	}
	fill.guard.count(class, node, 1)
	for i := range fill.f.scopes {
		s := &fill.f.scopes[i]
		if len(s.pins) > 0 || !slices.Contains(s.classes, class) {
			continue
		}
		s.pins = append(s.pins, node)
		for _, other := range s.classes {
			fill.order[other] = nil
		}
	}
}

// sorted returns the nodes of a class in the order in which they are tried.
func (fill *filling) sorted(class int) []int {
	type rated struct {
		node, missed int
		domain       int
		near         int64
	}
	ratings := make([]rated, 0, len(fill.f.nodes[class]))
	ranks := fill.domainRanks(class)
	for _, n := range fill.f.nodes[class] {
		r := rated{node: n, missed: fill.missed(class, n)}
		for i, rank := range ranks {
			if rank != nil {
				r.domain += rank[fill.f.scopes[i].requiredOf(n)]
			}
		}
		for i, counts := range fill.near {
			if d := domainOf(fill.f.levels[i], n); counts != nil && d != topology.None {
				r.near += int64(counts[d])
			}
		}
		ratings = append(ratings, r)
	}
	slices.SortStableFunc(ratings, func(a, b rated) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.missed, b.missed), cmp.Compare(b.near, a.near))
	})
	nodes := make([]int, len(ratings))
	for i, r := range ratings {
		nodes[i] = r.node
	}
	return nodes
}

// missed counts the preferred levels that a pod on the node would miss.
func (fill *filling) missed(class, node int) int {
	missed := 0
	for i := range fill.f.scopes {
		s := &fill.f.scopes[i]
		if len(s.pins) == 0 || !slices.Contains(s.classes, class) {
			continue
		}
		for _, level := range s.Preferred {
			d, one := oneDomain(level, s.pins)
			if one && d == domainOf(level, node) {
				break
			}
			missed++
		}
	}
	return missed
}

// domainRanks orders, for each scope of a class that is not fixed to a domain yet,
// the domains that it may take: the one that leaves least of those that hold all its
// pods, then those that hold most.
func (fill *filling) domainRanks(class int) []map[int32]int {
	ranks := make([]map[int32]int, len(fill.f.scopes))
	for i := range fill.f.scopes {
		s := &fill.f.scopes[i]
		if s.Required == nil || len(s.pins) > 0 || !slices.Contains(s.classes, class) {
			continue
		}
		p := s.way(len(s.Preferred), fill.f.size)
		r := &regions{f: fill.f}
		holdings := r.holdings(s, p, fill.f.nodes, fill.f.limit)
		for at := range holdings {
			fill.f.judge(s, &holdings[at])
		}
		slices.SortStableFunc(holdings, func(a, b holding) int {
			return cmp.Or(cmp.Compare(a.missing, b.missing), cmp.Compare(a.leftover, b.leftover))
		})
		ranks[i] = map[int32]int{topology.None: len(holdings)}
		for at := range holdings {
			ranks[i][p.domain[holdings[at].part]] = at
		}
	}
	return ranks
}
