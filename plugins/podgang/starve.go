// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"

	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/placement"
)

// A large gang needs much room at once, and small pods take it piece by piece: they are
// served whenever something comes free that is of no use to the gang alone. So when a
// gang has been refused for long, the nodes where it would fit if what comes after it
// had finished are kept for it (keeps.go, filter.go).

// starve is for a gang whose floor, the pods of the problem, has just found no room. It
// keeps nodes for the gang if that is due, or gives them back if they do not help. It
// returns what to add to the refusal.
func (pl *Plugin) starve(w *world, key gang.Key, floors *placement.Problem) string {
	started, order := time.Now(), pl.turnKey(w.members[0].pod)
	logger := klog.FromContext(w.ctx).WithValues("podGang", klog.KRef(key.Namespace, key.Name))
	since, due := pl.keeps.refused(key, order, started)
	if !due {
		return ""
	}
	kept := pl.keeps.nodesOf(key)
	found := w.outline(floors, kept, pl.goesFor(key, order))
	if found == nil && kept != nil {
		found = w.outline(floors, nil, pl.goesFor(key, order))
	}
	now := time.Now()
	switch {
	case found == nil:
		pl.keeps.postpone(key, now.Add(passPause*now.Sub(started)))
	case found.waits:
		if kept == nil {
			logger.Info("Keeps nodes for a gang that has waited for long", "nodes", len(found.nodes), "since", since)
		}
		if pl.keeps.keep(newKeep(key, order, since, found.nodes)) {
			pl.wakeRefused(logger)
		}
		return fmt.Sprintf("; %d %s kept for it", len(found.nodes), plural(len(found.nodes), "node"))
	default:
		// All that would finish has, and there is no room for it all the same.
		pl.keeps.postpone(key, now.Add(pl.keeps.after))
	}
	pl.openKept(w.ctx, key)
	return ""
}

// openKept opens the nodes that are kept for a gang, if any are, and has those tried
// again that were kept out.
func (pl *Plugin) openKept(ctx context.Context, key gang.Key) {
	if pl.keeps.open(key) {
		pl.wakeRefused(klog.FromContext(ctx))
	}
}

// forgetSated forgets why gangs wait that do not wait for room any more, and reports
// whether nodes are open that were kept for one.
func (pl *Plugin) forgetSated(changed []gang.Key) (opened bool) {
	for _, key := range changed {
		if pl.index.FloorWaits(key) {
			continue
		}
		pl.waits.clear(key)
		pl.turns.began(key)
		opened = pl.keeps.forget(key) || opened
	}
	return opened
}

// goesFor returns a function that reports whether a running pod comes after the gang
// and leaves room for it when it finishes. What is placed beyond a floor counts by its
// age like anything else.
func (pl *Plugin) goesFor(key gang.Key, order gang.SortKey) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool {
		if own, member := pl.index.GangOf(pod); member && own == key {
			return false
		}
		other := pl.turnKey(pod)
		other.Rank = order.Rank
		return !belongsToNode(pod) && other.Compare(order) > 0
	}
}

// outlined are nodes where a gang would fit.
type outlined struct {
	nodes sets.Set[string]
	// waits is set when something has to leave them first.
	waits bool
}

// outline looks for nodes where the pods of the problem would fit if those had left that
// go, among the given ones, nil for all; nil if there are none.
func (w *world) outline(floors *placement.Problem, among sets.Set[string], goes func(*v1.Pod) bool) *outlined {
	p := *floors
	p.Companions, p.Near = nil, nil
	p.Nodes, p.Classes = slices.Clone(w.stock), slices.Clone(p.Classes)
	leave := make([]int, len(w.nodes))
	for n, node := range w.nodes {
		if among == nil || among.Has(node.Node().Name) {
			p.Nodes[n].Free, leave[n] = w.without(n, goes)
		}
	}
	for i, c := range w.classes {
		p.Classes[i].Nodes = slices.DeleteFunc(slices.Clone(c.eligible), func(n int) bool {
			// A cordon does not end because pods do.
			refused, _ := c.filtered(n)
			return refused.plugin == nodeunschedulable.Name || among != nil && !among.Has(w.nodes[n].Node().Name)
		})
		slices.SortStableFunc(p.Classes[i].Nodes, func(a, b int) int { return cmp.Compare(leave[a], leave[b]) })
	}
	w.spreadOut(&p)
	solution, shortage := placement.Outline(&p)
	if shortage != nil {
		return nil
	}
	found := &outlined{nodes: sets.New[string]()}
	for _, n := range solution.Nodes {
		found.nodes.Insert(w.nodes[n].Node().Name)
		for i, free := range w.stock[n].Free {
			found.waits = found.waits || free < p.Nodes[n].Free[i]
		}
	}
	return found
}

// without returns what a node would have left if those of its pods had left that go,
// and how many they are. Which devices a pod holds is not known here: where one with
// claims stays, the devices count as they are.
func (w *world) without(n int, goes func(*v1.Pod) bool) (left []int64, leave int) {
	left = slices.Clone(w.stock[n].Total)
	for _, info := range w.nodes[n].GetPods() {
		pod := info.GetPod()
		if goes(pod) {
			leave++
			continue
		}
		requests := requestsOf(pod)
		claims := len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
		for i, c := range w.room.columns {
			switch {
			case c.resource != "":
				left[i] -= requestOf(requests, c.resource)
			case claims:
				left[i] = w.stock[n].Free[i]
			}
		}
	}
	return left, leave
}

// spreadOut has the figures of a problem obey, roughly, what they do not know: of pods
// that keep away from others a node takes one.
func (w *world) spreadOut(p *placement.Problem) {
	apart := func(c *class) bool {
		affinity := c.pod.Spec.Affinity
		return affinity != nil && affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
	}
	if !slices.ContainsFunc(w.classes, apart) {
		return
	}
	for n := range p.Nodes {
		p.Nodes[n].Free = append(slices.Clone(p.Nodes[n].Free), 1)
	}
	for i, c := range w.classes {
		one := int64(0)
		if apart(c) {
			one = 1
		}
		p.Classes[i].Requests = append(slices.Clone(p.Classes[i].Requests), one)
	}
}
