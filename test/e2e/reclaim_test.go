// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A gang that does not fit waits until something changes, although a claim that its
// pods name is allocated: it is in use elsewhere, and there is nothing to clear.
func TestGangWithAClaimInUseWaitsQuietly(t *testing.T) {
	s := shared(t)
	s.claim("common", claimSpec(request("gpu", gpuClass, 1)))
	s.plainPods([]string{"first"}, claim("common"))
	s.gang("g", group("w", 2, names("g", 2)...))
	pods := s.members("g", 2, claim("common"), cpu("100000"))
	s.waits(pods, "there is room for none")
	s.marker()
	for _, line := range s.logLines(s.scheduler()) {
		if strings.Contains(line, s.ns+"/") && strings.Contains(line, "Cleared claims") {
			t.Errorf("the scheduler clears what is in use: %s", line)
		}
	}
	s.waits(pods, "there is room for none")
}

// Two pods hold the GPUs in memory and are deleted before their claims are written. No
// event of the API tells when their devices come free.
func TestPodIsTriedAgainWhenDevicesComeFreeInMemory(t *testing.T) {
	s := newScenario(t, gatedLab)
	holders := names("holder", 2)
	writes := s.hold(claimWrite(s.ns, "holder-"))
	for _, name := range holders {
		s.pod(name, gpu)
	}
	s.waitMet(writes, 2)
	s.pod("late", gpu)
	s.waits([]string{"late"}, "cannot allocate all claims")
	s.deletePods(holders...)
	s.until("the claims of the holders are gone", func() string {
		for _, c := range list[*resourcev1.ResourceClaim](s.c.history, s.ns) {
			if strings.HasPrefix(c.Name, "holder-") {
				return c.Name + " is there"
			}
		}
		return ""
	})
	writes.release()
	s.bound("late")
}

// A member beyond the floor is among the users of a claim, as one is left by a scheduler
// that was killed, and cannot be placed. It is taken out of the users.
func TestExtraThatWaitsHoldsNoClaim(t *testing.T) {
	s := shared(t)
	s.claim("common", claimSpec(request("gpu", gpuClass, 1)))
	s.gang("g", group("w", 1, names("g", 2)...))
	s.pod("g-0", of("g"), claim("common"))
	s.bound("g-0")
	extra := s.pod("g-1", of("g"), claim("common"), cpu("100000"), gated)
	s.retryConflict(func() error {
		claims := s.client().ResourceV1().ResourceClaims(s.ns)
		c, err := claims.Get(s.ctx, "common", metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: extra.Name, UID: extra.UID})
		_, err = claims.UpdateStatus(s.ctx, c, metav1.UpdateOptions{})
		return err
	})
	s.ungate("g-1")
	s.waits([]string{"g-1"}, "Insufficient cpu")
	s.until("the claim is reserved for g-0 alone", func() string {
		c := get[*resourcev1.ResourceClaim](s.c.history, s.ns, "common")
		if n := len(c.Status.ReservedFor); n != 1 || reservedFor(c, s.getPod("g-1")) {
			return fmt.Sprintf("it has %d users", n)
		}
		return ""
	})
}
