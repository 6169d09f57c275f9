// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestKeysAreMadeOnce(t *testing.T) {
	made := 0
	b := newKeyBook()
	anew := func() (string, error) { made++; return fmt.Sprintf("key %d", made), nil }
	k := keyed{kind: memberKey, group: "g", pod: "uid", version: "1"}
	first, err := b.of(k, anew)
	must(t, err)
	for _, tc := range []struct {
		name string
		of   func(k keyed) keyed
		same bool
	}{
		{"the same pod", func(k keyed) keyed { return k }, true},
		{"another version of it", func(k keyed) keyed { k.version = "2"; return k }, false},
		{"another pod", func(k keyed) keyed { k.pod = "other"; return k }, false},
		{"the same pod in another group", func(k keyed) keyed { k.group = "h"; return k }, false},
		{"the same pod with other claims", func(k keyed) keyed { k.claims = "c"; return k }, false},
		{"the same pod as one that has a place", func(k keyed) keyed { k.kind = boundKey; return k }, false},
		{"the same pod as a companion", func(k keyed) keyed { k.kind = companyKey; return k }, false},
	} {
		got, err := b.of(tc.of(k), anew)
		must(t, err)
		if same := got == first; same != tc.same {
			t.Errorf("%s: has the key that is known: %v, want %v", tc.name, same, tc.same)
		}
	}
}

func TestKeyThatCannotBeMadeIsNotRemembered(t *testing.T) {
	b := newKeyBook()
	if _, err := b.of(keyed{pod: "p"}, func() (string, error) { return "", errors.New("no") }); err == nil {
		t.Error("there is no error")
	}
	if key, err := b.of(keyed{pod: "p"}, func() (string, error) { return "yes", nil }); key != "yes" || err != nil {
		t.Errorf("got %q, %v", key, err)
	}
}

func TestKeyBookStaysSmall(t *testing.T) {
	b := newKeyBook()
	for i := range 3 * maxKeys {
		_, err := b.of(keyed{pod: types.UID(fmt.Sprint(i))}, func() (string, error) { return fmt.Sprint(i), nil })
		must(t, err)
		if len(b.known) > maxKeys || len(b.texts) > maxKeys {
			t.Fatalf("%d keys and %d texts are kept, want no more than %d", len(b.known), len(b.texts), maxKeys)
		}
	}
}

// A key follows what of the pod's own claims decides about it, and is made of the claims
// that it is remembered with, whatever becomes of them meanwhile.
func TestKeyOfAMemberFollowsItsClaims(t *testing.T) {
	pod := testPod("p")
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{
		{Name: "own", ResourceClaimTemplateName: ptr.To("t")}, {Name: "shared", ResourceClaimName: ptr.To("s")},
	}
	free := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: "c1"}}
	allocated := free.DeepCopy()
	allocated.Status.Allocation = &resourceapi.AllocationResult{}
	other := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: "c2"}}
	other.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "another"}}
	b, looked := newKeyBook(), 0
	for _, step := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
	}{{"not made yet", nil}, {"made", free}, {"allocated", allocated}, {"free again", free}, {"made anew", other}} {
		claimOf := func(*v1.Pod, *v1.PodResourceClaim) *resourceapi.ResourceClaim {
			if looked++; looked > 1 {
				return other // the cache has changed
			}
			return step.claim
		}
		looked = 0
		got, err := b.ofMember(memberKey, "g", pod, claimOf)
		must(t, err)
		want, err := classKey("g", pod, func(*v1.Pod, *v1.PodResourceClaim) *resourceapi.ResourceClaim { return step.claim })
		must(t, err)
		if got != want {
			t.Errorf("the claim is %s: the key is %s, want %s", step.name, got, want)
		}
	}
}
