// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// keyBook remembers the keys of pods (classKey, companionKey) from one plan to the next: a
// gang that waits is planned again and again, and to make a key takes longer than all else
// that a plan asks of a pod. It belongs to the goroutine of the scheduling cycle.
type keyBook struct {
	known map[keyed]string
	// texts has each key once: those of the pods of one template are equal.
	texts map[string]string
}

// keyed is what a key is made of.
type keyed struct {
	kind keyKind
	// group is the group that the pod is in, where that matters.
	group   string
	pod     types.UID
	version string
	// claims are those that were made for the pod, and whether they are allocated, where
	// that matters.
	claims string
}

// keyKind tells what a key is for.
type keyKind int

const (
	memberKey keyKind = iota
	boundKey
	companyKey
)

// maxKeys is how many keys are remembered; then the book starts anew. An entry takes some
// 200 bytes.
const maxKeys = 1 << 13

func newKeyBook() *keyBook {
	b := &keyBook{}
	b.clear()
	return b
}

func (b *keyBook) clear() {
	b.known, b.texts = make(map[keyed]string), make(map[string]string)
}

// of returns a key, made anew if it is not known.
func (b *keyBook) of(k keyed, anew func() (string, error)) (string, error) {
	if key, ok := b.known[k]; ok {
		return key, nil
	}
	key, err := anew()
	if err != nil {
		return "", err
	}
	if len(b.known) >= maxKeys {
		b.clear()
	}
	if same, ok := b.texts[key]; ok {
		key = same
	} else {
		b.texts[key] = key
	}
	b.known[k] = key
	return key, nil
}

// claimGetter returns the claim behind an entry of a pod, nil if it is not known.
type claimGetter func(*v1.Pod, *v1.PodResourceClaim) *resourceapi.ResourceClaim

// ofMember returns the classKey of a member. The claims are looked up once: those that the
// key is made of are those that it is remembered with.
func (b *keyBook) ofMember(kind keyKind, group string, pod *v1.Pod, claimOf claimGetter) (string, error) {
	claims := make(map[string]*resourceapi.ResourceClaim)
	for i := range pod.Spec.ResourceClaims {
		if entry := &pod.Spec.ResourceClaims[i]; entry.ResourceClaimName == nil {
			claims[entry.Name] = claimOf(pod, entry)
		}
	}
	return b.of(
		keyed{kind: kind, group: group, pod: pod.UID, version: pod.ResourceVersion, claims: textOfClaims(pod, claims)},
		func() (string, error) {
			return classKey(group, pod, func(_ *v1.Pod, entry *v1.PodResourceClaim) *resourceapi.ResourceClaim { return claims[entry.Name] })
		})
}

// ofCompanion returns the companionKey of a pod.
func (b *keyBook) ofCompanion(pod *v1.Pod) (string, error) {
	return b.of(keyed{kind: companyKey, pod: pod.UID, version: pod.ResourceVersion}, func() (string, error) { return companionKey(pod) })
}

// textOfClaims names the claims that were made for a pod, by name of the entry. The
// specification of a claim does not change; of its status it matters whether it is
// allocated.
func textOfClaims(pod *v1.Pod, claims map[string]*resourceapi.ResourceClaim) string {
	var text strings.Builder
	for i := range pod.Spec.ResourceClaims {
		if claim := claims[pod.Spec.ResourceClaims[i].Name]; claim != nil {
			text.WriteString(string(claim.UID))
			if claim.Status.Allocation != nil {
				text.WriteByte('+')
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}
