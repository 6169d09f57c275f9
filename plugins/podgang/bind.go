// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A failed Bind call is repeated in place: once members of the floor are being
// bound there is no way back for the gang. bindRetry are the pauses, from 0.1 s
// up to 5 s, and bindTries is how often a pod is tried that is known not to be
// bound, which takes about 6 s.
var bindRetry = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10, Cap: 5 * time.Second}

const bindTries = 7

// Bind holds a prepared member until the whole floor of its gang is prepared:
// claims allocated and reserved, volumes bound. Then it binds. Pods in no gang
// are left to the next Bind plugin.
func (pl *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	ticket := ticketOf(state)
	if ticket == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	select {
	case <-pl.index.Prepare(ticket):
	case <-ctx.Done():
		return fwk.AsStatus(context.Cause(ctx))
	}
	if bind, reason := pl.index.Verdict(ticket); !bind {
		return undone(pod, node, reason)
	}
	status := pl.bindInPlace(ctx, state, pod, node)
	if !status.IsSuccess() {
		key, _ := pl.index.GangOf(pod)
		pl.reports.NotBound(key, fmt.Sprintf("pod %s could not be bound to node %s: %s", pod.Name, node, status.Message()))
	}
	return status
}

// bindInPlace binds, and tries again for a few seconds if that fails, but for a member
// that is alone and was denied: others can use its room meanwhile. It never
// gives up a pod that may be bound: the answer of a Bind call can be lost, and the
// devices of a bound pod must not be given back.
func (pl *Plugin) bindInPlace(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	logger := klog.FromContext(ctx)
	backoff := bindRetry
	for tries := 1; ; tries++ {
		status := pl.binder.Bind(ctx, state, pod, node)
		if status.IsSuccess() {
			return status
		}
		switch where, err := pl.whereIs(ctx, pod); {
		case err != nil:
			logger.V(2).Info("Cannot tell whether the pod is bound, trying again", "pod", klog.KObj(pod), "node", node, "err", err)
		case where == node:
			return nil
		case where != "", tries >= bindTries, isDenied(status) && pl.index.Alone(ticketOf(state)):
			return status
		}
		logger.V(2).Info("Bind failed, trying again in place", "pod", klog.KObj(pod), "node", node, "reason", status.Message())
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return fwk.AsStatus(context.Cause(ctx))
		}
	}
}

// isDenied reports whether the API server has understood and refused, as for an
// admission policy: asking again at once is of no use.
func isDenied(status *fwk.Status) bool {
	err := status.AsError()
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// gone is where a pod is that does not exist any more.
const gone = "(deleted)"

// whereIs asks the API server for the node of a pod: "" for none, gone for a pod
// that was deleted.
func (pl *Plugin) whereIs(ctx context.Context, pod *v1.Pod) (string, error) {
	current, err := pl.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return gone, nil
	case err != nil:
		return "", err
	case current.UID != pod.UID, current.DeletionTimestamp != nil && current.Spec.NodeName == "":
		return gone, nil
	}
	return current.Spec.NodeName, nil
}

// undone is the status of a member whose gang was undone while it was prepared.
// It names no plugin: the scheduler has ended its record of events for the pod,
// and puts a pod without plugins to be asked into back-off.
func undone(pod *v1.Pod, node, reason string) *fwk.Status {
	fitErr := &framework.FitError{
		Pod:         pod,
		NumAllNodes: 1,
		Diagnosis: framework.Diagnosis{
			NodeToStatus:         framework.NewDefaultNodeToStatus(),
			UnschedulablePlugins: sets.New[string](),
		},
	}
	fitErr.Diagnosis.NodeToStatus.Set(node, fwk.NewStatus(fwk.Unschedulable, reason))
	return fwk.NewStatus(fwk.Unschedulable).WithError(fitErr)
}
