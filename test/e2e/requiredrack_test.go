// SPDX-License-Identifier: Apache-2.0

package e2e

import "testing"

// A gang of three GPU pods that have to share a rack waits while two racks have room
// for two each, says which rack comes nearest, and starts whole in the rack that gets
// a third node. Nothing but its own score tells how good that is: it is the best there
// is.
func TestGangStartsInOneRackOrWaits(t *testing.T) {
	s := shared(t)
	const key = "e2e.test/rack"
	for _, name := range []string{"x0", "x1"} {
		s.node(name, gpus(1, "test"), labelled(key, "rack-x"))
	}
	for _, name := range []string{"y0", "y1"} {
		s.node(name, gpus(1, "test"), labelled(key, "rack-y"))
	}
	s.node("z", gpus(4, "test"))
	pods := s.packedGang("g", 3, key, "", gpu, inRoom(s.ns))
	s.unschedulable(pods, "the gang needs 3 pods in one "+key, "best is rack-", "there is room for 2")
	s.holdsNothing(pods...)
	third := s.node("y2", gpus(1, "test"), labelled(key, "rack-y"))
	s.bound(pods...)
	on := map[string]bool{}
	for _, pod := range pods {
		on[s.getPod(pod).Spec.NodeName] = true
	}
	if len(on) != 3 || !on[third] {
		t.Errorf("the pods are on %v, want one on each node of rack-y", on)
	}
	s.until("the placement score is 1", func() string {
		if score := s.getGang("g").Status.PlacementScore; score == nil || *score != 1 {
			return "it is not"
		}
		return ""
	})
}
