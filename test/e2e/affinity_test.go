// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// A member whose place depends on others joins a gang of which a member of another kind
// has a place: the missing floor, and then one beyond it.
func TestMemberThatKeepsApartJoinsABoundGang(t *testing.T) {
	s := shared(t)
	s.slots(4, 2)
	s.gang("g", group("decode", 2, names("decode", 2)...), group("prefill", 1, "prefill-0"))
	s.pod("prefill-0", of("g"), devices(1))
	for _, name := range names("decode", 2) {
		s.pod(name, of("g"), devices(1), apart)
	}
	s.bound("prefill-0", "decode-0", "decode-1")
	s.deletePods("decode-1")
	s.setReferences("g", "decode-0", "decode-2")
	s.pod("decode-2", of("g"), devices(1), apart)
	s.bound("decode-2")
	s.setReferences("g", "decode-0", "decode-2", "decode-3")
	s.pod("decode-3", of("g"), devices(1), apart)
	s.bound("decode-3")
	places := map[string]bool{}
	for _, name := range []string{"decode-0", "decode-2", "decode-3"} {
		places[s.getPod(name).Spec.NodeName] = true
	}
	if len(places) != 3 {
		t.Errorf("three pods that keep apart are on %d nodes", len(places))
	}
}

// A member placed first keeps away one of another kind that says nothing itself, or that
// only asks to be spread, while no pod in the cluster has kept others away before.
func TestMemberThatKeepsApartIsSeenByTheOthers(t *testing.T) {
	for _, tc := range []struct {
		name string
		tail func(*corev1.Pod)
	}{
		{"says nothing", func(*corev1.Pod) {}},
		{"is spread", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPodGang: "g"}},
			}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			s.slots(2, 2)
			s.gang("g", group("head", 1, "head-0"), group("tail", 1, "tail-0"))
			s.pod("tail-0", of("g"), devices(1), tc.tail)
			s.pod("head-0", of("g"), devices(1), apart)
			s.bound("head-0", "tail-0")
		})
	}
}
