// SPDX-License-Identifier: Apache-2.0

package e2e

import "testing"

// The queue has a flush for pods that no event has woken for minutes: it is to have had
// nothing to do for all the tests before. Tests run in the order of their files' names.
func TestNoPodNeededTheFlushOfTheQueue(t *testing.T) {
	s := shared(t)
	s.plainPods([]string{"plain"})
	if n := s.metric(s.scheduler(), "scheduler_pod_scheduled_after_flush_total"); n != 0 {
		t.Errorf("%.0f pods were scheduled only after a flush of the queue", n)
	}
}
