// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// Search places all pods of the problem and leaves them placed in the cluster. If
// there is no way, or none within the budget, it returns what is missing, and
// nothing is left placed.
//
// First the sums of what the nodes can take are compared with what the gang needs,
// for the cluster and for the domains of each scope: where nothing can hold it,
// that is the answer, and no pod has been tried. Then domains are chosen scope by
// scope, the pods are seated in them by figures, and the candidates that this gives
// are tried in the cluster in this order:
//
//   - those that miss the fewest preferred levels, counted from the scopes that
//     contain most: the gang, then group configs, then groups;
//   - those with the better score, in steps of 0.01;
//   - those with the most pods on nodes of Reuse;
//   - those that leave room for companions close by, and those close to Near;
//   - those that leave the least in the tightest domain that holds the gang;
//   - those that open the fewest NVLink domains, and use the fewest nodes of one for
//     pods that do not need it;
//   - those whose nodes come first in the order of the classes, then by index.
//
// Of a tiny problem all candidates are looked at. If the cluster takes none, pods
// are placed one by one, and choices reconsidered within the budget.
//
// As long as there is room, every pod gets the devices that it prefers. Where that
// fails, and devices can be rearranged, all this is done once more with that.
func Search(p *Problem, cluster Cluster) (*Solution, *Shortage) {
	s := newSearch(p, cluster)
	solution, shortage := s.run()
	if shortage == nil || !p.Rearranges || s.tried == 0 {
		return solution, shortage
	}
	// What was refused so far may not be with other devices.
	s.f.forget()
	again := s.on(cluster)
	again.rearrange = true
	return again.run()
}

func (s *search) run() (*Solution, *Shortage) {
	if shortage := s.f.screen(); shortage != nil {
		return nil, shortage
	}
	if len(s.problem.Scopes) == 0 && s.problem.Model == nil {
		if s.descend(0, false) {
			return s.solution(), nil
		}
	} else if placed, shortage := s.choose(); placed {
		return s.solution(), nil
	} else if shortage != nil {
		shortage.Tried = s.tried
		return nil, shortage
	}
	return s.insist()
}

// choose places the best candidate. A shortage is proof that there is none.
func (s *search) choose() (placed bool, shortage *Shortage) {
	if s.enumerable {
		placed, known := s.enumerate()
		if placed {
			return true, nil
		}
		if known {
			return false, s.wanting()
		}
	}
	placed, short, proof := s.explore()
	switch {
	case placed:
		return true, nil
	case proof:
		return false, short
	case short != nil && s.deepestLevel < 0:
		s.deepest, s.deepestLevel = *short, 0
	}
	return false, nil
}

// wanting returns what is missing of a problem that has no solution.
func (s *search) wanting() *Shortage {
	r := newRegions(s.f, func(nodeLists) bool { return false })
	r.walk(0, s.f.nodes, s.f.leavesFor())
	switch {
	case s.deepestLevel >= 0:
		return &s.deepest
	case r.short != nil:
		return &r.short.shortage
	}
	shortage := s.f.blame(s.f.order[0], 0, -1)
	return &shortage
}

// insist reconsiders choices one by one: first by figures, where these are known.
// Where the cluster has refused what they promise, each class is tried alone: one
// that does not fit alone is the answer, at the price of one more descent. Only when
// all fit alone are choices reconsidered in the cluster.
func (s *search) insist() (*Solution, *Shortage) {
	if s.f.free != nil && !s.problem.Interacts {
		figured := s.on(newFigures(s.f))
		figured.limit = s.problem.Budget
		if !figured.descend(0, true) {
			shortage := figured.deepest
			shortage.Infeasible, shortage.Exhausted, shortage.Tried = figured.infeasible, figured.cut, s.tried
			return nil, &shortage
		}
		if s.attempt(figured.seats()) {
			return s.solution(), nil
		}
		s.takeOff()
	}
	if shortage := s.alone(); shortage != nil {
		return nil, shortage
	}
	s.limit = s.tried + s.problem.Budget
	first, level := s.deepest, s.deepestLevel
	if s.descend(0, true) {
		return s.solution(), nil
	}
	if level < 0 {
		first = s.deepest
	}
	first.Infeasible = s.infeasible
	first.Exhausted = s.cut
	first.Tried = s.tried
	return nil, &first
}

// seats returns where the pods are, by class.
func (s *search) seats() []score.Seats {
	var seats []score.Seats
	at := make(map[[2]int]int)
	for _, class := range s.f.order {
		for _, pod := range s.pods[class] {
			key := [2]int{class, s.at[pod]}
			i, known := at[key]
			if !known {
				i = len(seats)
				at[key] = i
				seats = append(seats, score.Seats{Kind: class, Node: s.at[pod]})
			}
			seats[i].Count++
		}
	}
	return seats
}

// search is one run of Search.
type search struct {
	f       *field
	problem *Problem
	cluster Cluster
	guard   *guard
	// enumerable is set for a tiny problem.
	enumerable bool
	// pods lists the pods of each class, and left counts those not placed yet,
	// which are the last ones.
	pods [][]int
	left []int
	// at is the node of each pod that is placed, and undo takes them off again.
	at   []int
	undo []placedPod
	// current is the candidate that is placed.
	current  *candidate
	refusals []refusal
	// chosen holds the choice made at each level of the descent.
	chosen []choice
	// rearrange is set once devices chosen before are reconsidered.
	rearrange bool
	// tried counts placements. Backtracking stops at limit, and cut tells that it
	// did.
	tried, limit int
	cut          bool
	// infeasible is set when a placement was turned down for its time.
	infeasible bool
	// deepest is the failure that came after the most placements.
	deepest      Shortage
	deepestLevel int
}

// choice is a class and the index of its candidate.
type choice struct {
	class, at int
}

type placedPod struct {
	pod  int
	undo func()
}

func newSearch(p *Problem, cluster Cluster) *search {
	s := (&search{f: newField(p, cluster), problem: p}).on(cluster)
	s.enumerable = s.f.tiny()
	return s
}

// on starts a search of the same problem on another cluster.
func (s *search) on(cluster Cluster) *search {
	p := s.problem
	n := &search{
		f: s.f, problem: p, cluster: cluster, guard: newGuard(s.f),
		pods: make([][]int, len(p.Classes)), left: make([]int, len(p.Classes)),
		at: make([]int, len(p.Pods)), chosen: make([]choice, len(p.Pods)),
		deepest: Shortage{Scope: -1, Domain: topology.None}, deepestLevel: -1,
	}
	for class, count := range s.f.count {
		n.pods[class] = make([]int, 0, count)
	}
	for pod, class := range p.Pods {
		n.pods[class] = append(n.pods[class], pod)
		n.left[class]++
	}
	return n
}

// solution returns what is placed.
func (s *search) solution() *Solution {
	return &Solution{Nodes: s.at, Time: s.rate()}
}

// alone tries each class without the others and returns the first that does not
// fit. Where pods interact that proves nothing, because another order may do.
func (s *search) alone() *Shortage {
	if s.problem.Interacts {
		return nil
	}
	for _, class := range s.f.order {
		if shortage := s.aloneClass(class); shortage != nil {
			return shortage
		}
	}
	return nil
}

// aloneClass fills the candidates of one class in order, which places as many of
// its pods as any choice could, and takes them off again.
func (s *search) aloneClass(class int) *Shortage {
	pods, candidates := s.pods[class], s.f.nodes[class]
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
	return &Shortage{
		Class: class, Placed: len(undo), Wanted: len(pods), Alone: true,
		Scope: -1, Domain: topology.None, Tried: s.tried,
	}
}
