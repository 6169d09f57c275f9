// SPDX-License-Identifier: Apache-2.0

package score

import (
	"encoding/binary"
	"math"
	"slices"
)

// exhauster looks at every placement of a few pods, as far as it gets.
type exhauster struct {
	*packing
	nodes []int32 // positions, without more of one sort than there are pods
	sort  []int32 // by position: nodes that have the same are of one sort
	pods  []int32 // kinds
	at    []int32 // positions of the pods placed
	// pair is the cost of a pair at best, by natures.
	pair [][]float64
	// excess is what the best packing costs above the ideal, and best that packing.
	excess float64
	best   []int32
	steps  int
}

// exhaust looks at every placement if there are few pods, until a bound on the work
// is reached. It adds the best to the candidates if that is better than all of them.
func (p *packing) exhaust(found []candidate) []candidate {
	pods := 0
	for k := range p.kinds {
		pods += p.kinds[k].Count
	}
	least := math.Inf(1)
	for i := range found {
		least = min(least, found[i].cost)
	}
	if pods == 0 || pods > smallRoom || len(p.nodes) == 0 || least <= p.ideal*(1+exact) {
		return found
	}
	e := &exhauster{packing: p, steps: smallSteps}
	if len(found) > 0 {
		e.steps /= 4
	}
	e.excess = least - p.ideal
	e.prepare(pods)
	e.place(0, 0, 0)
	if e.best == nil {
		return found
	}
	c := candidate{}
	for i, pos := range e.best {
		c.seats = append(c.seats, seat{kind: e.pods[i], pos: pos, count: 1})
	}
	p.occupy(&c)
	c.cost = p.cost()
	p.vacate()
	return append(found, c)
}

// prepare lists the pods, those that take most first, and the nodes to try.
func (e *exhauster) prepare(pods int) {
	for _, k := range e.group(func(int) int32 { return 0 })[0] {
		for range e.kinds[k].Count {
			e.pods = append(e.pods, int32(k))
		}
	}
	e.at = make([]int32, 0, pods)
	best := e.bestLink()
	e.pair = make([][]float64, len(e.natures))
	for a := range e.natures {
		e.pair[a] = make([]float64, len(e.natures))
		for b := range e.natures {
			e.pair[a][b] = e.between(int32(a), int32(b), best)
		}
	}
	e.sort = make([]int32, len(e.all))
	ids := make(map[string]int32)
	var sizes []int
	var key []byte
	for _, pos := range e.all {
		key = e.sortKey(pos, key[:0])
		id, known := ids[string(key)]
		if !known {
			id = int32(len(ids))
			ids[string(key)] = id
			sizes = append(sizes, 0)
		}
		e.sort[pos] = id
		if sizes[id]++; sizes[id] <= pods {
			e.nodes = append(e.nodes, pos)
		}
	}
}

// sortKey appends what makes a node the same as another to a buffer.
func (e *exhauster) sortKey(pos int32, key []byte) []byte {
	key = binary.LittleEndian.AppendUint32(key, uint32(e.placeOf[pos]))
	for _, amount := range e.free[int(pos)*len(e.total) : (int(pos)+1)*len(e.total)] {
		key = binary.LittleEndian.AppendUint64(key, uint64(amount))
	}
	for k := range e.kinds {
		key = binary.LittleEndian.AppendUint32(key, uint32(e.limit[k*len(e.all)+int(pos)]))
	}
	if e.isFixed != nil && e.isFixed[pos] {
		key = binary.LittleEndian.AppendUint32(key, uint32(pos))
	}
	return key
}

// place places the pods from the i-th on, given what those before cost above the
// ideal. Pods of one kind are placed in the order of the nodes, and of empty nodes
// of one sort only the first is tried.
func (e *exhauster) place(i, from int, excess float64) {
	if i == len(e.pods) {
		e.excess, e.best = excess, slices.Clone(e.at)
		return
	}
	k := e.pods[i]
	if i > 0 && e.pods[i-1] != k {
		from = 0
	}
	var tried []int32
	for n := from; n < len(e.nodes) && e.steps > 0; n++ {
		e.steps--
		pos := e.nodes[n]
		if e.load[pos] == 0 {
			if slices.Contains(tried, e.sort[pos]) {
				continue
			}
			tried = append(tried, e.sort[pos])
		}
		if e.fit(int(k), pos) == 0 {
			continue
		}
		after := excess + e.added(k, pos)
		if after >= e.excess*(1-exact) {
			continue
		}
		e.put(int(k), pos, 1)
		e.at = append(e.at, pos)
		e.place(i+1, n, after)
		e.at = e.at[:len(e.at)-1]
		e.put(int(k), pos, -1)
	}
}

// added is what a pod of a kind on a node costs above the ideal because of the pods
// that are placed already.
func (e *exhauster) added(kind, pos int32) float64 {
	n := e.natureOf[kind]
	if n < 0 {
		return 0
	}
	place := e.placeOf[pos]
	var more float64
	for j, other := range e.at {
		o := e.natureOf[e.pods[j]]
		if o < 0 {
			continue
		}
		l := e.m.within(e.places[place], false)
		if other != pos {
			l = e.m.link(e.places[place], e.places[e.placeOf[other]])
		}
		more += e.kinds[e.pods[j]].G * (e.between(n, o, l) - e.pair[n][o])
	}
	for i := range e.fixedCells {
		c := &e.fixedCells[i]
		more += c.sum * (e.between(n, c.nature, e.m.link(e.places[place], e.places[c.place])) - e.pair[n][c.nature])
	}
	if e.isFixed != nil && e.isFixed[pos] {
		for i := range e.fixedAt[pos] {
			f := &e.fixedAt[pos][i]
			more += f.sum * e.together(n, e.nature(f.nature), place)
		}
	}
	return more * e.kinds[kind].G
}
