// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"github.com/podgang/podgang-scheduler/pkg/devices"
	"github.com/podgang/podgang-scheduler/pkg/placement"
	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// keptBests is how many gangs' best placements are remembered.
const keptBests = 512

// bests remembers the best placement on the empty cluster, by the shape of the gang
// and the generation of the inventory. It belongs to the goroutine of the scheduling
// cycle.
type bests struct {
	seed  maphash.Seed
	cache *lru.Cache
}

func newBests() *bests {
	return &bests{seed: maphash.MakeSeed(), cache: lru.New(keptBests)}
}

// rate returns the placement score of the gang when its members are on these nodes,
// -1 for one without a place.
func (w *world) rate(ctx context.Context, nodes []int) (float64, error) {
	if w.layout == nil || w.layout.terrain == nil {
		return 1, nil
	}
	if !slices.ContainsFunc(w.classes, func(c *class) bool { return c.demand.accelerators > 0 }) {
		return 1, nil
	}
	p := w.problem()
	members := make([]score.Member, 0, len(p.Pins)+len(nodes))
	for _, pin := range p.Pins {
		members = append(members, pin.Member)
	}
	p.Pods = nil
	for i, n := range nodes {
		if n >= 0 {
			p.Pods = append(p.Pods, w.members[i].class.index)
			members = append(members, w.member(w.members[i].class, n, w.Align(i)))
		}
	}
	actual := p.Model.Rate(members, w.layout.terrain.facts)
	if !actual.Pairs || actual.Infeasible {
		return score.Score(score.Result{}, actual), nil
	}
	best, err := w.best(ctx, &p)
	return score.Score(best, actual), err
}

// best returns the best placement of the pods and pins of the problem on the cluster
// as if it were empty.
func (w *world) best(ctx context.Context, p *placement.Problem) (score.Result, error) {
	key := w.shape(p)
	if known, ok := w.pl.bests.cache.Get(key); ok {
		return known.(score.Result), nil
	}
	for _, c := range w.classes {
		if !c.bound {
			continue
		}
		if err := w.screen(ctx, c); err != nil {
			return score.Result{}, err
		}
		p.Classes[c.index].Eligible = c.eligibleNodes()
	}
	best := placement.Best(p)
	w.pl.bests.cache.Add(key, best)
	return best, nil
}

// shape returns a key that is equal for gangs with the same best placement.
func (w *world) shape(p *placement.Problem) string {
	counts := make([]int, len(p.Classes))
	for _, class := range p.Pods {
		counts[class]++
	}
	for _, pin := range p.Pins {
		counts[pin.Class]++
	}
	parts := []string{w.inventory}
	for i, n := range counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%x %d %v %d", maphash.String(w.pl.bests.seed, w.classes[i].key), n, p.Classes[i].Scopes, p.Classes[i].Unit))
		}
	}
	slices.Sort(parts[1:])
	for i := range w.layout.constraints {
		c := &w.layout.constraints[i]
		parts = append(parts, c.required+" "+strings.Join(c.preferred, " "))
	}
	return strings.Join(parts, "\n")
}

// Align returns how near the accelerators of a placed member are to its NICs.
func (w *world) Align(member int) float64 {
	m := w.members[member]
	return w.align(m.class.demand, m.pod, m.allocation, w.nodes[m.node].Node().Name)
}

func (w *world) align(d *demand, pod *v1.Pod, allocation *gangresources.Allocation, node string) float64 {
	if d.accelerators == 0 || !d.rdma {
		return 1
	}
	accelerators, nics := w.session.Loci(pod, allocation)
	if len(accelerators) == 0 || len(nics) == 0 {
		return 1
	}
	allAccelerators, allNICs := w.session.NodeLoci(node)
	factors := devices.Alignment{SameNUMA: w.pl.args.Score.SameNUMA, CrossNUMA: w.pl.args.Score.CrossNUMA}
	return factors.Rate(accelerators, nics, allAccelerators, allNICs)
}
