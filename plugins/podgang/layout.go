// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/placement"
	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// layout is where the members of a gang are to be relative to each other, and where
// those are that have a place.
type layout struct {
	snapshot gang.Snapshot
	// constraints are those of the PodGang and of its ComputeDomains.
	constraints []constraint
	// bound are the members that have a place, with their classes, which may have no
	// pods to be placed.
	bound []boundMember
	// companions are classes of members of sibling gangs that wait, and near the
	// nodes of those that do not.
	companions []placement.Companion
	near       []int
	// reuse are the nodes to which the gang would rather come back.
	reuse []int
	// terrain is nil when it does not matter where members are.
	terrain *terrain
	// units and domains number the parts of the gang and what its pods share.
	units, domains, channels numbers
}

// boundMember is a member that has a place in the snapshot.
type boundMember struct {
	pod   *v1.Pod
	node  int
	class *class
}

// numbers gives each name a number.
type numbers map[string]int32

func (n numbers) of(name string) int32 {
	if name == "" {
		return topology.None
	}
	number, known := n[name]
	if !known {
		number = int32(len(n)) //nolint:gosec // a gang has few names
		n[name] = number
	}
	return number
}

// lay reads where the members, all of which have been added, are to be, and screens
// their classes. Where they are matters if the gang is constrained or has
// accelerators.
func (w *world) lay(ctx context.Context, snapshot gang.Snapshot) error {
	l := &layout{snapshot: snapshot, units: numbers{}, domains: numbers{}, channels: numbers{}}
	w.layout = l
	l.constraints = constraintsOf(&snapshot.Object.Spec, w.pl.bindings.order(snapshot.Object))
	w.measure()
	matters := len(l.constraints) > 0 || slices.ContainsFunc(w.classes, func(c *class) bool {
		return c.demand.accelerators > 0 || c.demand.hasDomain()
	})
	if matters {
		if err := w.addRelatives(); err != nil {
			return err
		}
		w.measure()
		w.addDomains()
	}
	w.takeStock()
	for _, c := range w.classes {
		if c.bound {
			continue
		}
		if err := w.screen(ctx, c); err != nil {
			return err
		}
	}
	if matters {
		w.survey()
	}
	return nil
}

// addRelatives adds the members that have a place, and the gangs that belong
// together with this one.
func (w *world) addRelatives() error {
	siblings := w.pl.index.Siblings(w.layout.snapshot.Key)
	indexOf := w.indexOf(siblings)
	for _, group := range w.layout.snapshot.Groups {
		for _, bound := range group.Bound {
			n, known := indexOf[bound.Node]
			if !known {
				continue
			}
			c, err := w.boundClass(group.Name, bound.Pod)
			if err != nil {
				return err
			}
			w.layout.bound = append(w.layout.bound, boundMember{pod: bound.Pod, node: n, class: c})
		}
	}
	for _, sibling := range siblings {
		for _, bound := range sibling.Bound {
			if n, known := indexOf[bound.Node]; known && !slices.Contains(w.layout.near, n) {
				w.layout.near = append(w.layout.near, n)
			}
		}
	}
	return w.addCompanions(siblings)
}

// indexOf returns the index of each node by name, if anybody has a place.
func (w *world) indexOf(siblings []gang.Sibling) map[string]int {
	anybody := slices.ContainsFunc(w.layout.snapshot.Groups, func(g gang.GroupSnapshot) bool { return len(g.Bound) > 0 }) ||
		slices.ContainsFunc(siblings, func(s gang.Sibling) bool { return len(s.Bound) > 0 })
	if !anybody {
		return nil
	}
	index := make(map[string]int, len(w.nodes))
	for n, node := range w.nodes {
		index[node.Node().Name] = n
	}
	return index
}

// boundClass returns the class of a member that has a place, as if it had none.
func (w *world) boundClass(group string, pod *v1.Pod) (*class, error) {
	free := *pod
	free.Spec.NodeName = ""
	key, err := w.pl.keys.ofMember(boundKey, group, &free, w.claimUnallocated)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if c := w.classOf[key]; c != nil {
		return c, nil
	}
	c := w.newClass(group, &free, key)
	c.bound = true
	return c, nil
}

// claimUnallocated is claim, without what has been allocated.
func (w *world) claimUnallocated(pod *v1.Pod, entry *v1.PodResourceClaim) *resourceapi.ResourceClaim {
	claim := w.claim(pod, entry)
	if claim == nil || claim.Status.Allocation == nil {
		return claim
	}
	free := *claim
	free.Status = resourceapi.ResourceClaimStatus{}
	return &free
}

// addCompanions adds the members of sibling gangs that wait. They count among the
// members of a class of this gang where they ask for the same.
func (w *world) addCompanions(siblings []gang.Sibling) error {
	alike := make(map[string]*class)
	for _, c := range w.classes {
		key, err := w.pl.keys.ofCompanion(c.pod)
		if err != nil {
			return err
		}
		if alike[key] == nil && !c.bound {
			alike[key] = c
		}
	}
	counts := make(map[int]int)
	for _, sibling := range siblings {
		for _, pod := range sibling.Waiting {
			key, err := w.pl.keys.ofCompanion(pod)
			if err != nil {
				return err
			}
			if alike[key] == nil {
				alike[key] = w.newClass(sibling.Key.Name, pod, "companion "+key)
			}
			counts[alike[key].index]++
		}
	}
	for _, index := range slices.Sorted(maps.Keys(counts)) {
		w.layout.companions = append(w.layout.companions, placement.Companion{Class: index, Count: counts[index]})
	}
	return nil
}

// addDomains adds a constraint for each ComputeDomain of the members.
func (w *world) addDomains() {
	groups := make(map[string][]string)
	for _, c := range w.classes {
		if c.demand.hasDomain() && (c.bound || w.hasMembers(c)) {
			groups[c.demand.domain] = append(groups[c.demand.domain], c.group)
		}
	}
	given := w.layout.constraints
	for _, domain := range slices.Sorted(maps.Keys(groups)) {
		if c, ok := domainConstraint(w.pl.args.ComputeDomains.Placement, domain, groups[domain], given); ok {
			w.layout.constraints = append(w.layout.constraints, c)
		}
	}
}

func (w *world) hasMembers(c *class) bool {
	return slices.ContainsFunc(w.members, func(m *planned) bool { return m.class == c })
}

// survey works out the facts of the nodes, for those that the gang could use.
func (w *world) survey() {
	eligible := w.pl.scratch.flags.zeroed(len(w.nodes))
	for _, c := range w.classes {
		for _, n := range c.eligible {
			eligible[n] = true
		}
	}
	w.layout.terrain = w.pl.landscape.terrain(len(w.nodes), func(i int) bool { return eligible[i] })
}

// problem returns the gang for the search.
func (w *world) problem() placement.Problem {
	p := placement.Problem{Interacts: w.interacts, Rearranges: w.claims, Budget: int(w.pl.args.SearchBudget)}
	for _, c := range w.classes {
		p.Classes = append(p.Classes, placement.Class{Weight: weight(c.pod), Nodes: c.nodes, Requests: c.requests})
	}
	for _, m := range w.members {
		p.Pods = append(p.Pods, m.class.index)
	}
	l := w.layout
	if l == nil || l.terrain == nil {
		return p
	}
	p.Reuse = l.reuse
	p.Nodes, p.Facts = w.stock, l.terrain.facts
	p.Split, p.Model = l.terrain.split, l.terrain.model
	p.Companions, p.Near = l.companions, l.near
	for i := range l.constraints {
		p.Scopes = append(p.Scopes, l.constraints[i].scope(w.pl.landscape.index))
	}
	for i, c := range w.classes {
		w.describe(&p.Classes[i], c)
	}
	for _, b := range l.bound {
		p.Pins = append(p.Pins, placement.Pin{
			Class: b.class.index, Scopes: p.Classes[b.class.index].Scopes,
			Member: w.member(b.class, b.node, w.align(b.class.demand, b.pod, nil, w.nodes[b.node].Node().Name)),
		})
	}
	drawTogether(&p)
	return p
}

// search places the pods of the problem. Where there is no way, and RDMA does not
// work everywhere, it finds out whether that alone is the reason; members may then be
// left placed.
func (w *world) search(p *placement.Problem) (*placement.Solution, *placement.Shortage) {
	solution, shortage := placement.Search(p, w)
	if shortage == nil || shortage.Infeasible || w.err != nil || p.Model == nil || !p.Model.StrictTop {
		return solution, shortage
	}
	anywhere, model := *p, *p.Model
	model.StrictTop = false
	anywhere.Model = &model
	_, still := placement.Search(&anywhere, w)
	if still != nil {
		return nil, still
	}
	shortage.Infeasible = true
	return nil, shortage
}

// drawTogether has the members of a gang without accelerators keep close as if each
// had one, for the search: a preferred level that cannot hold all of them is then
// spread over as few domains as possible.
func drawTogether(p *placement.Problem) {
	for i := range p.Classes {
		if p.Classes[i].G > 0 {
			return
		}
	}
	for i := range p.Classes {
		p.Classes[i].G, p.Classes[i].RDMA = 1, true
	}
	for i := range p.Pins {
		p.Pins[i].Member.G, p.Pins[i].Member.RDMA = 1, true
	}
	model := *p.Model
	model.StrictTop = false
	p.Model = &model
}

// describe fills in what the search needs of a class where places matter.
func (w *world) describe(pc *placement.Class, c *class) {
	m := w.member(c, 0, 1)
	pc.G, pc.Unit, pc.Domain, pc.Channel, pc.RDMA = m.G, m.Unit, m.Domain, m.Channel, m.RDMA
	pc.Eligible = c.eligibleNodes()
	if !c.bound && !w.hasMembers(c) {
		// A companion obeys the constraints of its own gang.
		return
	}
	for i := range w.layout.constraints {
		if w.layout.constraints[i].concerns(c) {
			pc.Scopes = append(pc.Scopes, i)
		}
	}
}

// member is a pod of the class in a place, for the score.
func (w *world) member(c *class, n int, align float64) score.Member {
	l := w.layout
	return score.Member{
		Node: n, G: c.demand.accelerators, RDMA: c.demand.rdma, Align: align,
		Unit:    l.units.of(unitOf(&l.snapshot.Object.Spec, c.group, c.pod.Labels)),
		Domain:  l.domains.of(c.demand.domain),
		Channel: l.channels.of(c.demand.channel),
	}
}
