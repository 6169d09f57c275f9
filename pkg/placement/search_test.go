// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// problemOf makes a problem of classes with count[i] pods each.
func problemOf(classes []Class, count ...int) *Problem {
	p := &Problem{Classes: classes, Budget: 10000}
	for class, n := range count {
		for range n {
			p.Pods = append(p.Pods, class)
		}
	}
	return p
}

// requestsOf returns the requests of each pod, from those of the classes.
func requestsOf(p *Problem, byClass ...resources) []resources {
	requests := make([]resources, len(p.Pods))
	for pod, class := range p.Pods {
		requests[pod] = byClass[class]
	}
	return requests
}

func TestSearch(t *testing.T) {
	for _, tc := range []struct {
		name     string
		classes  []Class
		count    []int
		requests []resources
		capacity []resources
		// atOnce: found without reconsidering a choice.
		atOnce   bool
		want     []int
		shortage *Shortage
	}{
		{
			name:     "no pods need no nodes",
			classes:  []Class{},
			capacity: []resources{{1}},
			want:     []int{},
		},
		{
			name:     "one class fills the nodes in its own order",
			classes:  []Class{{Nodes: []int{2, 0, 1}}},
			count:    []int{5},
			requests: []resources{{2}},
			capacity: []resources{{4}, {4}, {5}},
			atOnce:   true,
			want:     []int{2, 2, 0, 0, 1},
		},
		{
			name:     "every resource counts",
			classes:  []Class{{Nodes: []int{0, 1}}},
			count:    []int{3},
			requests: []resources{{1, 3}},
			capacity: []resources{{8, 4}, {2, 8}},
			want:     []int{0, 1, 1},
		},
		{
			name: "the heaviest class is placed first",
			classes: []Class{
				{Weight: 1, Nodes: []int{0, 1}},
				{Weight: 8, Nodes: []int{0, 1}},
			},
			count:    []int{1, 1},
			requests: []resources{{1}, {8}},
			capacity: []resources{{8}, {1}},
			atOnce:   true,
			want:     []int{1, 0},
		},
		{
			name: "of equal weight, the class with fewer nodes is placed first",
			classes: []Class{
				{Weight: 1, Nodes: []int{0, 1}},
				{Weight: 1, Nodes: []int{0}},
			},
			count:    []int{1, 1},
			requests: []resources{{4}, {4}},
			capacity: []resources{{4}, {4}},
			atOnce:   true,
			want:     []int{1, 0},
		},
		{
			name: "a first choice that leaves no room for the others is reconsidered",
			classes: []Class{
				{Weight: 2, Nodes: []int{0, 1}},
				{Weight: 1, Nodes: []int{0}},
			},
			count:    []int{1, 1},
			requests: []resources{{4}, {4}},
			capacity: []resources{{4}, {4}},
			want:     []int{1, 0},
		},
		{
			name: "several choices in a row are reconsidered",
			classes: []Class{
				{Weight: 3, Nodes: []int{0, 1, 2}},
				{Weight: 2, Nodes: []int{0, 1}},
				{Weight: 1, Nodes: []int{0}},
			},
			count:    []int{2, 1, 1},
			requests: []resources{{2}, {2}, {4}},
			capacity: []resources{{4}, {2}, {4}},
			want:     []int{2, 2, 1, 0},
		},
		{
			name: "a class that does not fit alone is named, with what fits",
			classes: []Class{
				{Weight: 2, Nodes: []int{0, 1}},
				{Weight: 1, Nodes: []int{1}},
			},
			count:    []int{1, 3},
			requests: []resources{{4}, {2}},
			capacity: []resources{{4}, {4}},
			shortage: &Shortage{Class: 1, Placed: 2, Wanted: 3, Alone: true, Scope: -1, Domain: topology.None},
		},
		{
			name: "what a class gets alone is not less for the room others took",
			classes: []Class{
				{Weight: 2, Nodes: []int{0}},
				{Weight: 1, Nodes: []int{0, 1}},
			},
			count:    []int{1, 5},
			requests: []resources{{3}, {1}},
			capacity: []resources{{3}, {1}},
			shortage: &Shortage{Class: 1, Placed: 4, Wanted: 5, Alone: true, Scope: -1, Domain: topology.None},
		},
		{
			name:     "a class without nodes does not fit alone",
			classes:  []Class{{Nodes: nil}},
			count:    []int{2},
			requests: []resources{{0}},
			capacity: []resources{{1}},
			shortage: &Shortage{Class: 0, Placed: 0, Wanted: 2, Alone: true, Scope: -1, Domain: topology.None},
		},
		{
			name: "classes that fit alone and not together are a joint shortage",
			classes: []Class{
				{Weight: 2, Nodes: []int{0, 1}},
				{Weight: 1, Nodes: []int{0, 1}},
			},
			count:    []int{2, 3},
			requests: []resources{{3}, {2}},
			capacity: []resources{{4}, {4}},
			shortage: &Shortage{Class: 1, Placed: 0, Wanted: 3, Scope: -1, Domain: topology.None},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := problemOf(tc.classes, tc.count...)
			if tc.atOnce {
				p.Budget = 0
			}
			c := newFakeCluster(t, p, requestsOf(p, tc.requests...), tc.capacity)
			if tc.shortage != nil && !tc.shortage.Alone {
				// A joint shortage: each class must fit alone.
				for class := range tc.classes {
					alone := problemOf(tc.classes, 0, 0)
					alone.Pods = slices.DeleteFunc(slices.Clone(p.Pods), func(c int) bool { return c != class })
					if _, shortage := Search(alone, newFakeCluster(t, alone, requestsOf(alone, tc.requests...), tc.capacity)); shortage != nil {
						t.Fatalf("class %d does not fit alone: %+v", class, shortage)
					}
				}
			}
			solution, shortage := Search(p, c)
			if tc.shortage != nil {
				if shortage == nil {
					t.Fatalf("got %+v, want shortage %+v", solution, tc.shortage)
				}
				if solution != nil {
					t.Errorf("got %+v with a shortage", solution)
				}
				if shortage.Tried != c.calls {
					t.Errorf("%d placements are reported and %d were tried", shortage.Tried, c.calls)
				}
				got := *shortage
				got.Tried = 0
				if diff := cmp.Diff(*tc.shortage, got); diff != "" {
					t.Errorf("shortage (-want +got):\n%s", diff)
				}
				c.expectEmpty(t, tc.capacity)
				return
			}
			if shortage != nil {
				t.Fatalf("got shortage %+v, want nodes %v", shortage, tc.want)
			}
			if diff := cmp.Diff(tc.want, solution.Nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			c.expectPlaced(t, p, solution.Nodes)
		})
	}
}

// tight is a problem whose classes fit alone and not together, for which the
// search needs many placements to find out.
func tight() (p *Problem, requests, capacity []resources) {
	every := []int{0, 1, 2, 3}
	p = problemOf([]Class{{Weight: 2, Nodes: every}, {Weight: 1, Nodes: every}}, 4, 5)
	return p, requestsOf(p, resources{3}, resources{2}), []resources{{5}, {5}, {5}, {5}}
}

func TestSearchWithinItsBudget(t *testing.T) {
	p, requests, capacity := tight()
	p.Budget = 1 << 20
	_, complete := Search(p, newFakeCluster(t, p, requests, capacity))
	if complete == nil || complete.Exhausted || complete.Alone {
		t.Fatalf("with a large budget got %+v, want a joint shortage that is not cut short", complete)
	}

	p.Budget = 0
	_, unreconsidered := Search(p, newFakeCluster(t, p, requests, capacity))
	for budget := range complete.Tried {
		c := newFakeCluster(t, p, requests, capacity)
		p.Budget = budget
		_, shortage := Search(p, c)
		if shortage == nil {
			t.Fatalf("budget %d: found a placement where there is none", budget)
		}
		c.expectEmpty(t, capacity)
		if shortage.Tried != c.calls {
			t.Errorf("budget %d: %d placements are reported and %d were tried", budget, shortage.Tried, c.calls)
		}
		if want := min(unreconsidered.Tried+budget, complete.Tried); shortage.Tried != want {
			t.Errorf("budget %d: tried %d placements, want %d: those before anything is reconsidered and the budget", budget, shortage.Tried, want)
		}
		if cut := shortage.Tried < complete.Tried; cut != shortage.Exhausted {
			t.Errorf("budget %d: tried %d of %d placements, and Exhausted is %v", budget, shortage.Tried, complete.Tried, shortage.Exhausted)
		}
	}
}

func TestSearchFindsNothingOnceItsBudgetIsExhausted(t *testing.T) {
	// One reconsidered choice leads to the placement, which a budget of 1 cannot.
	p := problemOf([]Class{{Weight: 2, Nodes: []int{0, 1}}, {Weight: 1, Nodes: []int{0}}}, 1, 1)
	capacity := []resources{{4}, {4}}
	requests := requestsOf(p, resources{4}, resources{4})

	p.Budget = 1
	c := newFakeCluster(t, p, requests, capacity)
	if solution, shortage := Search(p, c); shortage == nil || !shortage.Exhausted {
		t.Errorf("budget 1: got %+v, shortage %+v; want an exhausted budget", solution, shortage)
	}
	c.expectEmpty(t, capacity)

	p.Budget = 10
	c = newFakeCluster(t, p, requests, capacity)
	solution, shortage := Search(p, c)
	if shortage != nil {
		t.Fatalf("budget 10: got shortage %+v", shortage)
	}
	c.expectPlaced(t, p, solution.Nodes)
}

func TestSearchWherePodsInteract(t *testing.T) {
	t.Run("a spread that the order of one class decides is found", func(t *testing.T) {
		// Node 0 is preferred and may only ever be one ahead of node 1.
		p := problemOf([]Class{{Nodes: []int{0, 1}}}, 5)
		p.Interacts = true
		c := newFakeCluster(t, p, requestsOf(p, resources{1}), []resources{{8}, {8}})
		c.admits = maxSkew(1)
		solution, shortage := Search(p, c)
		if shortage != nil {
			t.Fatalf("got shortage %+v", shortage)
		}
		c.expectPlaced(t, p, solution.Nodes)
	})
	t.Run("a shortage is not put down to one class", func(t *testing.T) {
		p := problemOf([]Class{{Nodes: []int{0}}}, 2)
		p.Interacts = true
		capacity := []resources{{8}, {8}}
		c := newFakeCluster(t, p, requestsOf(p, resources{1}), capacity)
		c.admits = maxSkew(1)
		_, shortage := Search(p, c)
		if shortage == nil {
			t.Fatal("found a placement where there is none")
		}
		want := Shortage{Class: 0, Placed: 1, Wanted: 2, Scope: -1, Domain: topology.None, Tried: shortage.Tried}
		if diff := cmp.Diff(want, *shortage); diff != "" {
			t.Errorf("shortage (-want +got):\n%s", diff)
		}
		c.expectEmpty(t, capacity)
	})
	t.Run("a heavy pod that must follow a light one is placed after it", func(t *testing.T) {
		const leader, follower = 0, 1
		p := problemOf([]Class{{Weight: 1, Nodes: []int{0, 1}}, {Weight: 8, Nodes: []int{0, 1}}}, 1, 1)
		p.Interacts = true
		c := newFakeCluster(t, p, requestsOf(p, resources{1}, resources{1}), []resources{{8}, {8}})
		// Affinity: the follower goes where the leader is.
		c.admits = func(c *fakeCluster, pod, node int) bool {
			at := slices.Index(c.placed, leader)
			return pod != follower || at >= 0 && c.on[at] == node
		}
		solution, shortage := Search(p, c)
		if shortage != nil {
			t.Fatalf("got shortage %+v; the leader first, then the follower, fits", shortage)
		}
		c.expectPlaced(t, p, solution.Nodes)
	})
}

func TestFill(t *testing.T) {
	for _, tc := range []struct {
		name      string
		classes   []Class
		pods      []int
		interacts bool
		requests  []resources
		capacity  []resources
		admits    func(*fakeCluster, int, int) bool
		fill      []int
		want      []int
	}{
		{
			name:     "what does not fit is left out, the rest is placed",
			classes:  []Class{{Nodes: []int{0, 1}}},
			pods:     []int{0, 0, 0, 0},
			requests: []resources{{2}},
			capacity: []resources{{3}, {4}},
			fill:     []int{0, 1, 2, 3},
			want:     []int{0, 1, 1, -1},
		},
		{
			name:     "a class that does not fit does not keep another out",
			classes:  []Class{{Nodes: []int{0}}, {Nodes: []int{0}}},
			pods:     []int{0, 1, 0, 1},
			requests: []resources{{9}, {2}},
			capacity: []resources{{4}},
			fill:     []int{0, 1, 2, 3},
			want:     []int{-1, 0, -1, 0},
		},
		{
			name:     "only the given pods are placed, in their order",
			classes:  []Class{{Nodes: []int{0, 1}}},
			pods:     []int{0, 0, 0, 0},
			requests: []resources{{1}},
			capacity: []resources{{1}, {1}},
			fill:     []int{3, 1},
			want:     []int{0, 1},
		},
		{
			name:     "no pods",
			classes:  []Class{{Nodes: []int{0}}},
			pods:     []int{0},
			requests: []resources{{1}},
			capacity: []resources{{1}},
			fill:     nil,
			want:     []int{},
		},
		{
			name:      "where pods interact, a node that refused one may take the next",
			classes:   []Class{{Nodes: []int{0, 1}}},
			pods:      []int{0, 0, 0, 0},
			interacts: true,
			requests:  []resources{{1}},
			capacity:  []resources{{9}, {9}},
			admits:    maxSkew(1),
			fill:      []int{0, 1, 2, 3},
			want:      []int{0, 1, 0, 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Problem{Classes: tc.classes, Pods: tc.pods, Interacts: tc.interacts}
			c := newFakeCluster(t, p, requestsOf(p, tc.requests...), tc.capacity)
			c.admits = tc.admits
			got := Fill(p, c, tc.fill, nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			placed := 0
			for i, node := range got {
				if node < 0 {
					continue
				}
				placed++
				if at := slices.Index(c.placed, tc.fill[i]); at < 0 || c.on[at] != node {
					t.Errorf("pod %d is said to be on node %d; placed are %v on %v", tc.fill[i], node, c.placed, c.on)
				}
			}
			if placed != len(c.placed) {
				t.Errorf("%d pods are reported placed, %d are", placed, len(c.placed))
			}
		})
	}
}
