// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
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
