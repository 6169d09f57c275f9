// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// gangCase is a small random gang with constraints, and the cluster for it.
type gangCase struct {
	problem  *Problem
	requests []resources
	capacity []resources
}

// chooser returns a number from 0 to n-1.
type chooser func(n int, what string) int

// drawGang makes a gang of up to six pods on up to six nodes.
func drawGang(choose chooser) gangCase {
	nodes := 1 + choose(6, "nodes")
	levels := drawLevels(choose, nodes)
	p := &Problem{Budget: largeBudget, Split: []*topology.Level{levels[0], levels[1], levels[2]}}
	model := score.DefaultModel()
	model.StrictTop = choose(12, "strict top") == 0
	p.Model = &model
	cliques := levels[choose(3, "level of cliques")]
	if choose(2, "cliques") == 0 {
		cliques = nil
	} else {
		p.Split = append(p.Split, cliques)
	}
	p.Facts = score.FactsOf(nodes, cliques, []*topology.Level{levels[2], levels[1], levels[0]})
	for range nodes {
		total := []int64{int64(4 + choose(5, "CPUs")), int64(choose(9, "GPUs"))}
		free := []int64{total[0] - int64(choose(3, "CPUs used")), total[1] - int64(choose(int(total[1])+1, "GPUs used"))/2}
		p.Nodes = append(p.Nodes, Node{Free: free, Total: total})
	}
	drawScopes(choose, p, levels)
	drawClasses(choose, p)
	for range 1 + choose(6, "pods") {
		p.Pods = append(p.Pods, choose(len(p.Classes), "class"))
	}
	for range max(0, choose(5, "pins")-2) {
		class := choose(len(p.Classes), "class of pin")
		c := &p.Classes[class]
		p.Pins = append(p.Pins, Pin{Scopes: c.Scopes, Class: class, Member: score.Member{
			Node: choose(nodes, "node of pin"), G: c.G, Unit: c.Unit, Domain: c.Domain, Channel: c.Channel, RDMA: c.RDMA, Align: 1,
		}})
	}
	return caseOf(p)
}

// caseOf makes the cluster that a problem describes.
func caseOf(p *Problem) gangCase {
	tc := gangCase{problem: p}
	for n := range p.Nodes {
		var free resources
		for _, amount := range p.Nodes[n].Free {
			free = append(free, int(amount))
		}
		tc.capacity = append(tc.capacity, free)
	}
	for _, class := range p.Pods {
		var requests resources
		for _, amount := range p.Classes[class].Requests {
			requests = append(requests, int(amount))
		}
		tc.requests = append(tc.requests, requests)
	}
	return tc
}

// drawLevels makes three levels, broad to narrow, that may or may not nest.
func drawLevels(choose chooser, nodes int) []*topology.Level {
	nest := choose(3, "levels nest") > 0
	sizes := []int{2, 3, 4}
	levels := make([]*topology.Level, len(sizes))
	for i := range levels {
		levels[i] = &topology.Level{Key: fmt.Sprintf("level-%d", i)}
		for d := range sizes[i] {
			levels[i].Values = append(levels[i].Values, fmt.Sprintf("domain-%d", d))
		}
	}
	for range nodes {
		narrow := choose(sizes[2], "domain")
		of := []int{narrow / 2, narrow * 3 / 4, narrow}
		for i := range levels {
			d := int32(of[i])
			if !nest {
				d = int32(choose(sizes[i], "domain"))
			}
			if choose(10, "label") == 0 {
				d = topology.None
			}
			levels[i].Of = append(levels[i].Of, d)
		}
	}
	return levels
}

// drawScopes makes a gang, up to two group configs and up to three groups, which
// may require a level and prefer narrower ones.
func drawScopes(choose chooser, p *Problem, levels []*topology.Level) {
	for _, name := range []string{"gang", "config-0", "config-1", "group-0", "group-1", "group-2"} {
		s := Scope{Name: name}
		required := -1
		if choose(3, "required") == 0 {
			required = choose(len(levels), "required level")
			s.Required = levels[required]
		}
		if choose(3, "preferred") == 0 {
			for i := len(levels) - 1 - choose(2, "preferred level"); i > required; i-- {
				s.Preferred = append(s.Preferred, levels[i])
			}
		}
		p.Scopes = append(p.Scopes, s)
	}
}

// drawClasses makes a class for each of up to three groups.
func drawClasses(choose chooser, p *Problem) {
	split := choose(3, "groups in the first config")
	for group := range 1 + choose(3, "classes") {
		c := Class{
			Weight: float64(choose(3, "weight")), Scopes: []int{0, 1, 3 + group}, Unit: int32(choose(2, "unit")),
			Domain: topology.None, Channel: topology.None, RDMA: choose(4, "RDMA") > 0,
			Requests: []int64{int64(choose(3, "CPUs")), int64(choose(4, "GPUs"))},
		}
		if group > split {
			c.Scopes[1] = 2
		}
		if choose(2, "ComputeDomain") == 0 {
			c.Domain = 0
		}
		c.G = float64(c.Requests[1])
		for n := range p.Nodes {
			if choose(8, "eligible") > 0 {
				c.Nodes = append(c.Nodes, n)
			}
		}
		p.Classes = append(p.Classes, c)
	}
}

// outcome is what is best about a problem.
type outcome struct {
	exists bool
	missed []int
	time   float64
}

// exhaust looks at all placements.
func (tc gangCase) exhaust() outcome {
	p := tc.problem
	free := make([]resources, len(tc.capacity))
	for n := range free {
		free[n] = slices.Clone(tc.capacity[n])
	}
	best := outcome{time: math.Inf(1)}
	at := make([]int, len(p.Pods))
	var try func(pod int)
	try = func(pod int) {
		if pod == len(at) {
			if !obeys(p, at) {
				return
			}
			r := rated(p, at)
			if r.Infeasible {
				return
			}
			missed := missedBy(p, at)
			d := -1
			if best.exists {
				d = slices.Compare(missed, best.missed)
			}
			if d < 0 || d == 0 && r.Time < best.time {
				best = outcome{exists: true, missed: missed, time: r.Time}
			}
			return
		}
		class := p.Pods[pod]
		twin := -1
		for other := range pod {
			if p.Pods[other] == class {
				twin = other
			}
		}
		for _, n := range p.Classes[class].Nodes {
			if twin >= 0 && n < at[twin] {
				continue // the same with the two exchanged
			}
			if !roomFor(free[n], tc.requests[pod]) {
				continue
			}
			take(free[n], tc.requests[pod], 1)
			at[pod] = n
			try(pod + 1)
			take(free[n], tc.requests[pod], -1)
		}
	}
	try(0)
	return best
}

func roomFor(free, requests resources) bool {
	for kind, amount := range requests {
		if amount > 0 && free[kind] < amount {
			return false
		}
	}
	return true
}

func take(free, requests resources, n int) {
	for kind, amount := range requests {
		free[kind] -= n * amount
	}
}

// nodesOf returns the nodes of the pods and of the bound members of a scope.
func nodesOf(p *Problem, scope int, at []int) (pods, pins []int) {
	for pod, n := range at {
		if slices.Contains(p.Classes[p.Pods[pod]].Scopes, scope) {
			pods = append(pods, n)
		}
	}
	for _, pin := range p.Pins {
		if slices.Contains(pin.Scopes, scope) {
			pins = append(pins, pin.Member.Node)
		}
	}
	return pods, pins
}

// obeys reports whether a placement does what all scopes require.
func obeys(p *Problem, at []int) bool {
	for i := range p.Scopes {
		level := p.Scopes[i].Required
		if level == nil {
			continue
		}
		pods, pins := nodesOf(p, i, at)
		var bound []int32
		for _, n := range pins {
			if level.Of[n] != topology.None {
				bound = append(bound, level.Of[n])
			}
		}
		for _, n := range pods {
			if level.Of[n] == topology.None || len(bound) > 0 && !slices.Contains(bound, level.Of[n]) ||
				len(bound) == 0 && level.Of[n] != level.Of[pods[0]] {
				return false
			}
		}
	}
	return true
}

// missedBy counts the preferred levels that a placement misses, by how many scopes
// contain the one that prefers them.
func missedBy(p *Problem, at []int) []int {
	has := func(scope, class int) bool {
		return slices.Contains(p.Pods, class) && slices.Contains(p.Classes[class].Scopes, scope)
	}
	depth := make([]int, len(p.Scopes))
	missed := make([]int, 8)
	for i := range p.Scopes {
		pods, pins := nodesOf(p, i, at)
		if len(pods) == 0 {
			continue
		}
		for j := range i {
			contains, some := true, false
			for class := range p.Classes {
				some = some || has(j, class)
				contains = contains && (has(j, class) || !has(i, class))
			}
			if contains && some {
				depth[i] = max(depth[i], depth[j]+1)
			}
		}
		for _, level := range p.Scopes[i].Preferred {
			all := append(slices.Clone(pods), pins...)
			if level.Of[all[0]] != topology.None && !slices.ContainsFunc(all, func(n int) bool { return level.Of[n] != level.Of[all[0]] }) {
				break
			}
			missed[depth[i]]++
		}
	}
	return missed
}

// rated returns the time of a placement.
func rated(p *Problem, at []int) score.Result {
	var members []score.Member
	for _, pin := range p.Pins {
		members = append(members, pin.Member)
	}
	for pod, n := range at {
		c := &p.Classes[p.Pods[pod]]
		members = append(members, score.Member{
			Node: n, G: c.G, Unit: c.Unit, Domain: c.Domain, Channel: c.Channel, RDMA: c.RDMA, Align: 1,
		})
	}
	return p.Model.Rate(members, p.Facts)
}
