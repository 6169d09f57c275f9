// SPDX-License-Identifier: Apache-2.0

package placement

// descend places the pods from a level on, one by one. Pods of one class follow
// each other, heaviest class first, and fill the nodes in the order of the class.
// With backtrack it comes back to earlier choices, without it the first dead end is
// the end.
func (s *search) descend(level int, backtrack bool) bool {
	if level == len(s.chosen) {
		return s.accept()
	}
	for _, class := range s.next() {
		pod := s.pods[class][len(s.pods[class])-s.left[class]]
		candidates := s.f.nodes[class]
		for at := s.start(level, class); at < len(candidates); at++ {
			node := candidates[at]
			if s.f.limit[class][node] == 0 || !s.guard.admits(class, node) {
				continue
			}
			if backtrack && s.tried >= s.limit {
				s.cut = true
				return false
			}
			s.tried++
			undo, fits := s.cluster.Place(pod, node)
			if !fits {
				continue
			}
			s.chosen[level] = choice{class: class, at: at}
			s.at[pod] = node
			s.left[class]--
			s.guard.count(class, node, 1)
			if s.descend(level+1, backtrack) {
				return true
			}
			s.guard.count(class, node, -1)
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

// accept reports whether all places can reach each other.
func (s *search) accept() bool {
	if s.problem.Model == nil || !s.problem.Model.StrictTop || !s.rate().Infeasible {
		return true
	}
	s.infeasible = true
	return false
}

// next returns the classes of which a pod may be placed next. Where pods do not
// interact the order of the classes does not matter, and one order will do.
func (s *search) next() []int {
	var next []int
	for _, class := range s.f.order {
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
	placed, node := len(s.pods[class])-s.left[class], -1
	if placed > 0 {
		node = s.at[s.pods[class][0]]
	}
	s.deepest = s.f.blame(class, placed, node)
}
