// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
)

const (
	schedulerName = "podgang-scheduler"
	gpuDriver     = "gpu.nvidia.com"
	gpuClass      = "gpu.nvidia.com"
	// gpuTemplate is a ResourceClaimTemplate for one GPU that every scenario has.
	gpuTemplate = "gpu"
	// markerTemplate is a ResourceClaimTemplate for one device of markerClass: the lab's
	// nodes have one each, which nothing but markers asks for.
	markerTemplate = "mark"
	markerClass    = "compute-domain-daemon.nvidia.com"
	// gpuResource is the extended resource that the class of GPUs stands for.
	gpuResource = "nvidia.com/gpu"
)

// podOption changes a pod before it is created.
type podOption func(*corev1.Pod)

func newPod(name string, opts ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName:                 schedulerName,
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			Containers: []corev1.Container{{
				Name: "main", Image: "pause",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}},
			}},
		},
	}
	for _, opt := range opts {
		opt(pod)
	}
	return pod
}

// of labels the pod as one of the gang.
func of(gang string) podOption {
	return func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPodGang] = gang }
}

// gpu gives the pod a claim for one GPU, from the template that every scenario has.
func gpu(p *corev1.Pod) { fromTemplate("gpu", gpuTemplate)(p) }

// fromTemplate gives the pod a claim made from a template.
func fromTemplate(entry, template string) podOption {
	return func(p *corev1.Pod) {
		addClaim(p, corev1.PodResourceClaim{Name: entry, ResourceClaimTemplateName: &template})
	}
}

// claim gives the pod a claim that exists by itself.
func claim(name string) podOption {
	return func(p *corev1.Pod) { addClaim(p, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name}) }
}

func addClaim(p *corev1.Pod, c corev1.PodResourceClaim) {
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, c)
	main := &p.Spec.Containers[0].Resources
	main.Claims = append(main.Claims, corev1.ResourceClaim{Name: c.Name})
}

// cpu is the request for CPU. A node of the lab has 32.
func cpu(quantity string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(quantity)
	}
}

// memory is the request for memory. A node of a scenario has 128Gi unless it says otherwise.
func memory(quantity string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(quantity)
	}
}

// slowToStop gives the pod ten minutes to end when it is deleted. Only a kubelet ends it
// sooner, or who deletes it by force.
func slowToStop(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600) }

// onHost confines the pod to one node.
func onHost(name string) podOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: name} }
}

// extendedGPU asks for one GPU as an extended resource.
func extendedGPU(p *corev1.Pod) {
	one := resource.MustParse("1")
	p.Spec.Containers[0].Resources.Requests[gpuResource] = one
	p.Spec.Containers[0].Resources.Limits[gpuResource] = one
}

const testGate = "e2e.test/hold"

// gated holds the pod by a scheduling gate.
func gated(p *corev1.Pod) {
	p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: testGate})
}

// scheduledBy gives the pod to another scheduler.
func scheduledBy(name string) podOption {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
}

// inRoom confines the pod to the nodes that the scenario of that namespace has added.
func inRoom(room string) podOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{roomLabel: room} }
}

// priority gives the pod a priority class.
func priority(class string) podOption {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
}

// names are <prefix>-0 to <prefix>-<n-1>.
func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return list
}

// group is a group of a gang that lists the pods.
func group(name string, floor int, pods ...string) v1alpha1.PodGroup {
	refs := make([]v1alpha1.NamespacedName, 0, len(pods)) // null is refused
	for _, pod := range pods {
		refs = append(refs, v1alpha1.NamespacedName{Name: pod}) // gang fills in the namespace
	}
	return v1alpha1.PodGroup{Name: name, MinReplicas: int32(floor), PodReferences: refs}
}

// request asks for a number of devices of a class.
func request(name, class string, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
	}}
}

func claimSpec(requests ...resourcev1.DeviceRequest) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}
}

// roomLabel is on the nodes that a scenario adds; its value is the scenario's namespace.
const roomLabel = "e2e.test/room"

// nodeOption changes what a scenario adds to the cluster.
type nodeOption func(*shape.Shape)

// gpus gives the node GPUs of a product, published by DRA.
func gpus(n int, product string) nodeOption {
	return func(s *shape.Shape) {
		node := s.Nodes[0].Name
		slice := &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: gpuDriver, NodeName: &node,
				Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			},
		}
		for i := range n {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
				Name: fmt.Sprintf("gpu-%d", i),
				Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					"type":        {StringValue: ptr.To("gpu")},
					"productName": {StringValue: &product},
				},
			})
		}
		s.Slices = append(s.Slices, slice)
	}
}

// allocatable sets what the node has of a resource.
func allocatable(name corev1.ResourceName, quantity string) nodeOption {
	return func(s *shape.Shape) { setResource(s.Nodes[0], name, quantity) }
}

func setResource(n *corev1.Node, name corev1.ResourceName, quantity string) {
	n.Status.Allocatable[name] = resource.MustParse(quantity)
	n.Status.Capacity[name] = resource.MustParse(quantity)
}

// newNode is a node as a kubelet registers it, with 32 CPUs. kwok plays its kubelet.
func newNode(name, room string, opts ...nodeOption) *shape.Shape {
	resources := func() corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}
	}
	s := &shape.Shape{Name: name, Nodes: []*corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{corev1.LabelHostname: name, roomLabel: room},
			Annotations: map[string]string{},
		},
		Status: corev1.NodeStatus{
			Capacity: resources(), Allocatable: resources(),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}}}
	for _, opt := range opts {
		opt(s)
	}
	return s
}
