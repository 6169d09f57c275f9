// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"slices"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/placement"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// plan is a place for every member of a floor, and for as many extras as there
// is room for.
type plan struct {
	placements  []gang.Placement
	allocations []*gangresources.Allocation
	session     *gangresources.Session
	// score is the placement score of the gang, members that have a place included.
	score float64
}

// plan looks for nodes and devices for the gang, in the scheduling cycle of its
// leader. Nothing is reserved yet. Either a plan, or a refusal, or an error that
// has nothing to do with the gang is returned.
func (pl *Plugin) plan(ctx context.Context, snapshot gang.Snapshot) (*plan, *refusal, error) {
	w, err := pl.newWorld(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, group := range snapshot.Groups {
		for _, pod := range group.Floors {
			if err := w.addMember(group.Name, pod, true); err != nil {
				return nil, nil, err
			}
		}
	}
	floor := len(w.members)
	if floor == 0 {
		return nil, nil, fmt.Errorf("no member of PodGang %s is to be placed", snapshot.Key)
	}
	if !pl.floorsFirst(snapshot.Key, snapshot.Groups) {
		for _, group := range snapshot.Groups {
			for _, pod := range group.Extras {
				if err := w.addMember(group.Name, pod, false); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	for _, m := range w.members {
		// What an earlier attempt has nominated would count against this plan.
		pl.handle.DeleteNominatedPodIfExists(m.pod)
	}
	if err := w.lay(ctx, snapshot); err != nil {
		return nil, nil, err
	}
	if r := w.refusedClass(snapshot.Key, floor); r != nil {
		// Room is not what it waits for.
		pl.openKept(ctx, snapshot.Key)
		return nil, r, nil
	}
	reuse, ignored := pl.placesToReuse(snapshot)
	pl.reports.ReuseIgnored(snapshot.Key, ignored)
	w.prefer(reuse)
	problem := w.problem()
	floors := problem
	floors.Pods = problem.Pods[:floor]
	solution, shortage := w.search(&floors)
	if w.err != nil {
		return nil, nil, w.err
	}
	if shortage != nil {
		r := w.refusal(snapshot.Key, shortage)
		r.message += pl.starve(w, snapshot.Key, &floors)
		return nil, r, nil
	}
	extras := make([]int, 0, len(problem.Pods)-floor)
	for pod := floor; pod < len(problem.Pods); pod++ {
		extras = append(extras, pod)
	}
	nodes := append(slices.Clone(solution.Nodes), placement.Fill(&problem, w, extras, solution)...)
	if w.err != nil {
		return nil, nil, w.err
	}
	p := w.result(nodes)
	p.score, err = w.rate(ctx, nodes)
	return p, nil, err
}

// begin reserves what the plan has chosen and starts the attempt.
func (pl *Plugin) begin(ctx context.Context, key gang.Key, p *plan) error {
	reservations, err := p.session.Reserve(p.allocations)
	if err != nil {
		return fmt.Errorf("reserve the devices of PodGang %s: %w", key, err)
	}
	for n := range p.placements {
		p.placements[n].Release = reservations[n].Release
	}
	pl.nominate(ctx, p.placements)
	attempt, err := pl.index.Begin(key, p.placements)
	if err != nil {
		for _, placement := range p.placements {
			pl.release(ctx, gang.Leaver{Pod: placement.Pod, Release: placement.Release})
		}
		return err
	}
	pl.expireLater(context.WithoutCancel(ctx), attempt)
	return nil
}

// expireLater ends the time that members have to arrive. The index has the attempt for as
// long as it is under way. Most are over long before the timeout, and what they hold, the
// pods and what was reserved for them, is not to be kept in memory until then.
func (pl *Plugin) expireLater(ctx context.Context, attempt *gang.Attempt) {
	timeout, ongoing := pl.args.PermitTimeout.Duration, weak.Make(attempt)
	time.AfterFunc(timeout, func() {
		if attempt := ongoing.Value(); attempt != nil {
			pl.apply(ctx, pl.index.Expire(attempt, fmt.Sprintf("members did not arrive within %v", timeout)))
		}
	})
}

// nominate has the scheduler count the planned members on their nodes until they
// come there themselves, so that no other pod of the same or lower priority takes
// their CPU and memory. It is kept in memory, and the API not told.
func (pl *Plugin) nominate(ctx context.Context, placements []gang.Placement) {
	logger := klog.FromContext(ctx)
	for _, p := range placements {
		info, err := framework.NewPodInfo(p.Pod)
		if err != nil {
			continue
		}
		pl.handle.AddNominatedPod(logger, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: p.Node})
	}
}

// onNode returns the pod as it would be on the node, for a NodeInfo.
func onNode(pod *v1.Pod, node string) (fwk.PodInfo, error) {
	placed := *pod
	placed.Spec.NodeName = node
	return framework.NewPodInfo(&placed)
}
