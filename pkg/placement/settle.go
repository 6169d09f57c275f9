// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/score"
)

// How often candidates are tried in the cluster in all, how often one of them is
// seated anew after refusals before the rest of its pods are seated around those
// that were taken, and how often a candidate is tried for being better than one that
// has been placed.
const (
	attemptsInAll   = 24
	attemptsOfOne   = 3
	repairs         = 4
	improvements    = 3
	enumerations    = 64
	roundsOfRegions = 4
)

// refusal is a node that did not take a pod: it would have held contents, by class.
type refusal struct {
	node     int
	contents []int
}

// enumerate looks at all ways to place a tiny problem. It reports true when it
// knows the answer: the problem is placed, or there is no way.
func (s *search) enumerate() (placed, known bool) {
	e := newEnumeration(s.f)
	var best *candidate
	learned := false
	for range enumerations {
		c, complete := e.search()
		if c == nil {
			if best == nil && complete && (!learned || !s.problem.Interacts) {
				s.takeOff()
				return false, true
			}
			break
		}
		if best != nil && better(best, c, min(best.time.Time, c.time.Time)) <= 0 {
			break
		}
		s.takeOff()
		if !s.attempt(c.seats) {
			e.forbid(s.refusals)
			learned = true
			continue
		}
		actual := s.actual(c)
		if best == nil || better(actual, best, min(best.time.Time, actual.time.Time)) < 0 {
			best = actual
		}
		if !s.learn(e) {
			break
		}
	}
	return s.restore(best), best != nil
}

// learn tells the enumeration how well the pods that are placed reach their NICs,
// and reports whether that is news.
func (s *search) learn(e *enumeration) bool {
	if s.problem.Model == nil {
		return false
	}
	news := false
	for pod, node := range s.at {
		class := s.problem.Pods[pod]
		if s.problem.Classes[class].G > 0 && e.learn(class, node, s.cluster.Align(pod)) {
			news = true
		}
	}
	if news {
		e.price()
	}
	return news
}

// explore walks the regions and places the best candidate that the cluster takes.
// Without, it returns what was missing; proof is set when that holds for any
// placement.
func (s *search) explore() (placed bool, short *Shortage, proof bool) {
	for round := range roundsOfRegions {
		var candidates []*candidate
		infeasible := false
		leaf := func(lists nodeLists) bool {
			seats, ok := s.f.seat(lists, s.f.count, s.f.fixed, nil)
			if !ok {
				return false
			}
			c := s.f.assess(seats, lists, s.f.rate(seats))
			if c.time.Infeasible || !s.f.keeps(seats) {
				infeasible = true
				return false
			}
			candidates = append(candidates, c)
			return true
		}
		r := newRegions(s.f, leaf)
		leaves := r.leaves
		r.walk(0, s.f.nodes, s.f.leavesFor())
		if s.f.reuse != nil && len(candidates) > 0 {
			newRegions(s.f, leaf).walk(0, s.f.reused(), s.f.leavesFor())
		}
		if len(candidates) == 0 {
			if r.short != nil {
				short = &r.short.shortage
			}
			return false, short, round == 0 && !s.f.taught && !r.cut && !infeasible && leaves == r.leaves && short != nil
		}
		if s.settle(candidates) {
			return true, nil, false
		}
	}
	return false, nil, false
}

func (f *field) keeps(seats []score.Seats) bool {
	for i := range f.scopes {
		if !f.scopes[i].keeps(seats) {
			return false
		}
	}
	return true
}

// settle places the best of the candidates that the cluster takes. One that it
// refuses is seated anew, with what the refusals have taught. One that turns out
// worse than it looked makes way for a better one.
func (s *search) settle(candidates []*candidate) bool {
	var best *candidate
	taken := 0
	for attempt := 0; attempt < attemptsInAll && len(candidates) > 0; attempt++ {
		rankCandidates(candidates)
		c := candidates[0]
		candidates = candidates[1:]
		if best != nil && (taken > improvements || better(best, c, min(best.time.Time, c.time.Time)) <= 0) {
			break
		}
		s.takeOff()
		if !s.attempt(c.seats) && (c.tries < attemptsOfOne || !s.repair(c)) {
			if again := s.again(c); again != nil {
				candidates = append(candidates, again)
			}
			continue
		}
		taken++
		actual := s.actual(c)
		if actual.time.Infeasible {
			continue
		}
		if best == nil || better(actual, best, min(best.time.Time, actual.time.Time)) < 0 {
			best = actual
		}
	}
	return s.restore(best)
}

// restore places the candidate that has been taken before, unless it is placed. It
// leaves nothing placed if there is none.
func (s *search) restore(best *candidate) bool {
	if best != nil && len(s.undo) == len(s.at) && best == s.current {
		return true
	}
	s.takeOff()
	if best == nil {
		return false
	}
	if !s.attempt(best.seats) {
		s.takeOff()
		return false
	}
	return true
}

// again seats a candidate anew from the same nodes; nil if there is no other way.
func (s *search) again(c *candidate) *candidate {
	if c.tries > attemptsOfOne {
		return nil
	}
	seats, ok := s.f.seat(c.lists, s.f.count, s.f.fixed, nil)
	if !ok {
		return nil
	}
	again := s.f.assess(seats, c.lists, s.f.rate(seats))
	if again.time.Infeasible {
		return nil
	}
	again.tries = c.tries + 1
	return again
}

// attempt places pods in their seats, and reports whether all were taken. What is
// refused is noted, and the rest is tried all the same, to learn from it.
func (s *search) attempt(seats []score.Seats) bool {
	s.refusals = s.refusals[:0]
	var refused []score.Seats
	for _, seat := range seats {
		if rest := s.sit(seat); rest > 0 {
			refused = append(refused, score.Seats{Kind: seat.Kind, Node: seat.Node, Count: rest})
		}
	}
	complete := true
	for _, seat := range refused {
		rest := seat.Count
		if s.problem.Interacts {
			// Others that have been placed since may have made it possible.
			rest = s.sit(seat)
		}
		if rest > 0 {
			complete = false
			s.refuse(seat.Kind, seat.Node)
		}
	}
	if !complete {
		s.noteDepth()
		s.infer(seats)
	}
	return complete
}

// sit places pods of a class on a node and returns how many it did not take.
func (s *search) sit(seat score.Seats) int {
	for rest := seat.Count; rest > 0; rest-- {
		pod := s.pods[seat.Kind][len(s.pods[seat.Kind])-s.left[seat.Kind]]
		s.tried++
		undo, fits := s.cluster.Place(pod, seat.Node, s.rearrange)
		if !fits {
			return rest
		}
		s.left[seat.Kind]--
		s.at[pod] = seat.Node
		s.undo = append(s.undo, placedPod{pod: pod, undo: undo})
	}
	return 0
}

// refuse notes that a node did not take another pod of a class.
func (s *search) refuse(class, node int) {
	contents := make([]int, len(s.problem.Classes))
	for _, p := range s.undo {
		if s.at[p.pod] == node {
			contents[s.problem.Pods[p.pod]]++
		}
	}
	s.f.teach(class, node, int32(contents[class]))
	contents[class]++
	s.refusals = append(s.refusals, refusal{node: node, contents: contents})
}

// infer lowers the guess for all nodes of a class if every node that was to take
// more than so many of it has refused, which is what anti-affinity and spreading
// look like.
func (s *search) infer(seats []score.Seats) {
	if !s.problem.Interacts {
		return
	}
	for _, class := range s.f.order {
		most := int32(0)
		for _, r := range s.refusals {
			most = max(most, s.f.guess[class][r.node])
		}
		if most == 0 || slices.ContainsFunc(seats, func(seat score.Seats) bool {
			return seat.Kind == class && min(int32(seat.Count), s.f.guess[class][seat.Node]) > most
		}) {
			continue
		}
		if !slices.ContainsFunc(s.refusals, func(r refusal) bool { return r.contents[class] == int(most)+1 }) {
			continue
		}
		for n := range s.f.guess[class] {
			s.f.teach(class, n, most)
		}
	}
}

// repair seats the pods that were refused around those that were taken.
func (s *search) repair(c *candidate) bool {
	for range repairs {
		rest := slices.Clone(s.left)
		fixed := slices.Clone(s.f.fixed)
		taken := (*usage)(nil).clone()
		for _, p := range s.undo {
			class := s.problem.Pods[p.pod]
			fixed = append(fixed, s.f.member(class, s.at[p.pod]))
			taken.add(s.f, class, s.at[p.pod], 1)
		}
		seats, ok := s.f.seat(c.lists, rest, fixed, taken)
		if !ok {
			return false
		}
		if s.attempt(seats) {
			return true
		}
	}
	return false
}

// takeOff takes all pods off, the last one first.
func (s *search) takeOff() {
	for _, p := range slices.Backward(s.undo) {
		p.undo()
		s.left[s.problem.Pods[p.pod]]++
	}
	s.undo = s.undo[:0]
	s.current = nil
}

// actual is the candidate as it has been placed.
func (s *search) actual(c *candidate) *candidate {
	s.current = s.f.assess(s.seats(), c.lists, s.rate())
	return s.current
}

// rate returns the time of what is placed.
func (s *search) rate() score.Result {
	if s.problem.Model == nil {
		return score.Result{Align: 1}
	}
	members := slices.Clone(s.f.fixed)
	for pod, node := range s.at {
		m := s.f.member(s.problem.Pods[pod], node)
		m.Align = s.cluster.Align(pod)
		members = append(members, m)
	}
	return s.problem.Model.Rate(members, s.f.p.Facts)
}

// noteDepth notes the class to name if this is as far as the search comes.
func (s *search) noteDepth() {
	if len(s.undo) <= s.deepestLevel {
		return
	}
	s.deepestLevel = len(s.undo)
	for _, class := range s.f.order {
		if s.left[class] == 0 {
			continue
		}
		placed, node := len(s.pods[class])-s.left[class], -1
		if placed > 0 {
			node = s.at[s.pods[class][0]]
		}
		s.deepest = s.f.blame(class, placed, node)
		return
	}
}
