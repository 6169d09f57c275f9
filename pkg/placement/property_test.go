// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// largeBudget is more than any search in these tests can use.
const largeBudget = 1 << 22

// anyCase is a small random problem, and the cluster for it.
type anyCase struct {
	problem  *Problem
	requests []resources
	capacity []resources
}

func drawCase(t *rapid.T, maxNodes, maxPods, maxClasses int) anyCase {
	kinds := rapid.IntRange(1, 2).Draw(t, "kinds of resources")
	amounts := func(limit int) *rapid.Generator[resources] {
		return rapid.Custom(func(t *rapid.T) resources {
			return resources(rapid.SliceOfN(rapid.IntRange(0, limit), kinds, kinds).Draw(t, "amounts"))
		})
	}
	capacity := rapid.SliceOfN(amounts(6), 1, maxNodes).Draw(t, "nodes")
	all := make([]int, len(capacity))
	for n := range all {
		all[n] = n
	}
	classes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Class {
		order := rapid.Permutation(all).Draw(t, "order")
		eligible := rapid.SliceOfN(rapid.Bool(), len(all), len(all)).Draw(t, "eligible")
		return Class{
			Weight: float64(rapid.IntRange(0, 3).Draw(t, "weight")),
			Nodes:  slices.DeleteFunc(order, func(n int) bool { return !eligible[n] }),
		}
	}), 1, maxClasses).Draw(t, "classes")
	byClass := rapid.SliceOfN(amounts(4), len(classes), len(classes)).Draw(t, "requests")
	p := &Problem{
		Classes: classes,
		Pods:    rapid.SliceOfN(rapid.IntRange(0, len(classes)-1), 0, maxPods).Draw(t, "pods"),
		Budget:  largeBudget,
	}
	return anyCase{problem: p, requests: requestsOf(p, byClass...), capacity: capacity}
}

// most returns how many of the pods can be placed together at best, by trying
// everything, and stops at the first way to place all. Classes play no part.
func (c anyCase) most(pods []int) int {
	free := make([]resources, len(c.capacity))
	for n := range free {
		free[n] = slices.Clone(c.capacity[n])
	}
	var try func(rest []int) int
	try = func(rest []int) int {
		if len(rest) == 0 {
			return 0
		}
		pod := rest[0]
		best := 0
		for _, node := range c.problem.Classes[c.problem.Pods[pod]].Nodes {
			fits := true
			for kind, amount := range c.requests[pod] {
				fits = fits && free[node][kind] >= amount
			}
			if !fits {
				continue
			}
			for kind, amount := range c.requests[pod] {
				free[node][kind] -= amount
			}
			best = max(best, 1+try(rest[1:]))
			for kind, amount := range c.requests[pod] {
				free[node][kind] += amount
			}
			if best == len(rest) {
				return best
			}
		}
		return max(best, try(rest[1:]))
	}
	return try(pods)
}

func (c anyCase) podsOf(accept func(class int) bool) []int {
	var pods []int
	for pod, class := range c.problem.Pods {
		if accept(class) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func TestSearchFindsAPlacementExactlyWhenThereIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tc := drawCase(t, 6, 6, 3)
		all := tc.podsOf(func(int) bool { return true })
		c := newFakeCluster(t, tc.problem, tc.requests, tc.capacity)
		solution, shortage := Search(tc.problem, c)
		if exists := tc.most(all) == len(all); exists != (shortage == nil) {
			t.Fatalf("a placement exists: %v; got %+v, shortage %+v", exists, solution, shortage)
		}
		if shortage == nil {
			c.expectPlaced(t, tc.problem, solution.Nodes)
			return
		}
		c.expectEmpty(t, tc.capacity)
		if shortage.Exhausted {
			t.Fatalf("the budget of %d is said to be exhausted after %d", largeBudget, shortage.Tried)
		}
		own := tc.podsOf(func(class int) bool { return class == shortage.Class })
		if shortage.Wanted != len(own) || shortage.Placed >= shortage.Wanted {
			t.Fatalf("got shortage %+v for a class of %d pods", shortage, len(own))
		}
		if alone := tc.most(own); shortage.Alone && shortage.Placed != alone {
			t.Fatalf("alone, %d pods of class %d fit; got shortage %+v", alone, shortage.Class, shortage)
		}
		if shortage.Alone {
			return
		}
		for class := range tc.problem.Classes {
			own := tc.podsOf(func(c int) bool { return c == class })
			if tc.most(own) < len(own) {
				t.Fatalf("class %d does not fit alone; got shortage %+v", class, shortage)
			}
		}
	})
}

func TestSearchWherePodsInteractFindsAPlacementExactlyWhenThereIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tc := drawCase(t, 3, 4, 2)
		tc.problem.Interacts = true
		spread := maxSkew(rapid.IntRange(1, 2).Draw(t, "skew"))
		// Pods of this class go only where one of another class is.
		follower := rapid.IntRange(-1, len(tc.problem.Classes)-1).Draw(t, "class with affinity to the others")
		admits := func(c *fakeCluster, pod, node int) bool {
			if !spread(c, pod, node) {
				return false
			}
			if tc.problem.Pods[pod] != follower {
				return true
			}
			for i, other := range c.placed {
				if c.on[i] == node && tc.problem.Pods[other] != follower {
					return true
				}
			}
			return false
		}
		cluster := newFakeCluster(t, tc.problem, tc.requests, tc.capacity)
		cluster.admits = admits
		want := tc.existsInAnyOrder(cluster)
		cluster.expectEmpty(t, tc.capacity)
		solution, shortage := Search(tc.problem, cluster)
		if want != (shortage == nil) {
			t.Fatalf("a placement exists: %v; got %+v, shortage %+v", want, solution, shortage)
		}
		if shortage != nil {
			cluster.expectEmpty(t, tc.capacity)
			if shortage.Exhausted || shortage.Placed >= shortage.Wanted {
				t.Fatalf("got shortage %+v", shortage)
			}
			own := tc.podsOf(func(class int) bool { return class == shortage.Class })
			if shortage.Alone && tc.most(own) != shortage.Placed {
				t.Fatalf("got shortage %+v, but %d pods of the class have room", shortage, tc.most(own))
			}
			return
		}
		cluster.expectPlaced(t, tc.problem, solution.Nodes)
	})
}

// existsInAnyOrder tries every order of the pods on every node.
func (c anyCase) existsInAnyOrder(cluster *fakeCluster) bool {
	if len(cluster.placed) == len(c.problem.Pods) {
		return true
	}
	for pod, class := range c.problem.Pods {
		if slices.Contains(cluster.placed, pod) {
			continue
		}
		for _, node := range c.problem.Classes[class].Nodes {
			undo, fits := cluster.Place(pod, node)
			if !fits {
				continue
			}
			found := c.existsInAnyOrder(cluster)
			undo()
			if found {
				return true
			}
		}
	}
	return false
}

func TestFillLeavesNothingOutThatWouldStillFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tc := drawCase(t, 6, 6, 3)
		c := newFakeCluster(t, tc.problem, tc.requests, tc.capacity)
		pods := tc.podsOf(func(int) bool { return true })
		for i, node := range Fill(tc.problem, c, pods, nil) {
			if node >= 0 {
				if !slices.Contains(tc.problem.Classes[tc.problem.Pods[pods[i]]].Nodes, node) {
					t.Fatalf("pod %d is on node %d, which its class may not use", pods[i], node)
				}
				continue
			}
			for _, node := range tc.problem.Classes[tc.problem.Pods[pods[i]]].Nodes {
				if _, fits := c.Place(pods[i], node); fits {
					t.Fatalf("pod %d was left out and fits on node %d", pods[i], node)
				}
			}
		}
	})
}
