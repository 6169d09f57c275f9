// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// resources are amounts by kind.
type resources []int

// fakeCluster is a Cluster of nodes with integer capacities. It fails the test
// when choices are not taken back in reverse order.
type fakeCluster struct {
	t rapid.TB
	p *Problem
	// requests of each pod, free resources of each node.
	requests []resources
	free     []resources
	// requestsOfClass are those of classes that have no pods.
	requestsOfClass map[int]resources
	// admits is asked besides the capacities, nil for yes.
	admits func(c *fakeCluster, pod, node int) bool

	// placed lists the pods that are placed, in order, and on their nodes.
	placed []int
	on     []int
	// calls counts those of Place, counted those of Count, which is too high by slack.
	calls, counted, slack int
}

func newFakeCluster(t rapid.TB, p *Problem, requests, capacity []resources) *fakeCluster {
	c := &fakeCluster{t: t, p: p, requests: requests}
	for _, node := range capacity {
		c.free = append(c.free, slices.Clone(node))
	}
	return c
}

// Count looks at the capacities alone.
func (c *fakeCluster) Count(class, node int) int {
	requests := c.requestsOfClass[class]
	if pod := slices.Index(c.p.Pods, class); pod >= 0 {
		requests = c.requests[pod]
	}
	c.counted++
	most := 1000
	for kind, amount := range requests {
		if amount > 0 {
			most = min(most, c.free[node][kind]/amount)
		}
	}
	return most + c.slack
}

func (c *fakeCluster) Align(int) float64 { return 1 }

func (c *fakeCluster) Place(pod, node int) (func(), bool) {
	c.calls++
	if slices.Contains(c.placed, pod) {
		c.t.Fatalf("pod %d is placed a second time, on node %d", pod, node)
	}
	for kind, amount := range c.requests[pod] {
		if c.free[node][kind] < amount {
			return nil, false
		}
	}
	if c.admits != nil && !c.admits(c, pod, node) {
		return nil, false
	}
	for kind, amount := range c.requests[pod] {
		c.free[node][kind] -= amount
	}
	depth := len(c.placed)
	c.placed, c.on = append(c.placed, pod), append(c.on, node)
	return func() {
		if len(c.placed) != depth+1 || c.placed[depth] != pod {
			c.t.Fatalf("pod %d is taken off, but the pods placed are %v", pod, c.placed)
		}
		c.placed, c.on = c.placed[:depth], c.on[:depth]
		for kind, amount := range c.requests[pod] {
			c.free[node][kind] += amount
		}
	}, true
}

// expectEmpty fails the test unless the cluster is as it was made.
func (c *fakeCluster) expectEmpty(t rapid.TB, capacity []resources) {
	t.Helper()
	if len(c.placed) > 0 {
		t.Errorf("pods %v are left placed", c.placed)
	}
	if diff := cmp.Diff(capacity, c.free); diff != "" {
		t.Errorf("free resources differ from those at the start (-want +got):\n%s", diff)
	}
}

// expectPlaced fails the test unless the pods are placed where the result says,
// on nodes of their classes.
func (c *fakeCluster) expectPlaced(t rapid.TB, p *Problem, nodes []int) {
	t.Helper()
	if len(nodes) != len(p.Pods) {
		t.Fatalf("got nodes %v for %d pods", nodes, len(p.Pods))
	}
	actual := make([]int, len(p.Pods))
	for i := range actual {
		actual[i] = -1
	}
	for i, pod := range c.placed {
		actual[pod] = c.on[i]
	}
	if diff := cmp.Diff(actual, nodes); diff != "" {
		t.Errorf("the result differs from what is placed (-placed +result):\n%s", diff)
	}
	for pod, node := range nodes {
		if !slices.Contains(p.Classes[p.Pods[pod]].Nodes, node) {
			t.Errorf("pod %d of class %d is on node %d, which the class may not use", pod, p.Pods[pod], node)
		}
	}
	for node, free := range c.free {
		for kind, amount := range free {
			if amount < 0 {
				t.Errorf("node %d is over-committed by %d of resource %d", node, -amount, kind)
			}
		}
	}
}

// maxSkew admits a pod where its node then has at most skew pods more than the
// node with the fewest.
func maxSkew(skew int) func(*fakeCluster, int, int) bool {
	return func(c *fakeCluster, _, node int) bool {
		counts := make([]int, len(c.free))
		for _, n := range c.on {
			counts[n]++
		}
		return counts[node]+1-slices.Min(counts) <= skew
	}
}
