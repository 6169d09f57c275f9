// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// Namespace of every object of a load.
	Namespace = "perf"
	// GangLabel is on every pod of a gang, for the harness alone.
	GangLabel = "perf.test/gang"
	// ClaimEntry is the name of a pod's claim, in its spec and status.
	ClaimEntry = "gpu"
	// GPUClass is the DeviceClass of whole GPUs.
	GPUClass = "gpu.nvidia.com"
	// GPURequest is the name of a claim's request.
	GPURequest = "gpu"
	// GPUResource is the extended resource of the device plugin.
	GPUResource = "nvidia.com/gpu"
)

// TemplateName is the ResourceClaimTemplate for so many GPUs.
func TemplateName(gpus int) string { return fmt.Sprintf("gpu-%d", gpus) }

// Template is the ResourceClaimTemplate for so many GPUs.
func Template(gpus int) *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: TemplateName(gpus), Namespace: Namespace},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: GPURequest, Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: GPUClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(gpus),
			}}},
		}}},
	}
}

// Object is the pod, before a scheduler's own fields are added.
func (p *Pod) Object() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: Namespace, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			Containers:                    []corev1.Container{{Name: "main", Image: "pause"}},
		},
	}
	if p.Gang != "" {
		pod.Labels[GangLabel] = p.Gang
	}
	main := &pod.Spec.Containers[0].Resources
	main.Requests, main.Limits = corev1.ResourceList{}, corev1.ResourceList{}
	if p.Needs.CPU != "" {
		main.Requests[corev1.ResourceCPU] = resource.MustParse(p.Needs.CPU)
	}
	if p.Needs.Memory != "" {
		main.Requests[corev1.ResourceMemory] = resource.MustParse(p.Needs.Memory)
	}
	switch {
	case p.Needs.GPUs == 0:
	case p.Needs.By == ByPlugin:
		n := *resource.NewQuantity(int64(p.Needs.GPUs), resource.DecimalSI)
		main.Requests[GPUResource], main.Limits[GPUResource] = n, n
	default:
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: ClaimEntry, ResourceClaimTemplateName: ptr.To(TemplateName(p.Needs.GPUs))}}
		main.Claims = []corev1.ResourceClaim{{Name: ClaimEntry}}
	}
	return pod
}

// Claims reports whether the pod has a claim.
func (p *Pod) Claims() bool { return p.Needs.GPUs > 0 && p.Needs.By == ByClaim }
