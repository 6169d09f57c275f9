// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods in gangs and in none come and go on eight devices, while the scheduler learns
// late what happens to claims. That no device is ever in two claims is among the checks
// that follow every scenario.
func TestDevicesChangeHandsWhileClaimEventsAreLate(t *testing.T) {
	s := newScenario(t, gatedLab)
	class := s.ownClass()
	const duration, devices, atOnce = 8 * time.Second, 8, 12
	s.node("x", publishes(class, like(device("d"), devices)...))
	s.template("one", claimSpec(request("one", class, 1)))
	late := s.late(watchOf("resourceclaims"), func() time.Duration { return 50*time.Millisecond + rand.N(200*time.Millisecond) })

	served := 0
	living := map[string]bool{}
	next := 0
	for end := time.Now().Add(duration); time.Now().Before(end); {
		for len(living) < atOnce {
			name := fmt.Sprintf("p%d-0", next)
			opts := []podOption{fromTemplate("one", "one")}
			if next%2 == 0 {
				gang := fmt.Sprintf("p%d", next)
				s.gang(gang, group("w", 1, name))
				opts = append(opts, of(gang))
			}
			s.pod(name, opts...)
			living[name] = true
			next++
		}
		var done []string
		s.until("a pod is bound", func() string {
			done = nil
			for name := range living {
				if pod := s.getPod(name); pod != nil && pod.Spec.NodeName != "" {
					done = append(done, name)
				}
			}
			if len(done) == 0 {
				return "none is"
			}
			return ""
		})
		for _, name := range done {
			s.must(s.client().CoreV1().Pods(s.ns).Delete(s.ctx, name, metav1.DeleteOptions{}))
			delete(living, name)
			served++
		}
	}
	s.waitMet(late, devices)
	late.release()
	t.Logf("%d pods had a device, and claim events were late %d times", served, late.count())
	if served < 2*devices {
		t.Errorf("%d pods had a device in %v, want %d at least", served, duration, 2*devices)
	}
	for name := range living {
		s.deletePods(name)
	}
}
