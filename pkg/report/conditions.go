// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// writeCondition sets PodScheduled=False with the reason. The patch holds for the
// version of the pod that was looked at: a pod that has been bound since then
// must not be marked as waiting. A pod that carries the reason is left alone.
func (r *Reporter) writeCondition(ctx context.Context, pod *v1.Pod, v verdict) error {
	status := pod.Status.DeepCopy()
	changed := podutil.UpdatePodCondition(status, &v1.PodCondition{
		Type:               v1.PodScheduled,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, v1.PodScheduled),
		Status:             v1.ConditionFalse,
		Reason:             v.reason,
		Message:            v.podMessage,
	})
	if !changed {
		return nil
	}
	_, condition := podutil.GetPodCondition(status, v1.PodScheduled)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": []*v1.PodCondition{condition}},
	})
	if err != nil {
		return err
	}
	_, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return err
	case err != nil:
		return fmt.Errorf("write the reason for waiting on pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
