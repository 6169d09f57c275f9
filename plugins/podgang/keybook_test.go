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

// A key is remembered with what of the pod's own claims decides about it.
func TestClaimsOfAPod(t *testing.T) {
	pod := testPod("p")
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{
		{Name: "own", ResourceClaimTemplateName: ptr.To("t")}, {Name: "shared", ResourceClaimName: ptr.To("s")},
	}
	var own *resourceapi.ResourceClaim
	claimOf := func(*v1.Pod, *v1.PodResourceClaim) *resourceapi.ResourceClaim { return own }
	seen := map[string]string{}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"not made yet", func() {}},
		{"made", func() { own = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: "c1"}} }},
		{"allocated", func() { own.Status.Allocation = &resourceapi.AllocationResult{} }},
		{"made again", func() { own = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: "c2"}} }},
	} {
		step.do()
		text := claimsOf(pod, claimOf)
		if other, known := seen[text]; known {
			t.Errorf("the claim is %s, which is told as when it was %s", step.name, other)
		}
		seen[text] = step.name
	}
}
