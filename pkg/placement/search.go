// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// Search places all pods of the problem and returns the node of each, by the
// index of the pod, leaving them placed in the cluster. If there is no way, or
// none within the budget, nothing is left placed.
//
// Pods of one class follow each other, heaviest class first, and fill the nodes
// in the order of the class. Most gangs are placed by the first descent, in which
// every pod gets the devices that it prefers. If that fails, and devices can be
// rearranged, they are from then on, beginning with one more descent. Then each
// class is tried alone: one that does not fit alone is the answer, at the price of
// one more descent. Only when all fit alone are the choices of nodes reconsidered
// one by one.
func Search(p *Problem, cluster Cluster) ([]int, *Shortage) {
	s := newSearch(p, cluster)
	if s.descend(0, false) {
		return s.nodes(), nil
	}
	if p.Rearranges {
		s.rearrange, s.deepestLevel = true, -1
		if s.descend(0, false) {
			return s.nodes(), nil
		}
	}
	first := s.deepest
	if shortage := s.alone(); shortage != nil {
		return nil, shortage
	}
	s.limit = s.tried + p.Budget
	if s.descend(0, true) {
		return s.nodes(), nil
	}
	first.Exhausted = s.cut
	first.Tried = s.tried
	return nil, &first
}

// Fill places further pods as far as they fit, each in the order of its class,
// and returns their nodes, -1 for a pod that found none. Pods are indices into
// Problem.Pods.
func Fill(p *Problem, cluster Cluster, pods []int) []int {
	nodes := make([]int, len(pods))
	next := make([]int, len(p.Classes))
	for n, pod := range pods {
		nodes[n] = -1
		class := p.Pods[pod]
		start := next[class]
		if p.Interacts {
			start = 0
		}
		candidates := p.Classes[class].Nodes
		for at := start; at < len(candidates); at++ {
			next[class] = at
			if _, fits := cluster.Place(pod, candidates[at], false); fits {
				nodes[n] = candidates[at]
				break
			}
			next[class] = at + 1
		}
	}
	return nodes
}

// search is one run of Search.
type search struct {
	problem *Problem
	cluster Cluster
	// classes are the indices of the classes that have pods, heaviest first.
	classes []int
	// pods lists the pods of each class, and left counts those not placed yet,
	// which are the last ones.
	pods [][]int
	left []int
	// chosen holds the choice made at each level of the descent.
	chosen []choice
	// rearrange is set once devices chosen before are reconsidered.
	rearrange bool
	// tried counts placements. Backtracking stops at limit, and cut tells that it
	// did.
	tried, limit int
	cut          bool
	// deepest is the failure that came after the most placements.
	deepest      Shortage
	deepestLevel int
}

// choice is a pod and the index of its candidate.
type choice struct {
	class, pod, at int
}

func newSearch(p *Problem, cluster Cluster) *search {
	s := &search{
		problem: p, cluster: cluster,
		pods: make([][]int, len(p.Classes)), left: make([]int, len(p.Classes)),
		chosen: make([]choice, len(p.Pods)), deepestLevel: -1,
	}
	for pod, class := range p.Pods {
		s.pods[class] = append(s.pods[class], pod)
		s.left[class]++
	}
	for class := range p.Classes {
		if s.left[class] > 0 {
			s.classes = append(s.classes, class)
		}
	}
	slices.SortStableFunc(s.classes, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(p.Classes[b].Weight, p.Classes[a].Weight),
			cmp.Compare(len(p.Classes[a].Nodes), len(p.Classes[b].Nodes)))
	})
	return s
}

// descend places the pods from a level on. With backtrack it comes back to
// earlier choices, without it the first dead end is the end.
func (s *search) descend(level int, backtrack bool) bool {
	if level == len(s.chosen) {
		return true
	}
	for _, class := range s.next() {
		pod := s.pods[class][len(s.pods[class])-s.left[class]]
		candidates := s.problem.Classes[class].Nodes
		for at := s.start(level, class); at < len(candidates); at++ {
			if backtrack && s.tried >= s.limit {
				s.cut = true
				return false
			}
			s.tried++
			undo, fits := s.cluster.Place(pod, candidates[at], s.rearrange)
			if !fits {
				continue
			}
			s.chosen[level] = choice{class: class, pod: pod, at: at}
			s.left[class]--
			if s.descend(level+1, backtrack) {
				return true
			}
			s.left[class]++
			undo()
			if !backtrack || s.cut {
				return false
			}
		}
	}
	s.failed(level)
	return false
}

// next returns the classes of which a pod may be placed next. Where pods do not
// interact the order of the classes does not matter, and one order will do.
func (s *search) next() []int {
	var next []int
	for _, class := range s.classes {
		if s.left[class] == 0 {
			continue
		}
		next = append(next, class)
		if !s.problem.Interacts {
			break
		}
	}
	return next
}

// start returns the first candidate to try at a level. Pods of a class are
// interchangeable, so only orders in which they go along the candidates without
// turning back are tried.
func (s *search) start(level, class int) int {
	if level == 0 || s.problem.Interacts || s.chosen[level-1].class != class {
		return 0
	}
	return s.chosen[level-1].at
}

// failed notes a dead end. The class to name is the first that has pods left.
func (s *search) failed(level int) {
	if level <= s.deepestLevel {
		return
	}
	s.deepestLevel = level
	class := s.next()[0]
	s.deepest = Shortage{Class: class, Placed: len(s.pods[class]) - s.left[class], Wanted: len(s.pods[class])}
}

// alone tries each class without the others and returns the first that does not
// fit. Where pods interact that proves nothing, because another order may do.
func (s *search) alone() *Shortage {
	if s.problem.Interacts {
		return nil
	}
	for _, class := range s.classes {
		if shortage := s.aloneClass(class); shortage != nil {
			return shortage
		}
	}
	return nil
}

// aloneClass fills the candidates of one class in order, which places as many of
// its pods as any choice could, and takes them off again.
func (s *search) aloneClass(class int) *Shortage {
	pods, candidates := s.pods[class], s.problem.Classes[class].Nodes
	var undo []func()
	defer func() {
		for _, take := range slices.Backward(undo) {
			take()
		}
	}()
	for at := 0; at < len(candidates) && len(undo) < len(pods); {
		s.tried++
		take, fits := s.cluster.Place(pods[len(undo)], candidates[at], s.rearrange)
		if !fits {
			at++
			continue
		}
		undo = append(undo, take)
	}
	if len(undo) == len(pods) {
		return nil
	}
	return &Shortage{Class: class, Placed: len(undo), Wanted: len(pods), Alone: true, Tried: s.tried}
}

// nodes returns the chosen node of each pod.
func (s *search) nodes() []int {
	nodes := make([]int, len(s.chosen))
	for _, c := range s.chosen {
		nodes[c.pod] = s.problem.Classes[c.class].Nodes[c.at]
	}
	return nodes
}
