// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// The tests here kill the API server while a gang is on its way, and start it again. The
// scheduler lives on, with what it has reserved in memory.

// startOutage starts a lab of the test's own: the watches of all its components wait longer
// from outage to outage before they connect again.
func startOutage(t *testing.T) *scenario {
	t.Helper()
	source := &labSource{name: "outage", gated: true}
	t.Cleanup(func() {
		if err := source.end(t.Failed() || *keepState); err != nil {
			t.Error(err)
		}
	})
	return newScenario(t, source)
}

// outageRequests is how many requests about the scenario's objects fail while there is no
// API server, at least: the scheduler has noticed, and has tried to act on it.
const outageRequests = 4

// outOfReach kills the API server with SIGKILL, lets go what the rule holds, and starts
// the API server again when the scheduler has noticed.
func (s *scenario) outOfReach(held *rule) {
	s.t.Helper()
	api := s.c.Component(lab.APIServer)
	s.outage = true
	api.Kill()
	s.t.Cleanup(func() { // other scenarios need it, whatever becomes of this one
		ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
		defer cancel()
		if err := api.Start(ctx); err != nil {
			s.t.Errorf("the API server does not start again: %v", err)
		}
	})
	var asked atomic.Int32
	requests := s.hold(func(r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/namespaces/"+s.ns+"/") {
			asked.Add(1)
		}
		return false
	})
	held.release()
	s.until(fmt.Sprintf("the scheduler sends %d requests in vain", outageRequests), func() string {
		if n := asked.Load(); n < outageRequests {
			return fmt.Sprintf("it has sent %d", n)
		}
		return ""
	})
	requests.release()
	s.must(api.Start(s.ctx))
}

// loseAnswers is gate.loseAnswers, until the test ends.
func (s *scenario) loseAnswers(match func(*http.Request) bool) *rule {
	r := s.c.gate.loseAnswers(match)
	s.rulesOpen = append(s.rulesOpen, r)
	return r
}

func TestAPIServerKilledWhileAGangIsOnItsWay(t *testing.T) {
	pods := names("g", 2)
	for _, tc := range []struct {
		name string
		// stop is the request at which the API server dies, so many times.
		stop  func(s *scenario) *rule
		times int
		// reached waits for what is in the API by then.
		reached func(s *scenario)
	}{
		{
			"before any claim is written", func(s *scenario) *rule { return s.hold(claimWrite(s.ns, "g-")) }, 2,
			func(s *scenario) { s.neverAllocated(pods...) },
		},
		{
			"with the claim of one member written", func(s *scenario) *rule { return s.hold(claimWrite(s.ns, "g-1-")) }, 1,
			func(s *scenario) { s.allocatedFor("g-0") },
		},
		{
			"with the last claim written and no answer", func(s *scenario) *rule { return s.loseAnswers(claimStatusWrite(s.ns, "g-1-")) }, 1,
			func(s *scenario) { s.allocatedFor(pods...) },
		},
		{
			"with all claims written", func(s *scenario) *rule { return s.hold(bindingIn(s.ns)) }, 2,
			func(s *scenario) { s.allocatedFor(pods...) },
		},
		{
			"with one member bound", func(s *scenario) *rule { return s.hold(bindingOf(s.ns, "g-1")) }, 1,
			func(s *scenario) { s.bound("g-0") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startOutage(t)
			stopped := tc.stop(s)
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.waitMet(stopped, tc.times)
			tc.reached(s)
			s.outOfReach(stopped)
			s.bound(pods...)
			s.pod("rival", gpu)
			s.waits([]string{"rival"})
			s.gangBefore("rival", pods...)
		})
	}
}

// The gang shares one claim, which is written when the API server dies.
func TestAPIServerKilledBeforeItAnswersForASharedClaim(t *testing.T) {
	s := startOutage(t)
	s.claim("common", claimSpec(request("gpu", gpuClass, 1)))
	pods := names("g", 3)
	stopped := s.loseAnswers(claimStatusWrite(s.ns, "common"))
	s.gang("g", group("w", 3, pods...))
	s.members("g", 3, claim("common"))
	s.waitMet(stopped, 1)
	s.usersOf("common", pods...)
	s.outOfReach(stopped)
	s.bound(pods...)
	s.usersOf("common", pods...)
	s.deletePods(pods...)
	s.gpusUsable(2)
}
