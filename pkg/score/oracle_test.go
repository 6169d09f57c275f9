// SPDX-License-Identifier: Apache-2.0

package score

import (
	"math"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// hall is nodes in groups of one size: racks of GB200, leaves of H100.
type hall struct {
	groups, size int
	gpus         int64
	fabric       func(group int) []int32      // narrow to broad
	clique       func(group, index int) int32 // nil: none
	unlabelled   int                          // nodes without fabric, after the others
	model        func(m *Model)               // nil: as it is
}

func (h *hall) facts() []Facts {
	var facts []Facts
	for g := range h.groups {
		for i := range h.size {
			f := Facts{Clique: topology.None, Fabric: h.fabric(g)}
			if h.clique != nil {
				f.Clique = h.clique(g, i)
			}
			facts = append(facts, f)
		}
	}
	for range h.unlabelled {
		f := Facts{Clique: topology.None}
		for range h.fabric(0) {
			f.Fabric = append(f.Fabric, topology.None)
		}
		facts = append(facts, f)
	}
	return facts
}

// room is the hall while nothing runs in it: GPUs, and an IMEX channel a node.
func (h *hall) room(kinds []Kind) *Room {
	facts := h.facts()
	r := &Room{Facts: facts, Limit: func(kind, _ int) int { return kinds[kind].Count }}
	for i := range facts {
		r.Nodes = append(r.Nodes, i)
		r.Free = append(r.Free, []int64{h.gpus, 1})
	}
	for n := len(facts[0].Fabric) - 1; n >= 0; n-- {
		r.Levels = append(r.Levels, levelFrom(facts, func(f *Facts) int32 { return f.Fabric[n] }))
	}
	if kinds[0].Domain != topology.None {
		r.Levels = append(r.Levels, levelFrom(facts, func(f *Facts) int32 { return f.Clique }))
	}
	return r
}

func levelFrom(facts []Facts, of func(f *Facts) int32) *topology.Level {
	l := &topology.Level{}
	for i := range facts {
		domain := of(&facts[i])
		l.Of = append(l.Of, domain)
		for int(domain) >= len(l.Values) {
			l.Values = append(l.Values, "")
		}
	}
	return l
}

// at says how many pods of a unit are on the first free nodes of a group.
type at struct {
	unit  int32
	group int
	count int
	g     float64 // 0: as the unit
	align float64 // 0: 1
}

// seated returns the members that sit as the list says, a node each.
func (h *hall) seated(list []at, kinds []Kind) []Member {
	next := make(map[int]int)
	var members []Member
	for _, a := range list {
		for range a.count {
			k := kinds[0]
			for _, kind := range kinds {
				if kind.Unit == a.unit && (a.g == 0 || kind.G == a.g) {
					k = kind
				}
			}
			member := Member{
				Node: a.group*h.size + next[a.group], G: k.G, Unit: k.Unit, Domain: k.Domain,
				Channel: topology.None, RDMA: k.RDMA, Align: 1,
			}
			if a.align != 0 {
				member.Align = a.align
			}
			next[a.group]++
			members = append(members, member)
		}
	}
	return members
}

// seatedIn is a placement of one unit, with a number of pods in each group.
func seatedIn(counts ...int) []at {
	var list []at
	for group, count := range counts {
		list = append(list, at{group: group, count: count})
	}
	return list
}

// ones is n groups with one pod each.
func ones(n int) []at {
	var list []at
	for group := range n {
		list = append(list, at{group: group, count: 1})
	}
	return list
}

func gang(count int, g float64, unit, domain int32) Kind {
	return Kind{Count: count, G: g, Unit: unit, Domain: domain, RDMA: true, Requests: []int64{int64(g), 1}}
}

func own(group int) []int32 { return []int32{int32(group), 0} }

// The halls of the table.
var (
	rackClique = func(group, _ int) int32 { return int32(group) }
	nvl72A     = &hall{groups: 4, size: 18, gpus: 4, clique: rackClique, fabric: func(int) []int32 { return []int32{0} }}
	nvl72B     = &hall{groups: 4, size: 18, gpus: 4, clique: rackClique, fabric: own}
	splitA     = &hall{groups: 4, size: 18, gpus: 4, clique: halfRack, fabric: nvl72A.fabric}
	splitB     = &hall{groups: 4, size: 18, gpus: 4, clique: halfRack, fabric: own}
	h100       = &hall{groups: 8, size: 10, gpus: 8, fabric: own}
	h100By4    = &hall{groups: 8, size: 4, gpus: 8, fabric: own}
	h100Tier3  = &hall{groups: 8, size: 10, gpus: 8, fabric: func(g int) []int32 { return []int32{int32(g), int32(g), 0} }}
)

func halfRack(group, index int) int32 { return int32(2*group + index/9) }

// oracle is a row of the table: a gang, where it sits, and its score.
type oracle struct {
	name  string
	hall  *hall
	kinds []Kind
	seats []at
	want  float64
}

func cd(count int) []Kind   { return []Kind{gang(count, 4, 0, 0)} }
func noCD(count int) []Kind { return []Kind{gang(count, 4, 0, topology.None)} }
func full(count int) []Kind { return []Kind{gang(count, 8, 0, topology.None)} }

// nvl72Rows are 4 accelerators a pod, in racks that are NVLink domains.
func nvl72Rows() []oracle {
	var rows []oracle
	both := func(name string, kinds []Kind, a, b float64, seats []at) {
		rows = append(rows, oracle{name + ", A", nvl72A, kinds, seats, a}, oracle{name + ", B", nvl72B, kinds, seats, b})
	}
	both("18: 18", cd(18), 1, 1, seatedIn(18))
	both("18: 17+1", cd(18), 0.3462, 0.3085, seatedIn(17, 1))
	both("18: 16+2", cd(18), 0.2195, 0.1916, seatedIn(16, 2))
	both("18: 12+6", cd(18), 0.1111, 0.0953, seatedIn(12, 6))
	both("18: 9+9", cd(18), 0.1000, 0.0856, seatedIn(9, 9))
	both("18: 6+6+6", cd(18), 0.0769, 0.0656, seatedIn(6, 6, 6))
	both("16: 15+1", cd(16), 0.3200, 0.2839, seatedIn(15, 1))
	both("16: 8+8", cd(16), 0.0993, 0.0850, seatedIn(8, 8))
	both("16: 16", cd(16), 1, 1, seatedIn(16))
	both("20: 18+2", cd(20), 1, 1, seatedIn(18, 2))
	both("20: 17+3", cd(20), 0.7588, 0.7517, seatedIn(17, 3))
	both("20: 10+10", cd(20), 0.4243, 0.4151, seatedIn(10, 10))
	both("32: 18+14", cd(32), 1, 1, seatedIn(18, 14))
	both("32: 16+16", cd(32), 0.9860, 0.9857, seatedIn(16, 16))
	both("36: 18+18", cd(36), 1, 1, seatedIn(18, 18))
	both("36: 12+12+12", cd(36), 0.7698, 0.7669, seatedIn(12, 12, 12))
	both("18 without ComputeDomain: 17+1", noCD(18), 1, 0.9808, seatedIn(17, 1))
	both("18 without ComputeDomain: 9+9", noCD(18), 1, 0.9146, seatedIn(9, 9))
	return append(rows,
		oracle{"split racks: 9+9 in one, A", splitA, cd(18), seatedIn(18), 1},
		oracle{"split racks: 9+9 in one, B", splitB, cd(18), seatedIn(18), 1},
		oracle{"split racks: 9+9 in two, A", splitA, cd(18), seatedIn(9, 9), 1},
		oracle{"split racks: 9+9 in two, B", splitB, cd(18), seatedIn(9, 9), 0.8560},
	)
}

// h100Rows are 8 accelerators a pod, without NVLink between nodes.
func h100Rows() []oracle {
	aligned := func(aligns ...float64) []at {
		var list []at
		for _, align := range aligns {
			list = append(list, at{count: 1, align: align})
		}
		return list
	}
	const cross, same = 0.55, 0.95
	return []oracle{
		{"4: 4", h100, full(4), seatedIn(4), 1},
		{"4: 3+1", h100, full(4), seatedIn(3, 1), 0.9189},
		{"4: 2+2", h100, full(4), seatedIn(2, 2), 0.8947},
		{"4: 2+1+1", h100, full(4), seatedIn(2, 1, 1), 0.8718},
		{"4: all different", h100, full(4), ones(4), 0.8500},
		{"8: 7+1", h100, full(8), seatedIn(7, 1), 0.9577},
		{"8: 6+2", h100, full(8), seatedIn(6, 2), 0.9297},
		{"8: 4+4", h100, full(8), seatedIn(4, 4), 0.9084},
		{"8: 2+2+2+2", h100, full(8), seatedIn(2, 2, 2, 2), 0.8686},
		{"8: all different", h100, full(8), ones(8), 0.8500},
		{"8, leaves of 4: 4+4", h100By4, full(8), seatedIn(4, 4), 1},
		{"8, leaves of 4: 2+2+2+2", h100By4, full(8), seatedIn(2, 2, 2, 2), 0.9562},
		{"8, leaves of 4: all different", h100By4, full(8), ones(8), 0.9357},
		{"8, three tiers: 4+4 in two spines", h100Tier3, full(8), seatedIn(4, 4), 0.8033},
		{"8, three tiers: all in different spines", h100Tier3, full(8), ones(8), 0.7000},
		{"4 in one leaf, all cross-NUMA", h100, full(4), aligned(cross, cross, cross, cross), 0.5500},
		{"4 in one leaf, one cross", h100, full(4), aligned(cross, 1, 1, 1), 0.7097},
		{"4 in one leaf, two cross", h100, full(4), aligned(cross, cross, 1, 1), 0.5946},
		{"4 in one leaf, all same-NUMA", h100, full(4), aligned(same, same, same, same), 0.9500},
		{"4: 2+2, all cross-NUMA", h100, full(4), []at{{group: 0, count: 2, align: cross}, {group: 1, count: 2, align: cross}}, 0.4921},
	}
}

// unlabelledRows are 8 pods on nodes without a fabric label beside others that have
// one.
func unlabelledRows() []oracle {
	beside := func(h hall) *hall {
		h.unlabelled = 8
		return &h
	}
	leafEach := hall{groups: 8, size: 1, gpus: 8, fabric: func(g int) []int32 { return []int32{int32(g), 0, 0} }}
	spineEach := hall{groups: 8, size: 1, gpus: 8, fabric: func(g int) []int32 { return []int32{int32(g), int32(g), 0} }}
	blank := hall{groups: 0, size: 1, gpus: 8, fabric: own, unlabelled: 8, model: func(m *Model) { m.Labelled = false }}
	outside := func(h *hall, count int) []at { return []at{{group: h.groups, count: count}} }
	row := func(name string, h *hall, want float64) oracle { return oracle{name, h, full(8), outside(h, 8), want} }
	leaf := beside(*h100)
	return []oracle{
		row("unlabelled, best one leaf", leaf, 0.0600),
		row("unlabelled, best 4+4", beside(*twoLeaves()), 0.0661),
		row("unlabelled, best all different leaves", beside(leafEach), 0.0706),
		row("unlabelled, best tier-2 only", beside(spineEach), 0.0857),
		{"seven in one leaf, one unlabelled", leaf, full(8), append(seatedIn(7), outside(leaf, 1)...), 0.2034},
		row("no node labelled at all", &blank, 1),
	}
}

func twoLeaves() *hall { return &hall{groups: 2, size: 4, gpus: 8, fabric: own} }

// unitRows are gangs of two units, and others that are not all alike.
func unitRows() []oracle {
	pd := []Kind{gang(4, 4, 0, 0), gang(4, 4, 1, 0)}
	var rows []oracle
	both := func(name string, a, b float64, seats []at) {
		rows = append(rows, oracle{name + ", A", nvl72A, pd, seats, a}, oracle{name + ", B", nvl72B, pd, seats, b})
	}
	both("P rack 0, D rack 1", 1, 0.8686, []at{{unit: 0, group: 0, count: 4}, {unit: 1, group: 1, count: 4}})
	both("P 2+2, D with the first half", 0.5526, 0.4911,
		[]at{{unit: 0, group: 0, count: 2}, {unit: 0, group: 1, count: 2}, {unit: 1, group: 0, count: 4}})
	both("both 2+2", 0.3818, 0.3336, []at{
		{unit: 0, group: 0, count: 2}, {unit: 0, group: 1, count: 2},
		{unit: 1, group: 0, count: 2}, {unit: 1, group: 1, count: 2},
	})
	h100PD := []Kind{gang(1, 8, 0, topology.None), gang(2, 8, 1, topology.None)}
	uneven := []Kind{gang(1, 8, 0, topology.None), gang(2, 4, 0, topology.None)}
	rack := &hall{groups: 2, size: 10, gpus: 8, fabric: func(g int) []int32 { return []int32{int32(g)} }}
	return append(rows,
		oracle{"P in another leaf", h100, h100PD, []at{{unit: 0, group: 1, count: 1}, {unit: 1, group: 0, count: 2}}, 0.9444},
		oracle{"one D in another leaf", h100, h100PD,
			[]at{{unit: 0, group: 0, count: 1}, {unit: 1, group: 0, count: 1}, {unit: 1, group: 1, count: 1}}, 0.8718},
		oracle{"ladder of one level: 2+2", rack, full(4), seatedIn(2, 2), 0.8947},
		oracle{"8+4+4: the 8 apart", h100, uneven, []at{{group: 1, count: 1, g: 8}, {group: 0, count: 2, g: 4}}, 0.8763},
		oracle{"8+4+4: a 4 apart", h100, uneven,
			[]at{{group: 0, count: 1, g: 8}, {group: 0, count: 1, g: 4}, {group: 1, count: 1, g: 4}}, 0.9043},
	)
}

// plainRows are gangs with few or no accelerators.
func plainRows() []oracle {
	l40s := &hall{groups: 1, size: 2, gpus: 1, unlabelled: 0, fabric: func(int) []int32 { return nil },
		model: func(m *Model) { m.Labelled = false }}
	noRDMA := gang(2, 1, 0, topology.None)
	noRDMA.RDMA = false
	cpu := Kind{Count: 2, Domain: topology.None, Requests: []int64{0, 1}}
	return []oracle{
		{"two pods without RDMA", l40s, []Kind{noRDMA}, seatedIn(2), 1},
		{"one pod cross-NUMA", h100, full(1), []at{{count: 1, align: 0.55}}, 0.55},
		{"no accelerators", h100, []Kind{cpu}, seatedIn(1, 1), 1},
	}
}

func TestScoreTable(t *testing.T) {
	var rows []oracle
	for _, more := range [][]oracle{nvl72Rows(), h100Rows(), unlabelledRows(), unitRows(), plainRows()} {
		rows = append(rows, more...)
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m := DefaultModel()
			if row.hall.model != nil {
				row.hall.model(&m)
			}
			room := row.hall.room(row.kinds)
			best, ok := m.Least(row.kinds, nil, room)
			if !ok {
				t.Fatal("no packing was found")
			}
			actual := m.Rate(row.hall.seated(row.seats, row.kinds), room.Facts)
			if actual.Pairs && best.Time > actual.Time*(1+1e-9) {
				t.Errorf("the best time, %v, is above the actual one, %v", best.Time, actual.Time)
			}
			if got := Score(best, actual); math.Abs(got-row.want) > 0.0005 {
				t.Errorf("score = %.4f, want %.4f", got, row.want)
			}
		})
	}
}

func TestStrictTopMakesTwoRacksInfeasible(t *testing.T) {
	m := DefaultModel()
	m.StrictTop = true
	rack := &hall{groups: 2, size: 2, gpus: 8, fabric: func(g int) []int32 { return []int32{int32(g)} }}
	kinds := full(4)
	if actual := m.Rate(rack.seated(seatedIn(2, 2), kinds), rack.facts()); !actual.Infeasible {
		t.Errorf("2+2 = %+v, want infeasible", actual)
	}
	if seats, _, ok := m.Pack(kinds, nil, rack.room(kinds)); ok {
		t.Errorf("packed across racks: %+v", seats)
	}
	if _, _, ok := m.Pack(full(2), nil, rack.room(full(2))); !ok {
		t.Error("2 pods were not packed into one rack")
	}
}
