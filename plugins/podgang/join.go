// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// joinKey is where the cycle state of a member that joins has what its gang's placement
// score will be once it is bound.
const joinKey fwk.StateKey = Name + "/join"

type joined struct {
	key   gang.Key
	score float64
}

func (j joined) Clone() fwk.StateData { return j }

// join chooses the node of a member that joins a gang which has its floors: in the
// domains that the constraints and the members in their places leave open, and near
// those. Where that does not matter, the pod is scheduled like one in no gang.
//
// Nothing is reserved: the pod's own cycle goes on at once.
func (pl *Plugin) join(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	self := gang.Key{Namespace: pod.Namespace, Name: pod.Name}
	snapshot, ok := pl.index.JoinSnapshot(pod)
	if !ok {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "its gang has just changed")
	}
	if !pl.joinMatters(snapshot, pod) {
		pl.joins.clear(self)
		return nil, fwk.NewStatus(fwk.Skip)
	}
	pl.joins.set(self, pod, nil)
	started := time.Now()
	node, score, refusal, err := pl.placeOne(ctx, snapshot)
	pl.reports.ObservePlan(resultOf(refusal, err), time.Since(started))
	switch {
	case err != nil:
		return nil, fwk.AsStatus(fmt.Errorf("place pod %s of PodGang %s: %w", pod.Name, snapshot.Key, err))
	case refusal != nil:
		pl.joins.set(self, pod, refusal.blockers)
		if known := pl.getPod(pod.Namespace, pod.Name); known == nil || known.UID != pod.UID {
			pl.joins.clear(self) // it has gone meanwhile, and nobody would tell again
		}
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refusal.message)
	}
	pl.joins.clear(self)
	state.Write(joinKey, joined{key: snapshot.Key, score: score})
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
}

// joinMatters reports whether it matters where the pod is: its gang has constraints,
// or it may have accelerators.
func (pl *Plugin) joinMatters(snapshot gang.Snapshot, pod *v1.Pod) bool {
	if len(constraintsOf(&snapshot.Object.Spec, pl.bindings.order(snapshot.Object))) > 0 || len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	for i := range pod.Spec.Containers {
		for _, name := range pl.args.Accelerators.ExtendedResources {
			if _, asks := pod.Spec.Containers[i].Resources.Requests[v1.ResourceName(name)]; asks {
				return true
			}
		}
	}
	return false
}

// placeOne returns the node of the one pending member of the snapshot, and the
// placement score that the gang then has.
func (pl *Plugin) placeOne(ctx context.Context, snapshot gang.Snapshot) (node string, score float64, _ *refusal, _ error) {
	w, err := pl.newWorld(ctx)
	if err != nil {
		return "", 0, nil, err
	}
	for _, group := range snapshot.Groups {
		for _, pod := range group.Extras {
			pl.handle.DeleteNominatedPodIfExists(pod)
			if err := w.addMember(group.Name, pod, true); err != nil {
				return "", 0, nil, err
			}
		}
	}
	if err := w.lay(ctx, snapshot); err != nil {
		return "", 0, nil, err
	}
	if r := w.refusedClass(snapshot.Key, len(w.members)); r != nil {
		return "", 0, r, nil
	}
	problem := w.problem()
	solution, shortage := w.search(&problem)
	switch {
	case w.err != nil:
		return "", 0, nil, w.err
	case shortage != nil:
		return "", 0, w.refusal(snapshot.Key, shortage), nil
	}
	score, err = w.rate(ctx, solution.Nodes)
	return w.nodes[solution.Nodes[0]].Node().Name, score, nil, err
}
