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
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/podgang/podgang-scheduler/test/observe"
)

// The tests here kill the scheduler at the moments before a gang is prepared, and look at
// what becomes of the devices. See restart_test.go for the moments after that.

// claimStatusWrite matches writes to the status of the claims whose names begin with
// prefix: the allocation, which follows the finalizer.
func claimStatusWrite(namespace, prefix string) func(*http.Request) bool {
	write := claimWrite(namespace, prefix)
	return func(r *http.Request) bool { return write(r) && strings.HasSuffix(r.URL.Path, "/status") }
}

// usedUp checks that the gang has one GPU a member of the two that there are, and that
// both can be had when it is gone.
func (s *scenario) usedUp(pods ...string) {
	s.t.Helper()
	s.haveDevices(1, pods...)
	s.deletePods(pods...)
	s.gpusUsable(2)
}

// The gang is not complete when the scheduler dies, and becomes so while none runs, or
// when the next one does.
func TestSchedulerKilledWhileAGangCollects(t *testing.T) {
	pods := names("g", 2)
	for _, tc := range []struct {
		name            string
		begin, complete func(s *scenario)
		// words are why the first member waits.
		words []string
	}{
		{
			"a member is missing",
			func(s *scenario) { s.gang("g", group("w", 2, pods...)) },
			func(s *scenario) { s.pod(pods[1], of("g"), gpu) },
			[]string{"1 of 2"},
		},
		{
			"a member is gated",
			func(s *scenario) {
				s.gang("g", group("w", 2, pods...))
				s.pod(pods[1], of("g"), gpu, gated)
			},
			func(s *scenario) { s.ungate(pods[1]) },
			[]string{"1 of 2"},
		},
		{
			"a member is not listed",
			func(s *scenario) {
				s.gang("g", group("w", 2, pods[0]))
				s.pod(pods[1], of("g"), gpu)
			},
			func(s *scenario) { s.setReferences("g", pods...) },
			[]string{"1 of 2"},
		},
		{
			"the PodGang is missing",
			func(s *scenario) { s.pod(pods[1], of("g"), gpu) },
			func(s *scenario) { s.gang("g", group("w", 2, pods...)) },
			nil,
		},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %t", tc.name, late), func(t *testing.T) {
				s := newScenario(t, gatedLab)
				s.pod(pods[0], of("g"), gpu)
				tc.begin(s)
				s.waits(pods[:1], tc.words...)
				s.kill()
				if !late {
					tc.complete(s)
				}
				s.neverAllocated(pods...)
				s.restart()
				if late {
					s.holdsNothing(pods...)
					tc.complete(s)
				}
				s.bound(pods...)
				s.usedUp(pods...)
			})
		}
	}
}

// neverAllocated checks that no claim of the pods has ever been allocated.
func (s *scenario) neverAllocated(list ...string) {
	s.t.Helper()
	for _, name := range list {
		pod := s.getPod(name)
		if s.c.history.saw(s.ns, func(r record) bool {
			c, ok := r.object.(*resourcev1.ResourceClaim)
			return ok && pod != nil && c.Status.Allocation != nil && usedBy(c, pod)
		}) {
			s.t.Fatalf("a claim of pod %s has been allocated", name)
		}
	}
}

// The gang has its devices in the scheduler's memory; the API knows nothing of it, or
// half. A pod that comes meanwhile does not get them before the gang.
func TestSchedulerKilledWhileAGangIsHeld(t *testing.T) {
	pods := names("g", 2)
	for _, tc := range []struct {
		name string
		// write is the request at which the scheduler stops, so many times.
		write func(namespace string) func(*http.Request) bool
		times int
		// written are the members whose claims are allocated then.
		written []string
	}{
		{"before any write", func(ns string) func(*http.Request) bool { return claimWrite(ns, "g-") }, 2, nil},
		{"with the finalizers written", func(ns string) func(*http.Request) bool { return claimStatusWrite(ns, "g-") }, 2, nil},
		{"with the first claim written", func(ns string) func(*http.Request) bool { return claimWrite(ns, "g-1-") }, 1, pods[:1]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, gatedLab)
			writes := s.hold(tc.write(s.ns))
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.waitMet(writes, tc.times)
			for _, name := range tc.written {
				s.allocatedFor(name)
			}
			s.kill()
			writes.drop()
			for _, name := range pods {
				if !slices.Contains(tc.written, name) {
					s.neverAllocated(name)
				}
			}
			s.neverBound(pods...)
			s.pod("rival", gpu)
			s.restart()
			s.bound(pods...)
			s.gangBefore("rival", pods...)
		})
	}
}

// The gang shares a claim, of which nothing is written yet.
func TestSchedulerKilledWhileAGangWithASharedClaimIsHeld(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(namespace string) func(*http.Request) bool
	}{
		{"before any write", func(ns string) func(*http.Request) bool { return claimWrite(ns, "common") }},
		{"with the finalizer written", func(ns string) func(*http.Request) bool { return claimStatusWrite(ns, "common") }},
		{"with the claim written", bindingIn},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, gatedLab)
			s.claim("common", claimSpec(request("gpu", gpuClass, 1)))
			pods := names("g", 3)
			write := s.hold(tc.write(s.ns))
			s.gang("g", group("w", 3, pods...))
			s.members("g", 3, claim("common"))
			s.waitMet(write, 1)
			s.kill()
			write.drop()
			s.neverBound(pods...)
			s.restart()
			s.bound(pods...)
			s.usersOf("common", pods...)
			s.deletePods(pods...)
			s.gpusUsable(2)
		})
	}
}

// heldDevices are the devices that claims have at a moment.
type heldDevices struct {
	// at is how many records the namespace had.
	at      int
	results map[string][]resourcev1.DeviceRequestAllocationResult
}

// devicesNow waits until the pods have their devices, and notes them.
func (s *scenario) devicesNow(pods ...string) heldDevices {
	s.t.Helper()
	s.allocatedFor(pods...)
	held := heldDevices{at: len(s.c.history.of(s.ns)), results: map[string][]resourcev1.DeviceRequestAllocationResult{}}
	for _, name := range pods {
		for _, c := range s.claimsOf(s.getPod(name)) {
			held.results[c.Name] = c.Status.Allocation.Devices.Results
		}
	}
	return held
}

// kept checks that the claims have had the same devices, and their users, ever since.
func (s *scenario) kept(held heldDevices, pods ...string) {
	s.t.Helper()
	users := map[string]*corev1.Pod{}
	for _, name := range pods {
		pod := s.getPod(name)
		for _, c := range observe.ClaimNames(pod) {
			users[c] = pod
		}
	}
	for _, r := range s.c.history.of(s.ns)[held.at:] {
		c, ok := r.object.(*resourcev1.ResourceClaim)
		if !ok || held.results[c.Name] == nil {
			continue
		}
		switch {
		case r.deleted:
			s.t.Errorf("claim %s was deleted", c.Name)
		case c.Status.Allocation == nil:
			s.t.Errorf("claim %s was cleared at revision %d", c.Name, r.revision)
		case !apiequality.Semantic.DeepEqual(c.Status.Allocation.Devices.Results, held.results[c.Name]):
			s.t.Errorf("claim %s had devices %v, and at revision %d %v", c.Name,
				deviceNames(held.results[c.Name]), r.revision, deviceNames(c.Status.Allocation.Devices.Results))
		case !reservedFor(c, users[c.Name]):
			s.t.Errorf("claim %s was taken from pod %s at revision %d", c.Name, users[c.Name].Name, r.revision)
		}
	}
}

// What is in the API when the scheduler dies is taken over as it is.
func TestDevicesOfAKilledAttemptAreReused(t *testing.T) {
	pods := names("g", 3)
	for _, tc := range []struct {
		name string
		hold func(s *scenario) *rule
		// met is how many requests are held; written are the members with devices then.
		met     int
		written []string
		// meanwhile is done while no scheduler runs.
		meanwhile func(s *scenario)
	}{
		{"half prepared", func(s *scenario) *rule { return s.hold(claimWrite(s.ns, "g-2-")) }, 1, pods[:2], nil},
		{"prepared", func(s *scenario) *rule { return s.hold(bindingIn(s.ns)) }, 3, pods, nil},
		{"half bound", func(s *scenario) *rule { return s.hold(bindingsOf(s.ns, pods[1:]...)) }, 2, pods, nil},
		{
			"prepared, and devices that come first have come free",
			func(s *scenario) *rule { return s.hold(bindingIn(s.ns)) }, 3, pods,
			func(s *scenario) { s.deletePods("first", "second") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, gatedLab)
			s.slots(2, 8)
			s.plainPods([]string{"first", "second"}, devices(2))
			held := tc.hold(s)
			s.gang("g", group("w", 3, pods...))
			s.members("g", 3, devices(2))
			s.waitMet(held, tc.met)
			before := s.devicesNow(tc.written...)
			s.kill()
			held.drop()
			if tc.meanwhile != nil {
				tc.meanwhile(s)
			}
			s.restart()
			s.bound(pods...)
			s.haveDevices(2, pods...)
			s.kept(before, tc.written...)
		})
	}
}
