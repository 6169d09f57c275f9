// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// reusing names the gang whose place a gang would rather have.
func reusing(namespace, name string) func(*v1alpha1.PodGang) {
	return func(pg *v1alpha1.PodGang) {
		pg.Spec.ReuseReservationRef = &v1alpha1.NamespacedName{Namespace: namespace, Name: name}
	}
}

// pair creates a gang of two pods that would rather be in one rack.
func (s *scenario) pair(name string, change func(*v1alpha1.PodGang)) []string {
	s.t.Helper()
	pods := names(name, 2)
	s.gangWith(name, func(pg *v1alpha1.PodGang) {
		pg.Spec.TopologyConstraint = packed("", rackKey)
		change(pg)
	}, group("w", 2, pods...))
	s.manyPods(pods, of(name), inRoom(s.ns), slot)
	s.bound(pods...)
	return pods
}

func unchanged(*v1alpha1.PodGang) {}

// What a gang leaves is what the next may want: its image and its model are there.
// ai-dynamo/dynamo#8171.
func TestGangComesBackToThePlaceOfAnother(t *testing.T) {
	s := shared(t)
	s.rack("r1", 2)
	s.rack("r2", 2)
	first, second := s.pair("first", unchanged), s.pair("second", unchanged)
	s.inRack("r2", second...)
	s.deletePods(append(first, second...)...)
	s.deleteGang("second")
	s.marker()
	s.inRack("r2", s.pair("third", reusing(s.ns, "second"))...)
}

func TestGangTakesABetterPlaceThanTheOneToReuse(t *testing.T) {
	s := shared(t)
	r1, r2 := s.rack("r1", 2), s.rack("r2", 2)
	s.pod("a", slot, onHost(r1[0]))
	s.pod("b", slot, onHost(r2[0]))
	s.bound("a", "b")
	first := s.pair("first", unchanged)
	s.lies(rackKey, "1+1", first...)
	s.deletePods(append(first, "a", "b")...)
	s.deleteGang("first")
	s.marker()
	s.lies(rackKey, "2", s.pair("second", reusing(s.ns, "first"))...)
}

func TestPlaceToReuseThatIsNotKnownIsNotWaitedFor(t *testing.T) {
	for name, namespace := range map[string]string{"unknown gang": "", "foreign namespace": "kube-system"} {
		t.Run(name, func(t *testing.T) {
			s := shared(t)
			s.rack("r1", 2)
			if namespace == "" {
				namespace = s.ns
			}
			s.pair("g", reusing(namespace, "other"))
			s.tells("g", "ReuseReservationIgnored", "reuseReservationRef is ignored", namespace+"/other")
		})
	}
}
