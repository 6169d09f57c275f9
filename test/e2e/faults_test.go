// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// A gang with a fault waits, says what is wrong, and is bound when that is mended.
// Meanwhile another gang is bound.
func TestFaultyGangSaysWhatIsWrong(t *testing.T) {
	pods := names("g", 2)
	healthy := func(s *scenario) {
		s.editGang("g", func(spec *v1alpha1.PodGangSpec) { spec.PodGroups[0] = group("w", 2, pods...) })
	}
	for _, tc := range []struct {
		name   string
		create func(s *scenario)
		// words are in the event on the PodGang and in the condition of every member.
		words []string
		mend  func(s *scenario)
	}{
		{
			name: "pod of another namespace",
			create: func(s *scenario) {
				g := group("w", 2, pods...)
				g.PodReferences = append(g.PodReferences, v1alpha1.NamespacedName{Namespace: "elsewhere", Name: "alien"})
				s.gang("g", g)
				s.members("g", 2, gpu)
			},
			words: []string{"elsewhere/alien", "namespace"},
			mend:  healthy,
		},
		{
			name: "pod in two groups",
			create: func(s *scenario) {
				s.gang("g", group("w", 2, pods...), group("x", 1, pods[1]))
				s.members("g", 2, gpu)
			},
			words: []string{"g-1", "groups w and x"},
			mend: func(s *scenario) {
				s.editGang("g", func(spec *v1alpha1.PodGangSpec) { spec.PodGroups = spec.PodGroups[:1] })
			},
		},
		{
			name: "negative floor",
			create: func(s *scenario) {
				s.gang("g", group("w", -1, pods...))
				s.members("g", 2, gpu)
			},
			words: []string{"minReplicas -1"},
			mend:  healthy,
		},
		{
			name: "claim that does not exist",
			create: func(s *scenario) {
				s.gang("g", group("w", 2, pods...))
				s.pod(pods[0], of("g"), gpu)
				s.pod(pods[1], of("g"), claim("lost"))
			},
			words: []string{"group w", "ResourceClaim", "/lost"},
			mend:  func(s *scenario) { s.claim("lost", claimSpec(request("gpu", gpuClass, 1))) },
		},
		{
			name: "template that does not exist",
			create: func(s *scenario) {
				s.gang("g", group("w", 2, pods...))
				s.pod(pods[0], of("g"), gpu)
				s.pod(pods[1], of("g"), fromTemplate("gpu", "lost"))
			},
			words: []string{"g-1", "ResourceClaimTemplate lost"},
			mend:  func(s *scenario) { s.template("lost", claimSpec(request("gpu", gpuClass, 1))) },
		},
		{
			name: "class that does not exist",
			create: func(s *scenario) {
				s.template("strange", claimSpec(request("gpu", s.ns+".example.com", 1)))
				s.gang("g", group("w", 2, pods...))
				s.pod(pods[0], of("g"), gpu)
				s.pod(pods[1], of("g"), fromTemplate("gpu", "strange"))
			},
			words: []string{"group w", ".example.com", "does not exist"},
			mend: func(s *scenario) {
				s.deviceClass(s.ns+".example.com", `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"`)
			},
		},
		{
			name: "node that does not exist",
			create: func(s *scenario) {
				s.gang("g", group("w", 2, pods...))
				s.pod(pods[0], of("g"), gpu)
				s.pod(pods[1], of("g"), inRoom(s.ns))
			},
			words: []string{"group w", "node affinity/selector"},
			mend:  func(s *scenario) { s.node("missing") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			tc.create(s)
			s.tells("g", tc.words...)
			s.waits(pods, tc.words...)
			s.holdsNothing(pods...)

			other := names("other", 2)
			s.gang("other", group("w", 2, other...))
			s.members("other", 2, gpu)
			s.bound(other...)
			s.deletePods(other...)
			s.holdsNothing(pods...)

			tc.mend(s)
			s.bound(pods...)
		})
	}
}

// deviceClass creates a DeviceClass by a CEL expression.
func (s *scenario) deviceClass(name, expression string) {
	s.t.Helper()
	s.classes = append(s.classes, name)
	_, err := s.client().ResourceV1().DeviceClasses().Create(s.ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: expression}},
		}},
	}, metav1.CreateOptions{})
	s.must(err)
}

// The reason names what is short, and is told again when there is more.
func TestReasonFollowsTheCluster(t *testing.T) {
	s := shared(t)
	pods := names("g", 4)
	s.gang("g", group("w", 4, pods...))
	s.members("g", 4, gpu)
	s.unschedulable(pods, "4 pods", "room for 2")
	s.tells("g", "4 pods", "room for 2")
	s.node("third", gpus(1, "NVIDIA L40S"))
	s.unschedulable(pods, "4 pods", "room for 3")
	s.tells("g", "4 pods", "room for 3")
	s.holdsNothing(pods...)
	s.node("fourth", gpus(1, "NVIDIA L40S"))
	s.bound(pods...)
}
