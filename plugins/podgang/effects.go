// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// apply carries out what follows from an event. No lock of ours may be held.
func (pl *Plugin) apply(ctx context.Context, effects gang.Effects) {
	if pl.idle.Load() {
		return
	}
	logger := klog.FromContext(ctx)
	for _, undo := range effects.Undo {
		pl.undo(ctx, undo)
	}
	for _, leaver := range effects.Release {
		pl.release(ctx, leaver)
	}
	for _, key := range effects.Changed {
		pl.reports.Changed(key)
		pl.reclaims.changed(key)
	}
	pl.activate(logger, effects.Activate)
	for _, retry := range effects.Retry {
		time.AfterFunc(retry.Delay, func() { pl.activate(logger, []*v1.Pod{retry.Pod}) })
	}
	if opened := pl.forgetSated(effects.Changed); opened || effects.Freed || len(effects.Undo) > 0 || len(effects.Release) > 0 {
		pl.wakeRefused(logger)
	}
}

// undo sends the members of an undone attempt home. Members whose own cycle has
// begun give back what they hold themselves.
func (pl *Plugin) undo(ctx context.Context, undo gang.Rollback) {
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Attempt to place a gang was undone", "podGang", klog.KRef(undo.Key.Namespace, undo.Key.Name), "reason", undo.Reason)
	pl.reports.Undone(undo.Key, undo.Cause, undo.Reason)
	var entered []types.UID
	for _, leaver := range undo.Members {
		if leaver.Entered {
			entered = append(entered, leaver.Pod.UID)
		} else {
			pl.release(ctx, leaver)
		}
	}
	if pl.rejectWaiting(entered, undo.Reason) == len(entered) {
		return
	}
	// A member may be between the answer of Permit and the list of waiting pods,
	// or further, in PreBind.
	go func() {
		started := time.Now()
		ctx := context.WithoutCancel(ctx)
		err := wait.PollUntilContextTimeout(ctx, turnBackInterval, turnBackTimeout, false, func(context.Context) (bool, error) {
			if !pl.index.Draining(undo.Attempt) {
				return true, nil
			}
			pl.rejectWaiting(entered, undo.Reason)
			if time.Since(started) > cancelAfter {
				pl.cancelPreBind(entered, undo.Reason)
			}
			return false, nil
		})
		if err != nil {
			logger.Error(err, "Members of an undone attempt are still in their binding cycles", "podGang", klog.KRef(undo.Key.Namespace, undo.Key.Name))
		}
	}()
}

// Members of an undone attempt are looked for this often and this long. Their
// writes are left to end by themselves, so that it is known what they have
// written; what takes longer is a wait for a device or a volume.
const (
	turnBackInterval = 50 * time.Millisecond
	turnBackTimeout  = 30 * time.Second
	cancelAfter      = 5 * time.Second
)

// rejectWaiting rejects those of the pods that wait at Permit, and returns how
// many they are.
func (pl *Plugin) rejectWaiting(pods []types.UID, reason string) int {
	rejected := 0
	for _, uid := range pods {
		if waiting := pl.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(Name, reason)
			rejected++
		}
	}
	return rejected
}

// cancelPreBind ends the PreBind of those of the pods that are in it.
func (pl *Plugin) cancelPreBind(pods []types.UID, reason string) {
	for _, uid := range pods {
		if preparing := pl.handle.GetPodInPreBind(uid); preparing != nil {
			preparing.CancelPod(reason)
		}
	}
}

// release gives back what is reserved for a member whose own cycle has not begun.
func (pl *Plugin) release(ctx context.Context, leaver gang.Leaver) {
	pl.handle.DeleteNominatedPodIfExists(leaver.Pod)
	if leaver.Release != nil {
		leaver.Release(ctx)
	}
}

// activate has the queue look at the pods now, whatever their back-off.
func (pl *Plugin) activate(logger klog.Logger, pods []*v1.Pod) {
	if len(pods) == 0 {
		return
	}
	named := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		named[pod.Namespace+"/"+pod.Name] = pod
	}
	pl.handle.Activate(logger, named)
}

// wakeRefused has every pod tried again that was refused while an attempt, or a pod
// placed alone, held room. Room that was reserved in memory only has come free, which no event of
// the API tells.
func (pl *Plugin) wakeRefused(logger klog.Logger) {
	var pods []*v1.Pod
	for _, refused := range slices.Concat(pl.waits.leaders(), pl.joins.leaders(), pl.bystanders.take()) {
		if pod := pl.getPod(refused.Namespace, refused.Name); pod != nil && pod.UID == refused.UID && pod.Spec.NodeName == "" {
			pods = append(pods, pod)
		}
	}
	pl.activate(logger, pods)
}
