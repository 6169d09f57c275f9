// SPDX-License-Identifier: Apache-2.0

package score

import (
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// Model is the bandwidths and weights that the score is made of. Bandwidths are in
// GB/s per accelerator and direction.
type Model struct {
	// NVLink is the bandwidth within an NVLink domain, between pods of one
	// ComputeDomain.
	NVLink float64
	// Tiers are the bandwidths of RDMA within a domain of each level of the fabric,
	// the narrowest first. Levels beyond the last have Next times that of the level
	// before.
	Tiers []float64
	Next  float64
	// TCP is the bandwidth without RDMA, or where it is not known how far apart two
	// nodes are.
	TCP float64
	// UnitWeight is how much the traffic of pods of different units counts, that
	// within a unit being 1, and UnitCap is the most bandwidth it can use.
	UnitWeight, UnitCap float64
	// StrictTop is set when RDMA does not work between two domains of the broadest
	// level. Otherwise they are one level further apart than the broadest.
	StrictTop bool
	// Labelled is set when some node that the gang could use carries a label of the
	// fabric. Otherwise all nodes count as equally close, in the narrowest level.
	// Whoever rates a gang sets it, for that gang.
	Labelled bool
}

// DefaultModel returns the model for NVLink 5 and 400 Gb/s of RDMA per accelerator:
// 900 GB/s and 50 GB/s are vendors' figures, 3 GB/s is what TCP was measured to
// reach; the loss per level, the weight and the cap are guesses.
func DefaultModel() Model {
	return Model{
		NVLink:     900,
		Tiers:      []float64{50, 42.5, 35},
		Next:       0.85,
		TCP:        3,
		UnitWeight: 0.25,
		UnitCap:    50,
		Labelled:   true,
	}
}

// tier is the bandwidth within a domain of the fabric's level n.
func (m *Model) tier(n int) float64 {
	if n < len(m.Tiers) {
		return m.Tiers[n]
	}
	bandwidth := m.Tiers[len(m.Tiers)-1]
	for i := len(m.Tiers); i <= n; i++ {
		bandwidth *= m.Next
	}
	return bandwidth
}

// nature is what tells one accelerator from another, apart from its place.
type nature struct {
	unit, domain int32
	rdma         bool
	align        float64
}

// link is what two places have between them.
type link struct {
	nvlink bool    // one NVLink domain
	rdma   float64 // bandwidth; 0 if unknown, negative if RDMA does not work
}

// link returns what there is between two nodes that are not the same.
func (m *Model) link(p, q *Facts) link {
	return link{nvlink: p.Clique != topology.None && p.Clique == q.Clique, rdma: m.reach(p.Fabric, q.Fabric)}
}

// within returns what there is inside one node. NVLink needs one IMEX channel that
// both pods share.
func (m *Model) within(p *Facts, shared bool) link {
	return link{nvlink: shared && p.Clique != topology.None, rdma: m.tier(0)}
}

// reach is the bandwidth of RDMA between two places of the fabric.
func (m *Model) reach(p, q []int32) float64 {
	if !m.Labelled {
		return m.tier(0)
	}
	for n := range min(len(p), len(q)) {
		if p[n] == q[n] && p[n] != topology.None {
			return m.tier(n)
		}
	}
	if len(p) == 0 || len(q) == 0 || p[len(p)-1] == topology.None || q[len(q)-1] == topology.None {
		return 0
	}
	if m.StrictTop {
		return -1
	}
	return m.tier(max(len(p), len(q)))
}

// cost is the time to move a byte between two accelerators, times the weight of
// their traffic. It is negative if they cannot reach each other.
func (m *Model) cost(a, b *nature, l link) float64 {
	bandwidth := m.TCP
	switch {
	case l.nvlink && a.domain != topology.None && a.domain == b.domain:
		bandwidth = m.NVLink
	case !a.rdma || !b.rdma || l.rdma == 0:
	case l.rdma < 0:
		return -1
	default:
		bandwidth = l.rdma * min(a.align, b.align)
	}
	if a.unit == b.unit {
		return 1 / bandwidth
	}
	return m.UnitWeight / min(bandwidth, m.UnitCap)
}

// weight is how much the traffic between two accelerators counts.
func (m *Model) weight(a, b *nature) float64 {
	if a.unit == b.unit {
		return 1
	}
	return m.UnitWeight
}

// FactsOf returns the facts of every node from the levels of a cluster: that of the
// NVLink domains, nil if there is none, and those of the fabric, narrow to broad.
func FactsOf(count int, clique *topology.Level, fabric []*topology.Level) []Facts {
	facts := make([]Facts, count)
	domains := make([]int32, 0, count*len(fabric))
	for i := range facts {
		facts[i].Clique = topology.None
		if clique != nil {
			facts[i].Clique = clique.Of[i]
		}
		from := len(domains)
		for _, level := range fabric {
			domains = append(domains, level.Of[i])
		}
		facts[i].Fabric = domains[from:len(domains):len(domains)]
	}
	return facts
}
