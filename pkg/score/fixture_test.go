// SPDX-License-Identifier: Apache-2.0

package score

import (
	"math"

	"pgregory.net/rapid"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// plainTime is the definition of the mean time, pair by pair.
func plainTime(m *Model, members []Member, facts []Facts) (t float64, pairs, feasible bool) {
	var num, den float64
	for i := range members {
		for j := range i {
			p, q := &members[j], &members[i]
			if p.G <= 0 || q.G <= 0 {
				continue
			}
			bandwidth := plainBandwidth(m, p, q, facts)
			if bandwidth < 0 {
				return math.Inf(1), true, false
			}
			w := p.G * q.G
			if p.Unit != q.Unit {
				w *= m.UnitWeight
			}
			num, den = num+w/bandwidth, den+w
		}
	}
	if den == 0 {
		return 0, false, true
	}
	return num / den, true, true
}

// plainBandwidth is the bandwidth between two members, negative if they cannot
// reach each other.
func plainBandwidth(m *Model, p, q *Member, facts []Facts) float64 {
	f, g := facts[p.Node], facts[q.Node]
	v := m.TCP
	shared := p.Channel != topology.None && p.Channel == q.Channel
	switch {
	case p.Domain != topology.None && p.Domain == q.Domain && f.Clique != topology.None && f.Clique == g.Clique &&
		(p.Node != q.Node || shared):
		v = m.NVLink
	case !p.RDMA || !q.RDMA:
	default:
		n := plainCommon(m, p.Node == q.Node, f.Fabric, g.Fabric)
		if n == -2 {
			return -1
		}
		if n >= 0 {
			v = m.Tiers[len(m.Tiers)-1] * math.Pow(m.Next, float64(n-len(m.Tiers)+1)) * min(p.Align, q.Align)
			if n < len(m.Tiers) {
				v = m.Tiers[n] * min(p.Align, q.Align)
			}
		}
	}
	if p.Unit != q.Unit {
		v = min(v, m.UnitCap)
	}
	return v
}

// plainCommon is the narrowest level that two nodes share, -1 if that is unknown, -2
// if RDMA does not work.
func plainCommon(m *Model, same bool, f, g []int32) int {
	if same || !m.Labelled {
		return 0
	}
	for n := range f {
		if f[n] != topology.None && f[n] == g[n] {
			return n
		}
	}
	if len(f) == 0 || f[len(f)-1] == topology.None || g[len(g)-1] == topology.None {
		return -1
	}
	if m.StrictTop {
		return -2
	}
	return len(f)
}

// drawModel draws a model: the default one, and variants of it.
func drawModel(t *rapid.T) *Model {
	m := DefaultModel()
	m.StrictTop = rapid.IntRange(0, 5).Draw(t, "strict") == 0
	m.Labelled = rapid.IntRange(0, 5).Draw(t, "labelled") > 0
	if rapid.IntRange(0, 5).Draw(t, "tiers") == 0 {
		m.Tiers = []float64{100, 20}
	}
	return &m
}

// drawFacts draws the facts of nodes whose levels nest or not, with labels missing.
func drawFacts(t *rapid.T, nodes int) []Facts {
	levels := rapid.IntRange(0, 3).Draw(t, "levels")
	domain := rapid.Int32Range(0, 2)
	facts := make([]Facts, nodes)
	for i := range facts {
		facts[i].Clique = domain.Draw(t, "clique") - 1
		for range levels {
			value := domain.Draw(t, "domain")
			if rapid.IntRange(0, 9).Draw(t, "missing") == 0 {
				value = topology.None
			}
			facts[i].Fabric = append(facts[i].Fabric, value)
		}
	}
	return facts
}

// Time is what Rate says of the time, of whether there are two accelerators, and of
// whether all members can reach each other.
func (m *Model) Time(members []Member, facts []Facts) (t float64, pairs, feasible bool) {
	result := m.Rate(members, facts)
	return result.Time, result.Pairs, !result.Infeasible
}

// Least returns the least time that Pack finds, without regard to what is preferred
// among packings whose times are about equal.
func (m *Model) Least(kinds []Kind, fixed []Member, room *Room) (t Result, ok bool) {
	_, t, ok = m.pack(kinds, fixed, room, exact)
	return t, ok
}
