// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestLive(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{"new", corev1.Pod{}, true},
		{"running", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, true},
		{"succeeded", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, false},
		{"failed", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, false},
		{"being deleted", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.Now())}}, false},
	} {
		if got := Live(&tc.pod); got != tc.want {
			t.Errorf("%s: live is %t", tc.name, got)
		}
	}
}

func TestScheduled(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady}}}}
	if got := Scheduled(p); got != nil {
		t.Errorf("a pod without the condition has %v", got)
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Reason: "why"})
	if got := Scheduled(p); got == nil || got.Reason != "why" {
		t.Errorf("the condition is %v", got)
	}
}

// The claims by name, from templates as far as they exist, and of extended resources.
func TestClaimNames(t *testing.T) {
	p := &corev1.Pod{
		Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
			{Name: "a", ResourceClaimName: ptr.To("own")},
			{Name: "b", ResourceClaimTemplateName: ptr.To("template")},
			{Name: "c", ResourceClaimTemplateName: ptr.To("template")},
		}},
		Status: corev1.PodStatus{
			ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "b", ResourceClaimName: ptr.To("made")}, {Name: "c"}},
			ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"},
		},
	}
	if got, want := ClaimNames(p), []string{"own", "made", "extended"}; !slices.Equal(got, want) {
		t.Errorf("the claims are %v, want %v", got, want)
	}
}
