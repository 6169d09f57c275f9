// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// An attempt holds what was reserved for the gang.
func TestAttemptThatIsOverIsNotKeptUntilItsTimeout(t *testing.T) {
	pod := testPod("p", forScheduler)
	object := testGang("g", 0, "", 1, pod)
	pl := sorter(t, []*v1alpha1.PodGang{object}, pod)
	pl.args = &config.PodGangArgs{PermitTimeout: metav1.Duration{Duration: time.Hour}}
	ongoing := startAttempt(t, pl, pod)
	runtime.GC()
	if ongoing.Value() == nil {
		t.Fatal("the attempt is gone while it is under way")
	}
	pl.index.DeleteGang(object)
	pl.index.DeletePod(pod)
	runtime.GC()
	if ongoing.Value() != nil {
		t.Error("the attempt is kept")
	}
}

// queueless is a profile without a queue.
type queueless struct{ framework.Framework }

func (queueless) Activate(klog.Logger, map[string]*v1.Pod) {}

func TestAttemptUnderWayEndsAtItsTimeout(t *testing.T) {
	ctx, pl, snapshot := benchPlanner(t, benchLoad{nodes: 1, pods: 1, cpu: "1"})
	pl.handle = queueless{pl.handle.(framework.Framework)}
	pl.args.PermitTimeout.Duration = time.Millisecond
	pl.waits, pl.turns, pl.joins, pl.bystanders, pl.reclaims = newWaitBook(), newTurnBook(), newWaitBook(), newBystanderBook(), newReclaimer(pl)
	plan, refusal, err := pl.plan(ctx, snapshot)
	if err != nil || refusal != nil {
		t.Fatalf("the gang has no plan: %v, %v", refusal, err)
	}
	must(t, pl.begin(ctx, snapshot.Key, plan))
	must(t, wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return !pl.index.Attempts(), nil
	}))
}

// startAttempt returns the attempt in a way that does not keep it.
func startAttempt(t *testing.T, pl *Plugin, pod *v1.Pod) weak.Pointer[gang.Attempt] {
	t.Helper()
	attempt, err := pl.index.Begin(gang.Key{Namespace: "ns", Name: "g"}, []gang.Placement{{Pod: pod, Node: "n", Floor: true}})
	must(t, err)
	pl.expireLater(t.Context(), attempt)
	return weak.Make(attempt)
}
