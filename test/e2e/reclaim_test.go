// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
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
