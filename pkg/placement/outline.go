// SPDX-License-Identifier: Apache-2.0

package placement

// Outline is Search by figures alone: it places all pods of the problem in what is
// Free of its Nodes, which have to be given, and leaves bound members where they are.
// It tells where a gang would fit if the nodes were as the problem says, whatever
// they are now. What the figures do not know may still be in the way.
func Outline(p *Problem) (*Solution, *Shortage) {
	figured := *p
	figured.Interacts, figured.Rearranges = false, false
	first := newSearch(&figured, amounts{p: &figured})
	s := first.on(newFigures(first.f))
	s.enumerable = first.enumerable
	return s.run()
}

// amounts is a Cluster of which a field can be made, from the amounts of the problem.
// Nothing can be placed in it.
type amounts struct {
	p *Problem
}

// Place is not asked.
func (amounts) Place(int, int, bool) (func(), bool) { return nil, false }

// Align is not known.
func (amounts) Align(int) float64 { return 1 }

// Count is how often the requests of the class fit into what is free.
func (a amounts) Count(class, node int) int {
	return fits(a.p.Nodes[node].Free, a.p.Classes[class].Requests, 1<<20)
}
