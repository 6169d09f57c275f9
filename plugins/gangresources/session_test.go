// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
)

// devicesOf lists the devices that a claim is allocated.
func devicesOf(claim *resourceapi.ResourceClaim) string {
	if claim.Status.Allocation == nil {
		return ""
	}
	var names []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		names = append(names, result.Pool+"/"+result.Device)
	}
	return strings.Join(names, ",")
}

func TestSessionSeesItsOwnChoicesAndNobodyElseDoes(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 2}), makeClaim("a"), makeClaim("b"), makeClaim("c"))...)
	s := f.session()
	f.allocate(s, makePod("a", "a"), "n1")
	b := f.allocate(s, makePod("b", "b"), "n1")
	f.refuse(s, makePod("c", "c"), "n1")
	if total, free := s.Devices("n1", gpuClass); total != 2 || free != 0 {
		t.Errorf("got %d of %d devices free, want 0 of 2", free, total)
	}
	if pending := f.pendingClaims("a", "b", "c"); pending != 0 {
		t.Errorf("%d claims are pending for the scheduler before Reserve, want none", pending)
	}
	s.Undo(b)
	if _, free := s.Devices("n1", gpuClass); free != 1 {
		t.Errorf("got %d devices free after Undo, want 1", free)
	}
	f.allocate(s, makePod("c", "c"), "n1")
}

func TestSessionOnAnotherNodeSeesThatNode(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1, "n2": 1}), makeClaim("a"), makeClaim("b"))...)
	s := f.session()
	f.allocate(s, makePod("a", "a"), "n1")
	f.refuse(s, makePod("b", "b"), "n1")
	f.allocate(s, makePod("b", "b"), "n2")
}

func TestReserveTakesDevicesFromEverybodyElse(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("a"), makeClaim("other"))...)
	s := f.session()
	a := f.allocate(s, makePod("a", "a"), "n1")
	reservations, err := s.Reserve([]*Allocation{a})
	noError(t, err)
	f.refuse(f.session(), makePod("other", "other"), "n1")

	reservations[0].Release(f.ctx)
	if pending := f.pendingClaims("a"); pending != 0 {
		t.Errorf("claim a is still pending after Release")
	}
	f.allocate(f.session(), makePod("other", "other"), "n1")
}

func TestReserveIsAllOrNothingWhenAClaimWasAllocatedElsewhere(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 2}), makeClaim("a"), makeClaim("b"))...)
	s := f.session()
	a, b := f.allocate(s, makePod("a", "a"), "n1"), f.allocate(s, makePod("b", "b"), "n1")

	elsewhere := f.claim("b").DeepCopy()
	elsewhere.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: "n1", Device: "gpu-0"}},
	}}
	elsewhere.ResourceVersion = "50"
	noError(t, f.plugin.manager.ResourceClaims().AssumeClaimAfterAPICall(elsewhere))

	if _, err := s.Reserve([]*Allocation{a, b}); err == nil || !strings.Contains(err.Error(), "default/b") {
		t.Fatalf("got error %v, want one that names claim default/b", err)
	}
	if pending := f.pendingClaims("a", "b"); pending != 0 {
		t.Errorf("%d claims stayed reserved", pending)
	}
	if f.plugin.reservation("uid-a") != nil {
		t.Error("a reservation was left behind")
	}
}

func TestSharedClaimIsAllocatedOnceForTheGang(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 3, "n2": 3}), makeClaim("shared"), makeClaim("a"), makeClaim("b"))...)
	podA, podB := makePod("a", "shared", "a"), makePod("b", "shared", "b")
	s := f.session()
	a := f.allocate(s, podA, "n1")
	f.refuse(s, podB, "n2") // the shared devices are on n1
	b := f.allocate(s, podB, "n1")
	if _, free := s.Devices("n1", gpuClass); free != 0 {
		t.Errorf("got %d devices free, want none: one shared and one each", free)
	}
	_, err := s.Reserve([]*Allocation{a, b})
	noError(t, err)

	stateA, stateB := f.cycle(podA), f.cycle(podB)
	noError(t, f.plugin.PreBind(f.ctx, stateA, podA, "n1").AsError())
	if got := len(f.claim("shared").Status.ReservedFor); got != 2 {
		t.Errorf("the first member has written %d users of the shared claim, want both", got)
	}
	noError(t, f.plugin.PreBind(f.ctx, stateB, podB, "n1").AsError())
	if devicesOf(f.claim("a")) == "" || devicesOf(f.claim("b")) == "" {
		t.Errorf("claims of their own: a has %q, b has %q, want one device each", devicesOf(f.claim("a")), devicesOf(f.claim("b")))
	}
	if pending := f.pendingClaims("shared", "a", "b"); pending != 0 {
		t.Errorf("%d claims are still pending after PreBind", pending)
	}
}

func TestSharedClaimIsClearedWhenTheGangIsUndoneHalfWay(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 3}), makeClaim("shared"), makeClaim("a"), makeClaim("b"))...)
	podA, podB := makePod("a", "shared", "a"), makePod("b", "shared", "b")
	s := f.session()
	a, b := f.allocate(s, podA, "n1"), f.allocate(s, podB, "n1")
	_, err := s.Reserve([]*Allocation{a, b})
	noError(t, err)
	stateA, stateB := f.cycle(podA), f.cycle(podB)
	noError(t, f.plugin.PreBind(f.ctx, stateA, podA, "n1").AsError())

	f.plugin.Unreserve(f.ctx, stateA, podA, "n1")
	if got := devicesOf(f.claim("shared")); got == "" {
		t.Error("the shared claim was cleared under the member that still uses it")
	}
	f.plugin.Unreserve(f.ctx, stateB, podB, "n1")
	// The member that was not prepared does not wait for the API.
	var left string
	if err := wait.PollUntilContextTimeout(f.ctx, time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		left = ""
		for _, name := range []string{"shared", "a", "b"} {
			if claim := f.claim(name); claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0 {
				left += fmt.Sprintf("claim %s is left with devices %q and users %v; ", name, devicesOf(claim), claim.Status.ReservedFor)
			}
		}
		if _, free := f.session().Devices("n1", gpuClass); free != 3 {
			left += fmt.Sprintf("got %d devices free, want all 3", free)
		}
		return left == "", nil
	}); err != nil {
		t.Error(left)
	}
}

func TestMembersJoinAClaimInUseTogether(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 3}), makeClaim("shared"), makeClaim("a"), makeClaim("b"))...)
	other, podA, podB := makePod("other", "shared"), makePod("a", "shared", "a"), makePod("b", "shared", "b")
	noError(t, f.plugin.PreBind(f.ctx, f.cycle(other), other, "n1").AsError())
	before := devicesOf(f.claim("shared"))

	s := f.session()
	_, err := s.Reserve([]*Allocation{f.allocate(s, podA, "n1"), f.allocate(s, podB, "n1")})
	noError(t, err)
	stateA, stateB := f.cycle(podA), f.cycle(podB)
	noError(t, f.plugin.PreBind(f.ctx, stateA, podA, "n1").AsError())
	if got := len(f.claim("shared").Status.ReservedFor); got != 3 {
		t.Errorf("the first member has left the claim with %d users, want all 3", got)
	}
	noError(t, f.plugin.PreBind(f.ctx, stateB, podB, "n1").AsError())
	if got := len(f.claim("shared").Status.ReservedFor); got != 3 {
		t.Errorf("the second member has left the claim with %d users, want 3", got)
	}
	if devicesOf(f.claim("a")) == "" || devicesOf(f.claim("b")) == "" {
		t.Errorf("claims of their own: a has %q, b has %q, want one device each", devicesOf(f.claim("a")), devicesOf(f.claim("b")))
	}

	f.plugin.Unreserve(f.ctx, stateA, podA, "n1")
	f.plugin.Unreserve(f.ctx, stateB, podB, "n1")
	claim := f.claim("shared")
	if got := devicesOf(claim); got != before || len(claim.Status.ReservedFor) != 1 || claim.Status.ReservedFor[0].UID != other.UID {
		t.Errorf("the claim has devices %q and users %v when the gang is undone, want %q and the pod that had it", got, claim.Status.ReservedFor, before)
	}
}

// A member that has lost its place before the first write is not entered as a user.
func TestMemberThatIsOutIsNotEnteredAsAUser(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("shared"))...)
	podA, podB := makePod("a", "shared"), makePod("b", "shared")
	s := f.session()
	reservations, err := s.Reserve([]*Allocation{f.allocate(s, podA, "n1"), f.allocate(s, podB, "n1")})
	noError(t, err)
	stateA := f.cycle(podA)
	reservations[1].Release(f.ctx)
	noError(t, f.plugin.PreBind(f.ctx, stateA, podA, "n1").AsError())
	if users := f.claim("shared").Status.ReservedFor; len(users) != 1 || users[0].UID != podA.UID {
		t.Errorf("the users are %v, want pod a alone", users)
	}
}

// What an attempt that died has written for a member stays as it is until somebody has
// looked at it: the cache would not learn of a change.
func TestMemberThatIsReleasedKeepsWhatItHeldBefore(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 2}), allocated("a"), makeClaim("new"))...)
	pod := makePod("a", "c", "new")
	s := f.session()
	reservations, err := s.Reserve([]*Allocation{f.allocate(s, pod, "n1")})
	noError(t, err)
	before := len(f.client.Actions())
	reservations[0].Release(f.ctx)
	for _, action := range f.client.Actions()[before:] {
		t.Errorf("%s of %s when the member is released", action.GetVerb(), action.GetResource().Resource)
	}
	if f.pendingClaims("new") != 0 || len(f.claim("c").Status.ReservedFor) != 1 {
		t.Errorf("pending: %d, users of the claim held before: %v", f.pendingClaims("new"), f.claim("c").Status.ReservedFor)
	}
}

func TestPodsWithoutReservationPassThrough(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("a"))...)
	pod := makePod("a", "a")
	state := f.cycle(pod)
	noError(t, f.plugin.PreBind(f.ctx, state, pod, "n1").AsError())
	if got := devicesOf(f.claim("a")); got != "n1/gpu-0" {
		t.Errorf("got devices %q, want n1/gpu-0", got)
	}
}

func TestMemberIsConfinedToItsPlannedNode(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1, "n2": 1}), makeClaim("a"))...)
	pod := makePod("a", "a")
	s := f.session()
	_, err := s.Reserve([]*Allocation{f.allocate(s, pod, "n1")})
	noError(t, err)
	state := f.cycle(pod)
	if status := f.plugin.Filter(f.ctx, state, pod, nodeInfo("n2")); status.IsSuccess() {
		t.Error("node n2 was accepted, and the devices are reserved on n1")
	}
}

func TestReleaseHappensOnce(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("shared"))...)
	podA, podB := makePod("a", "shared"), makePod("b", "shared")
	s := f.session()
	reservations, err := s.Reserve([]*Allocation{f.allocate(s, podA, "n1"), f.allocate(s, podB, "n1")})
	noError(t, err)
	reservations[0].Release(f.ctx)
	reservations[0].Release(f.ctx)
	if f.pendingClaims("shared") != 1 {
		t.Fatal("releasing one member twice took the claim from the other")
	}
	reservations[1].Release(f.ctx)
	if f.pendingClaims("shared") != 0 {
		t.Error("the claim stays pending after its last user")
	}
}

func TestRefusalNamesWhatIsMissing(t *testing.T) {
	noClass := makeClaim("noclass")
	noClass.Spec.Devices.Requests[0].Exactly.DeviceClassName = "tpu.example.com"
	deleted := makeClaim("deleted")
	deleted.DeletionTimestamp = &metav1.Time{}
	deleted.Finalizers = []string{"test"}
	tests := map[string]struct {
		claim *resourceapi.ResourceClaim
		pod   string
		want  string
	}{
		"claim does not exist":        {pod: "ghost", want: "ghost"},
		"device class does not exist": {claim: noClass, pod: "noclass", want: "tpu.example.com"},
		"claim is being deleted":      {claim: deleted, pod: "deleted", want: "deleted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects := cluster(map[string]int{"n1": 1})
			if tc.claim != nil {
				objects = append(objects, runtime.Object(tc.claim))
			}
			f := newFixture(t, objects...)
			status := f.refuse(f.session(), makePod("p", tc.pod), "n1")
			if !strings.Contains(status.Message(), tc.want) {
				t.Errorf("got %q, want it to name %q", status.Message(), tc.want)
			}
		})
	}
}

func TestDeviceGivenAwayTwiceIsFoundBeforeBinding(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("a"), makeClaim("other"))...)
	pod := makePod("a", "a")
	s := f.session()
	_, err := s.Reserve([]*Allocation{f.allocate(s, pod, "n1")})
	noError(t, err)
	state := f.cycle(pod)

	// Another scheduler allocates the same device before our write.
	other := f.claim("other")
	other.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: "n1", Device: "gpu-0"}},
	}}
	_, err = f.client.ResourceV1().ResourceClaims(namespace).UpdateStatus(f.ctx, other, metav1.UpdateOptions{})
	noError(t, err)

	err = f.plugin.PreBind(f.ctx, state, pod, "n1").AsError()
	if err == nil || !strings.Contains(err.Error(), "default/other") || !strings.Contains(err.Error(), "gpu-0") {
		t.Fatalf("got error %v, want one that names the device and claim default/other", err)
	}
	f.plugin.Unreserve(f.ctx, state, pod, "n1")
	if got := devicesOf(f.claim("a")); got != "" {
		t.Errorf("our claim keeps devices %q, want none: ours yields", got)
	}
	if got := devicesOf(f.claim("other")); got == "" {
		t.Error("the other scheduler's claim was cleared")
	}
	f.refuse(f.session(), pod, "n1") // the device belongs to the other claim now
}

func TestClaimHasRoomForSoManyUsers(t *testing.T) {
	f := newFixture(t, append(cluster(map[string]int{"n1": 1}), makeClaim("shared"))...)
	s := f.session()
	var last *Allocation
	for i := range resourceapi.ResourceClaimReservedForMaxSize {
		last = f.allocate(s, makePod(fmt.Sprintf("p%d", i), "shared"), "n1")
	}
	status := f.refuse(s, makePod("one-more", "shared"), "n1")
	if want := "claim shared cannot be used by more than 256 pods at once"; status.Message() != want {
		t.Errorf("got %q, want %q", status.Message(), want)
	}
	s.Undo(last)
	f.allocate(s, makePod("one-more", "shared"), "n1")
}
