// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// member is a pod of a gang.
type member struct {
	pod  *v1.Pod
	gang *gang
	// boundTo is the node to which this scheduler has bound the pod. The informer
	// shows it a little later.
	boundTo string
}

// state says how a member counts.
type state int

const (
	// stateGone: finished or terminating, never counts.
	stateGone state = iota
	// stateHeld: pending, and something keeps it from being scheduled.
	stateHeld
	// statePending: can be scheduled.
	statePending
	// stateBound: has a node.
	stateBound
)

// stateOf says how the member counts, and for a held one why it is held.
func (m *member) stateOf(schedulerName string) (state, string) {
	switch {
	case m.pod.DeletionTimestamp != nil, m.pod.Status.Phase == v1.PodFailed, m.pod.Status.Phase == v1.PodSucceeded:
		return stateGone, ""
	case m.pod.Spec.NodeName != "" || m.boundTo != "":
		return stateBound, ""
	case m.pod.Spec.SchedulerName != schedulerName:
		return stateHeld, fmt.Sprintf("pod %s is for scheduler %s", m.pod.Name, m.pod.Spec.SchedulerName)
	case len(m.pod.Spec.SchedulingGates) > 0:
		return stateHeld, fmt.Sprintf("pod %s has scheduling gate %s", m.pod.Name, m.pod.Spec.SchedulingGates[0].Name)
	}
	for i := range m.pod.Spec.ResourceClaims {
		if reason := missingClaim(m.pod, &m.pod.Spec.ResourceClaims[i]); reason != "" {
			return stateHeld, reason
		}
	}
	return statePending, ""
}

// missingClaim tells whether the claim that kube-controller-manager makes from a
// template is still to come.
func missingClaim(pod *v1.Pod, claim *v1.PodResourceClaim) string {
	if claim.ResourceClaimTemplateName == nil {
		return ""
	}
	if _, _, err := resourceclaim.Name(pod, claim); err == nil || !errors.Is(err, resourceclaim.ErrClaimNotFound) {
		return ""
	}
	return fmt.Sprintf("pod %s has no claim %s yet (ResourceClaimTemplate %s)", pod.Name, claim.Name, *claim.ResourceClaimTemplateName)
}

// running reports whether the member counts for the phase Running.
func (m *member) running() bool {
	return m.pod.DeletionTimestamp == nil && m.pod.Status.Phase == v1.PodRunning
}

// says returns the reason for which the pod waits, as it stands in its condition.
func (m *member) says() string {
	for i := range m.pod.Status.Conditions {
		if c := &m.pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
