// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"math"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// measure reads what the classes ask for and what the nodes have of it.
func (w *world) measure() {
	for _, c := range w.classes {
		if c.demand == nil {
			claimOf := w.claim
			if c.bound {
				claimOf = w.claimUnallocated
			}
			c.demand = demandOf(w.pl.args, c.pod, w, claimOf)
		}
		w.room.add(c.demand)
		if c.demand.hasDomain() {
			w.room.addList(w.pl.args.ComputeDomains.DaemonRequests)
		}
	}
	w.room.settle()
	for _, c := range w.classes {
		c.requests = w.room.requests(c.demand)
		if c.demand.hasDomain() && c.demand.channel == "" {
			addAmounts(c.requests, w.room.daemon(w.pl.args.ComputeDomains.DaemonRequests))
		}
	}
}

// takeStock counts what the nodes have. The columns of the room must not change any
// more.
func (w *world) takeStock() {
	priority := int32(math.MinInt32)
	for _, m := range w.members {
		priority = max(priority, corev1helpers.PodPriority(m.pod))
	}
	domains := make(map[string]bool)
	for _, c := range w.classes {
		if c.demand.domainUID != "" {
			domains[c.demand.domainUID] = true
		}
	}
	columns := len(w.room.columns)
	w.room.count(w.session)
	w.stock = w.pl.scratch.stock.zeroed(len(w.nodes))
	w.nominated = w.pl.scratch.flags.zeroed(len(w.nodes))
	amounts := w.pl.scratch.amounts.zeroed(2 * columns * len(w.nodes))
	for n, node := range w.nodes {
		var nominated []v1.ResourceList
		for _, info := range w.pl.handle.NominatedPodsForNode(node.Node().Name) {
			w.nominated[n] = true
			if corev1helpers.PodPriority(info.GetPod()) >= priority {
				nominated = append(nominated, requestsOf(info.GetPod()))
			}
		}
		at := 2 * columns * n
		w.stock[n].Free, w.stock[n].Total = amounts[at:at+columns:at+columns], amounts[at+columns:at+2*columns:at+2*columns]
		w.room.stock(node, nominated, w.stock[n].Free, w.stock[n].Total)
		if len(domains) > 0 && domains[node.Node().Labels[labelComputeDomain]] {
			// Its daemon is there already.
			addAmounts(w.stock[n].Free, w.room.daemon(w.pl.args.ComputeDomains.DaemonRequests))
		}
	}
}

// take notes that a pod with these requests is on a node, or with -1 that it is not
// any more.
func (w *world) take(n int, requests []int64, times int64) {
	used := w.used[n]
	if used == nil {
		used = make([]int64, len(requests))
		w.used[n] = used
	}
	for i, amount := range requests {
		used[i] += amount * times
	}
}

// Count returns how many pods of a class a node can take beside those placed on it,
// at most.
func (w *world) Count(class, n int) int {
	c, used := w.classes[class], w.used[n]
	count := unlimited
	if c.demand.most > 0 {
		count = int64(c.demand.most)
	}
	for i, amount := range c.requests {
		if amount == 0 {
			continue
		}
		left := w.stock[n].Free[i]
		if used != nil {
			left -= used[i]
		}
		count = min(count, max(0, left/amount))
	}
	for _, choice := range c.demand.choices {
		all := int64(0)
		for i := range choice {
			_, free := w.session.Supply(w.nodes[n].Node().Name, choice[i].want)
			all += free / choice[i].count
		}
		count = min(count, all)
	}
	return int(min(count, math.MaxInt32))
}
