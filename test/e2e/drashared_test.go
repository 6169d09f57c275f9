// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// The tests here are of claims that more than one pod uses. See claims_test.go for the
// plain cases.

// namedClaim is a claim as last seen.
func (s *scenario) namedClaim(name string) *resourcev1.ResourceClaim {
	return get[*resourcev1.ResourceClaim](s.c.history, s.ns, name)
}

// usersOf waits until a claim is allocated and reserved for these pods and no other.
func (s *scenario) usersOf(claim string, pods ...string) {
	s.t.Helper()
	want := slices.Sorted(slices.Values(pods))
	s.until(fmt.Sprintf("claim %s is allocated and reserved for %v", claim, want), func() string {
		c := s.namedClaim(claim)
		if c == nil || c.Status.Allocation == nil {
			return "it is not allocated"
		}
		var users []string
		for _, consumer := range c.Status.ReservedFor {
			if pod := s.getPod(consumer.Name); pod == nil || pod.UID != consumer.UID {
				return "it is reserved for a pod " + consumer.Name + " that is gone"
			}
			users = append(users, consumer.Name)
		}
		if slices.Sort(users); !slices.Equal(users, want) {
			return fmt.Sprintf("it is reserved for %v", users)
		}
		return ""
	})
}

// A pod in no gang uses the claim too, and waits for the same device as the gang.
func TestGangAndPodOutsideWaitForOneClaim(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	node := s.node("x", publishes(class, like(device("d"), 2)...))
	s.template("one", claimSpec(request("one", class, 1)))
	s.plainPods([]string{"solo"}, fromTemplate("one", "one"))
	s.claim("common", claimSpec(request("both", class, 2)))
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, claim("common"))
	s.pod("outside", claim("common"))
	s.unschedulable(append([]string{"outside"}, pods...))
	s.holdsNothing(append([]string{"outside"}, pods...)...)
	s.deletePods("solo")
	s.bound(append([]string{"outside"}, pods...)...)
	s.onNode(node, append([]string{"outside"}, pods...)...)
	s.usersOf("common", "outside", "g-0", "g-1")
	// The gang goes, and the claim stays with the other.
	s.deletePods(pods...)
	s.usersOf("common", "outside")
}

// The gang that has joined a claim is undone: the claim stays with its user outside.
func TestUndoneGangLeavesAClaimToItsOtherUser(t *testing.T) {
	s := newScenario(t, gatedLab)
	class := s.ownClass()
	node := s.node("x", publishes(class, like(device("d"), 2)...))
	s.template("one", claimSpec(request("one", class, 1)))
	s.claim("common", claimSpec(request("one", class, 1)))
	s.plainPods([]string{"outside"}, claim("common"))
	before := s.namedClaim("common").Status.Allocation.Devices.Results
	refusals := s.refuseNext(-1, http.StatusInternalServerError, claimWrite(s.ns, "g-1-"))
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.pod(pods[0], of("g"), claim("common"))
	s.pod(pods[1], of("g"), fromTemplate("one", "one"))
	s.waitMet(refusals, 1)
	s.tells("g", "GangUndone")
	s.neverBound(pods...)
	refusals.release()
	s.bound(pods...)
	s.onNode(node, pods...)
	s.usersOf("common", "outside", "g-0")
	for _, r := range s.c.history.of(s.ns) {
		c, ok := r.object.(*resourcev1.ResourceClaim)
		if !ok || c.Name != "common" {
			continue
		}
		if c.Status.Allocation != nil && c.Status.Allocation.Devices.Results[0].Device != before[0].Device {
			t.Errorf("the claim's device changed from %s to %s", before[0].Device, c.Status.Allocation.Devices.Results[0].Device)
		}
	}
	s.c.history.claimKeeps(t, s.ns, "common", "outside")
}

// claimKeeps checks that a claim, once reserved for a pod, was so ever after.
func (h *history) claimKeeps(t *testing.T, namespace, claim, pod string) {
	t.Helper()
	had := false
	for _, r := range h.of(namespace) {
		c, ok := r.object.(*resourcev1.ResourceClaim)
		if !ok || c.Name != claim {
			continue
		}
		has := slices.ContainsFunc(c.Status.ReservedFor, func(u resourcev1.ResourceClaimConsumerReference) bool { return u.Name == pod })
		if had && (!has || c.Status.Allocation == nil) {
			t.Errorf("claim %s was taken from pod %s", claim, pod)
		}
		had = had || has
	}
	if !had {
		t.Errorf("claim %s has never been reserved for pod %s", claim, pod)
	}
}

// The second gang comes when the first is bound.
func TestGangJoinsAClaimOfABoundGang(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	small := s.node("a", publishes(class, device("d")), limitedCPU("4"))
	s.claim("common", claimSpec(request("one", class, 1)))
	first, second := names("first", 2), names("second", 2)
	s.gang("first", group("w", 2, first...))
	s.members("first", 2, claim("common"), cpu("1"))
	s.bound(first...)
	// Room for one more beside the first gang's.
	s.plainPods([]string{"ballast"}, inRoom(s.ns), cpu("1"))
	s.gang("second", group("w", 2, second...))
	s.members("second", 2, claim("common"), cpu("1"))
	s.unschedulable(second, "group w needs 2 pods")
	s.holdsNoShare(second...)
	s.usersOf("common", first...)
	s.deletePods("ballast")
	s.bound(second...)
	s.onNode(small, append(first, second...)...)
	s.usersOf("common", append(first, second...)...)
	s.deletePods(first...)
	s.usersOf("common", second...)
}

// Both gangs wait for the device of their claim; each has another need too.
func TestTwoGangsWaitForOneClaim(t *testing.T) {
	t.Run("and both get it", func(t *testing.T) {
		s := shared(t)
		class := s.ownClass()
		node := s.node("x", publishes(class, device("d")))
		s.template("one", claimSpec(request("one", class, 1)))
		s.claim("common", claimSpec(request("one", class, 1)))
		s.plainPods([]string{"solo"}, fromTemplate("one", "one"))
		first, second := names("first", 2), names("second", 2)
		both := append(slices.Clone(first), second...)
		s.gang("first", group("w", 2, first...))
		s.members("first", 2, claim("common"))
		s.gang("second", group("w", 2, second...))
		s.members("second", 2, claim("common"))
		s.unschedulable(both, class)
		s.holdsNothing(both...)
		s.deletePods("solo")
		s.bound(both...)
		s.onNode(node, both...)
		s.usersOf("common", both...)
	})
	t.Run("and only one can have the rest", func(t *testing.T) {
		s := shared(t)
		class := s.ownClass()
		s.node("x", publishes(class, like(device("d"), 2)...))
		s.template("one", claimSpec(request("one", class, 1)))
		s.claim("common", claimSpec(request("one", class, 1)))
		first, second := names("first", 3), names("second", 2)
		s.gang("first", group("w", 3, first...)) // older, and can never be placed
		s.pod(first[0], of("first"), claim("common"))
		s.pod(first[1], of("first"), fromTemplate("one", "one"))
		s.pod(first[2], of("first"), fromTemplate("one", "one"))
		s.unschedulable(first, class)
		s.gang("second", group("w", 2, second...))
		s.pod(second[0], of("second"), claim("common"))
		s.pod(second[1], of("second"), fromTemplate("one", "one"))
		s.bound(second...)
		s.usersOf("common", second[0])
		s.unschedulable(first)
		s.holdsNoShare(first...)
		s.node("y", publishes(class, like(device("d"), 2)...))
		s.bound(first...)
		s.usersOf("common", first[0], second[0])
	})
}

// holdsNoShare is holdsNothing for pods whose claim has users beside them.
func (s *scenario) holdsNoShare(list ...string) {
	s.t.Helper()
	s.marker()
	s.neverBound(list...)
	for _, name := range list {
		for _, c := range s.claimsOf(s.getPod(name)) {
			if reservedFor(c, s.getPod(name)) {
				s.t.Errorf("claim %s is reserved for pod %s, which is not bound", c.Name, name)
			}
		}
	}
}

// The device of a shared claim decides on which node all of them are.
func TestSharedClaimWantsANodeWithRoomForAll(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	s.claim("common", claimSpec(request("one", class, 1)))
	pods := names("g", 3)
	s.node("a", publishes(class, device("d")), limitedCPU("4")) // room for two
	s.gang("g", group("w", 3, pods...))
	s.members("g", 3, claim("common"), cpu("2"))
	s.unschedulable(pods, "group w needs 3 pods", "cpu")
	s.holdsNothing(pods...)
	s.node("b", publishes(class, device("d")), limitedCPU("5"))
	s.unschedulable(pods, "group w needs 3 pods", "cpu")
	s.holdsNothing(pods...)
	big := s.node("c", publishes(class, device("d")), limitedCPU("6"))
	s.bound(pods...)
	s.onNode(big, pods...)
	s.usersOf("common", pods...)
}

// The claim has a device already, where there is no room.
func TestSharedClaimIsAllocatedWhereThereIsNoRoom(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	s.claim("common", claimSpec(request("one", class, 1)))
	small := s.node("a", publishes(class, device("d")), limitedCPU("5"))
	s.plainPods([]string{"outside"}, claim("common"), cpu("1"))
	s.node("b", publishes(class, device("d")))
	pods := names("g", 3)
	s.gang("g", group("w", 3, pods...))
	s.members("g", 3, claim("common"), cpu("2"))
	s.unschedulable(pods, "group w needs 3 pods", "room for 2", "cpu")
	s.holdsNoShare(pods...)
	s.usersOf("common", "outside")
	s.setAllocatable(small, "cpu", "8")
	s.bound(pods...)
	s.onNode(small, pods...)
}

// The API lets a claim have 256 users: those that it has count too.
func TestSharedClaimHasTooManyUsers(t *testing.T) {
	const most = resourcev1.ResourceClaimReservedForMaxSize
	s := shared(t)
	class := s.ownClass()
	node := s.node("x", publishes(class, device("d")), allocatable(corev1.ResourcePods, "300"))
	s.claim("common", claimSpec(request("one", class, 1)))
	outside := names("outside", 2)
	s.plainPods(outside, claim("common"))
	pods := names("g", most-1)
	s.gang("g", group("w", most-1, pods...))
	s.manyPods(pods, of("g"), claim("common"))
	const words = "claim common cannot be used by more than 256 pods at once"
	s.tells("g", "Unschedulable", words)
	s.unschedulable(pods, words)
	s.holdsNoShare(pods...)
	s.usersOf("common", outside...)
	s.deletePods(outside[1])
	s.bound(pods...)
	s.onNode(node, pods...)
	s.usersOf("common", append([]string{outside[0]}, pods...)...)
	// There is no room for another pod, in a gang or not.
	s.gang("late", group("w", 1, "late-0"))
	s.members("late", 1, claim("common"))
	s.tells("late", words)
	s.unschedulable([]string{"late-0"}, words)
	s.deletePods(pods[0])
	s.bound("late-0")
}

// Claims of the members' own beside the shared one, in either order: every claim gets a
// device of its own kind.
func TestOrderOfSharedAndOwnClaims(t *testing.T) {
	for _, sharedFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared first %t", sharedFirst), func(t *testing.T) {
			s := shared(t)
			class := s.ownClass()
			kind := func(name string) func(*resourcev1.ExactDeviceRequest) {
				return selecting(`device.attributes["` + class + `"].kind == "` + name + `"`)
			}
			channels, cores := like(device("channel", "kind", "channel"), 3), like(device("core", "kind", "core"), 6)
			s.node("x", publishes(class, append(channels, cores...)...))
			s.claim("common", claimSpec(changed(request("channel", class, 1), kind("channel"))))
			s.claim("common-too", claimSpec(changed(request("channel", class, 2), kind("channel"))))
			s.template("core", claimSpec(changed(request("core", class, 1), kind("core"))))
			order := []podOption{claim("common"), fromTemplate("one", "core"), claim("common-too"), fromTemplate("two", "core")}
			if !sharedFirst {
				slices.Reverse(order)
			}
			pods := names("g", 3)
			s.gang("g", group("w", 3, pods...))
			s.members("g", 3, order...)
			s.bound(pods...)
			s.usersOf("common", pods...)
			s.usersOf("common-too", pods...)
			owned := map[string]string{}
			for _, name := range pods {
				s.allocatedFor(name)
				for _, c := range s.claimsOf(s.getPod(name)) {
					want := "core"
					if strings.HasPrefix(c.Name, "common") {
						want = "channel"
					}
					for _, r := range c.Status.Allocation.Devices.Results {
						if !strings.HasPrefix(r.Device, want) || r.Request != want {
							t.Errorf("claim %s, which asks for a %s, has device %s for request %s", c.Name, want, r.Device, r.Request)
						}
						if other := owned[r.Device]; other != "" && other != c.Name {
							t.Errorf("claims %s and %s both have device %s", other, c.Name, r.Device)
						}
						owned[r.Device] = c.Name
					}
				}
			}
			if len(owned) != 9 {
				t.Errorf("%d devices are in use, want all 9", len(owned))
			}
		})
	}
}
