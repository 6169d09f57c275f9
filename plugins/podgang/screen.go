// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"cmp"
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// screen runs the profile's filters for the class on every node once.
func (w *world) screen(ctx context.Context, c *class) error {
	if c.screened {
		return nil
	}
	c.screened = true
	known, err := w.known(c)
	if err != nil {
		return err
	}
	c.state = framework.NewCycleState()
	gangresources.MarkPlanning(c.state)
	result, status, narrowing := w.pl.handle.(profile).RunPreFilterPlugins(ctx, c.state, w.asker(c.pod))
	narrowedBy := strings.Join(sets.List(narrowing), ",")
	switch {
	case status.IsSuccess():
	case status.IsRejected():
		c.refused = &nodeRefusal{plugin: cmp.Or(status.Plugin(), narrowedBy), reason: status.Message()}
		return nil
	default:
		return status.AsError()
	}
	if w.pl.screens.looksAround(c.state) {
		known = nil
	}
	answers := w.pl.scratch.answers.zeroed(len(w.nodes))
	w.pl.handle.Parallelizer().Until(ctx, len(w.nodes), func(n int) {
		if !result.AllNodes() && !result.NodeNames.Has(w.nodes[n].Node().Name) {
			answers[n] = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy plugin(s) "+narrowedBy).WithPlugin(narrowedBy)
			return
		}
		answers[n] = w.ask(ctx, c, n, known)
		if c.demand.hasDomain() && answers[n].IsSuccess() {
			answers[n] = admitsDomain(c.demand, w.nodes[n].Node())
		}
	}, Name)
	return w.sift(c, answers)
}

// sift files the answers of the filters.
func (w *world) sift(c *class, answers []*fwk.Status) error {
	c.eligible, c.nodes = w.pl.scratch.indices.take(len(w.nodes)), w.pl.scratch.indices.take(len(w.nodes))
	for n, status := range answers {
		if wouldDo(c.pod, w.nodes[n].Node(), status) {
			c.eligible = append(c.eligible, n)
		}
		switch {
		case status.IsSuccess():
			answers[n] = nil
		case status.IsRejected() && interacts(c.pod) && dependsOnPods(status.Plugin()):
			// Once others of the gang are placed, the node may do.
			answers[n] = nil
		case status.IsRejected():
		default:
			return status.AsError()
		}
	}
	c.answers = answers
	w.order(c)
	return nil
}

// filtered returns what the filters had against a node before anything was placed.
func (c *class) filtered(n int) (refusal nodeRefusal, refused bool) {
	if c.answers == nil || c.answers[n] == nil {
		return nodeRefusal{}, false
	}
	return nodeRefusal{plugin: c.answers[n].Plugin(), reason: c.answers[n].Message()}, true
}

// eligibleNodes returns the nodes that would do if nothing were on them, for a
// placement.Class, where nil stands for all that the class can use now.
func (c *class) eligibleNodes() []int {
	if c.eligible == nil {
		return []int{}
	}
	return c.eligible
}

// order lists the nodes of a class that passed: members that need devices go where
// fewest are free, so that large holes stay whole; members that need none go where there
// are none to waste. Nodes alike in that are in the order of their names.
func (w *world) order(c *class) {
	var tally *gangresources.Tally
	if deviceClass := w.firstDeviceClass(c.pod); deviceClass != "" {
		tally = w.session.Tally(gangresources.Want{Class: deviceClass})
	}
	ranks := w.pl.scratch.indices.zeroed(len(w.nodes))
	for _, n := range w.pl.landscape.byName {
		if c.answers[n] != nil {
			continue
		}
		c.nodes = append(c.nodes, n)
		name := w.nodes[n].Node().Name
		if tally != nil {
			_, ranks[n] = tally.Devices(name)
		} else if w.session.Publishes(name) {
			ranks[n] = 1
		}
	}
	slices.SortStableFunc(c.nodes, func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
}

// firstDeviceClass returns the DeviceClass of the first request of a pod, "" if
// it has no claim that still asks for devices.
func (w *world) firstDeviceClass(pod *v1.Pod) string {
	for i := range pod.Spec.ResourceClaims {
		spec := w.claimSpec(pod, &pod.Spec.ResourceClaims[i])
		if spec == nil {
			continue
		}
		for _, request := range spec.Devices.Requests {
			switch {
			case request.Exactly != nil:
				return request.Exactly.DeviceClassName
			case len(request.FirstAvailable) > 0:
				return request.FirstAvailable[0].DeviceClassName
			}
		}
	}
	return ""
}
