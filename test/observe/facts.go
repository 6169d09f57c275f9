// SPDX-License-Identifier: Apache-2.0

package observe

import corev1 "k8s.io/api/core/v1"

// Live reports whether a pod counts as a member of its gang: it has not ended, and is not
// being deleted.
func Live(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// Condition returns a pod's condition of a kind, nil if it has none.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Scheduled returns a pod's condition PodScheduled, nil if it has none.
func Scheduled(pod *corev1.Pod) *corev1.PodCondition { return Condition(pod, corev1.PodScheduled) }

// ClaimNames returns the names of the claims that a pod has: those of its spec, those
// that were made from its templates, and the one for its extended resources.
func ClaimNames(pod *corev1.Pod) []string {
	var names []string
	for _, entry := range pod.Spec.ResourceClaims {
		if entry.ResourceClaimName != nil {
			names = append(names, *entry.ResourceClaimName)
		}
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil {
			names = append(names, *status.ResourceClaimName)
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		names = append(names, status.ResourceClaimName)
	}
	return names
}
