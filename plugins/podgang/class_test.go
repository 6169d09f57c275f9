// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// testPod makes a pod of one container with the options given.
func testPod(name string, options ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "image"}}},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

func requesting(container int, requests map[v1.ResourceName]string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for len(p.Spec.Containers) <= container {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "sidecar"})
		}
		p.Spec.Containers[container].Resources.Requests = v1.ResourceList{}
		for name, quantity := range requests {
			p.Spec.Containers[container].Resources.Requests[name] = resource.MustParse(quantity)
		}
	}
}

func labelled(labels ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		if p.Labels == nil {
			p.Labels = make(map[string]string)
		}
		for i := 0; i < len(labels); i += 2 {
			p.Labels[labels[i]] = labels[i+1]
		}
	}
}

func withVolume(source v1.VolumeSource) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: source}) }
}

// claimingFrom gives the pod a claim that was made for it from a template.
func claimingFrom(template string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		made := p.Name + "-" + template
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: template, ResourceClaimTemplateName: &template})
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: template, ResourceClaimName: &made})
	}
}

func claiming(claim string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "by-name", ResourceClaimName: &claim})
	}
}

// exactly is a claim of so many devices of a class.
func exactly(count int64, class string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count},
	}}}}}
}

func TestClassKey(t *testing.T) {
	claims := map[string]*resourceapi.ResourceClaim{
		"a-four": exactly(4, "gpu.nvidia.com"), "b-four": exactly(4, "gpu.nvidia.com"), "b-two": exactly(2, "gpu.nvidia.com"),
		"c-four": {Spec: exactly(4, "gpu.nvidia.com").Spec, Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}},
	}
	claimOf := func(p *v1.Pod, entry *v1.PodResourceClaim) *resourceapi.ResourceClaim {
		return claims[p.Name+"-"+entry.Name]
	}
	cpu := map[v1.ResourceName]string{"cpu": "1"}
	initCPU := func(p *v1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}})
	}
	for _, tc := range []struct {
		name           string
		a, b           func(*v1.Pod)
		groupA, groupB string
		// podA and podB name the pods, a and b if empty.
		podB string
		same bool
	}{
		{name: "nothing but the name", same: true},
		{name: "the group", groupA: "x", groupB: "y"},
		{name: "the index labels", a: labelled("grove.io/podclique-pod-index", "0", "apps.kubernetes.io/pod-index", "0"), b: labelled("grove.io/podclique-pod-index", "1", "batch.kubernetes.io/job-completion-index", "7"), same: true},
		{name: "another label", a: labelled("app", "x"), b: labelled("app", "y")},
		{name: "requests", a: requesting(0, cpu), b: requesting(0, map[v1.ResourceName]string{"cpu": "2"})},
		{name: "the same amount, written otherwise", a: requesting(0, cpu), b: requesting(0, map[v1.ResourceName]string{"cpu": "1000m"}), same: true},
		{name: "the container that requests", a: requesting(0, cpu), b: requesting(1, cpu)},
		{name: "an init container instead of a container", a: func(p *v1.Pod) { initCPU(p); p.Spec.Containers = nil }, b: requesting(0, cpu)},
		{name: "image, command and environment", b: func(p *v1.Pod) {
			p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = "other", []string{"x"}
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "RANK", Value: "1"}}
		}, same: true},
		{name: "host name and annotations", b: func(p *v1.Pod) { p.Spec.Hostname, p.Annotations = "h1", map[string]string{"a": "b"} }, same: true},
		{name: "a container port", b: func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80}} }, same: true},
		{name: "a host port", b: func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} }},
		{name: "the node selector", b: func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }},
		{name: "affinity", b: func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}} }},
		{name: "tolerations", b: func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "x"}} }},
		{name: "spreading", b: func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1}} }},
		{name: "overhead", b: func(p *v1.Pod) { p.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("1")} }},
		{name: "priority", b: func(p *v1.Pod) { p.Spec.Priority = new(int32(5)) }},
		{name: "the host network", b: func(p *v1.Pod) { p.Spec.HostNetwork = true }},
		{name: "the operating system", b: func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }},
		{name: "own claims of equal content", a: claimingFrom("four"), b: claimingFrom("four"), same: true},
		{name: "own claims of other content", a: claimingFrom("four"), b: claimingFrom("two")},
		{name: "an own claim that is allocated already", a: claimingFrom("four"), b: claimingFrom("four"), podB: "c"},
		{name: "a claim more", b: claimingFrom("four")},
		{name: "a shared claim", a: claiming("x"), b: claiming("x"), same: true},
		{name: "claims of other names", a: claiming("x"), b: claiming("y")},
		{name: "volumes that can be had anywhere", b: withVolume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), same: true},
		{name: "a volume claim of each", a: withVolume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}), b: withVolume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})},
		{name: "the same volume that has limits", a: withVolume(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}}), b: withVolume(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}}), same: true},
		{name: "other volumes that have limits", a: withVolume(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}}), b: withVolume(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "e"}})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key := func(group, name string, change func(*v1.Pod)) string {
				t.Helper()
				p := testPod(name)
				if change != nil {
					change(p)
				}
				before := p.DeepCopy()
				key, err := classKey(group, p, claimOf)
				if err != nil {
					t.Fatal(err)
				}
				if len(before.Labels) != len(p.Labels) {
					t.Errorf("the labels of the pod are %v, and were %v", p.Labels, before.Labels)
				}
				return key
			}
			podB := "b"
			if tc.podB != "" {
				podB = tc.podB
			}
			a, b := key(tc.groupA, "a", tc.a), key(tc.groupB, podB, tc.b)
			if same := a == b; same != tc.same {
				t.Errorf("one class: got %v, want %v\n%s\n%s", same, tc.same, a, b)
			}
		})
	}
}

func TestInteracts(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*v1.Pod)
		want bool
	}{
		{"nothing", func(*v1.Pod) {}, false},
		{"node affinity", func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}} }, false},
		{"pod affinity", func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}} }, true},
		{"pod anti-affinity", func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}} }, true},
		{"spreading", func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{}} }, true},
	} {
		if got := interacts(testPod("p", tc.set)); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestWeight(t *testing.T) {
	// Each pod is harder to place than the next.
	pods := []*v1.Pod{
		testPod("two-claims", claiming("x"), claiming("y")),
		testPod("claim", claiming("x")),
		testPod("gpus", requesting(0, map[v1.ResourceName]string{"nvidia.com/gpu": "8"})),
		testPod("gpu", requesting(0, map[v1.ResourceName]string{"nvidia.com/gpu": "1"})),
		testPod("cores", requesting(0, map[v1.ResourceName]string{"cpu": "64", "memory": "64Gi"})),
		testPod("core", requesting(0, map[v1.ResourceName]string{"cpu": "1", "memory": "1Gi"})),
		testPod("nothing"),
	}
	for i := range pods[1:] {
		if weight(pods[i]) <= weight(pods[i+1]) {
			t.Errorf("pod %s weighs %v, and %s %v", pods[i].Name, weight(pods[i]), pods[i+1].Name, weight(pods[i+1]))
		}
	}
}
