// SPDX-License-Identifier: Apache-2.0

package gang

import "testing"

func TestPlacesOfAGangAreThoseItHasAndThoseItHasLeft(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("g", group("a", 2, "p", "q", "r")))
	p, q := pod("p", inGang("g"), onNode("n2")), pod("q", inGang("g"), onNode("n1"))
	f.putAll(p, q, pod("r", inGang("g")))
	expectEqual(t, "places", []string{"n1", "n2"}, f.PlacesOf(keyFor("g")))
	f.DeletePod(q)
	f.DeleteGang(podGang("g"))
	expectEqual(t, "places", []string{"n1", "n2"}, f.PlacesOf(keyFor("g")))
	f.DeletePod(p)
	expectEqual(t, "places", []string{"n1", "n2"}, f.PlacesOf(keyFor("g")))
	if got := f.PlacesOf(keyFor("other")); len(got) > 0 {
		t.Errorf("a gang that is not known has places %v", got)
	}
}
