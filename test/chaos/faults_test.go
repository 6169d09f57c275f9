// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// How often things go wrong, on average.
const (
	requestFaultInterval  = 800 * time.Millisecond
	watchFaultInterval    = 3 * time.Second
	outageInterval        = 16 * time.Second
	nodeFaultInterval     = 7 * time.Second
	schedulerKillInterval = 13 * time.Second
	managerKillInterval   = 45 * time.Second
	// apiKillInterval is long: while the API server is down, little else is tested.
	apiKillInterval = 60 * time.Second
)

// ruleLife is how long a fault waits for requests to befall.
const ruleLife = 8 * time.Second

// planRequestFaults plans what happens to single requests and to watches.
func (p *plan) planRequestFaults(rng *rand.Rand) {
	classes := []requestClass{
		binding, binding, binding, claimWrite, claimWrite, claimWrite, claimWrite,
		podStatus, gangStatus, eventWrite, reading, anyWrite, anyWrite,
	}
	p.every(rng, requestFaultInterval, func(at time.Duration) {
		f := requestFault{class: pick(rng, classes...), left: 1 + rng.IntN(4)}
		switch kind := rng.IntN(100); {
		case kind < 35:
			f.effect, f.code = answer, pick(rng, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests)
		case kind < 50:
			f.effect, f.code = answer, http.StatusConflict
			if f.class.name == reading.name {
				f.code = http.StatusInternalServerError
			}
		case kind < 60:
			f.effect = cutBefore
		case kind < 70:
			f.effect, f.wait = cutBefore, between(rng, time.Second, 3*time.Second)
		case kind < 82:
			f.effect, f.wait = cutAfter, pick(rng, 0, 0, between(rng, 500*time.Millisecond, 2*time.Second))
		case kind < 88:
			f.effect, f.code = answerAfter, http.StatusGatewayTimeout
		default:
			f.effect, f.wait, f.left = slow, between(rng, 50*time.Millisecond, 2500*time.Millisecond), 3+rng.IntN(20)
		}
		p.add(at, fmt.Sprintf("request-%d", len(p.steps)), f.String(), func(_ context.Context, r *run) error {
			r.injector.arm(f, ruleLife)
			return nil
		})
	})
	resources := []string{"", "", "pods", "pods", "resourceclaims", "resourceclaims", "podgangs", "nodes", "resourceslices"}
	p.every(rng, watchFaultInterval, func(at time.Duration) {
		resource, hold := pick(rng, resources...), between(rng, 200*time.Millisecond, 3*time.Second)
		switch rng.IntN(5) {
		case 0, 1:
			p.add(at, "watches", "drop the watches of "+orAll(resource), func(_ context.Context, r *run) error {
				r.injector.dropWatches(resource)
				return nil
			})
		case 2: // the scheduler has to list again
			f := requestFault{class: watchOf(resource), effect: answer, code: http.StatusGone, left: 2}
			p.add(at, "watches", "drop the watches of "+orAll(resource)+"; "+f.String(), func(_ context.Context, r *run) error {
				r.injector.arm(f, ruleLife)
				r.injector.dropWatches(resource)
				return nil
			})
		default:
			p.add(at, "watches", fmt.Sprintf("hold back the watches of %s for %v", orAll(resource), hold), func(_ context.Context, r *run) error {
				r.injector.holdWatches(resource, hold)
				return nil
			})
		}
	})
	p.every(rng, outageInterval, func(at time.Duration) {
		length := between(rng, 300*time.Millisecond, 2500*time.Millisecond)
		p.add(at, "outage", fmt.Sprintf("take no connections of the scheduler for %v", length), func(_ context.Context, r *run) error {
			r.injector.outage(length)
			return nil
		})
	})
}

func orAll(resource string) string {
	if resource == "" {
		return "all resources"
	}
	return resource
}

// planNodeFaults plans what happens to nodes. Each is mended before its round ends.
func (p *plan) planNodeFaults(rng *rand.Rand, nodes []string) {
	p.every(rng, nodeFaultInterval, func(at time.Duration) {
		node := pick(rng, nodes...)
		back := min(at+between(rng, 500*time.Millisecond, 9*time.Second), p.roundEnd(at)-time.Millisecond)
		track := "node " + node
		switch rng.IntN(6) {
		case 0, 1:
			p.add(at, track, "cordon "+node, cordonNode(node, true))
			p.add(back, track, "uncordon "+node, cordonNode(node, false))
		case 2:
			p.add(at, track, "delete "+node+"; its pods die", deleteNode(node, true))
			p.add(back, track, "bring back "+node, applyNode(node))
		case 3:
			p.add(at, track, "delete "+node+"; its pods live on", deleteNode(node, false))
			p.add(back, track, "bring back "+node, applyNode(node))
		default:
			p.add(at, track, "remove the ResourceSlices of "+node, deleteSlices(node))
			p.add(back, track, "publish the ResourceSlices of "+node, applyNode(node))
		}
	})
}

// planKills plans the end of processes by SIGKILL.
func (p *plan) planKills(rng *rand.Rand) {
	kill := func(component string, interval, longest time.Duration) {
		p.every(rng, interval, func(at time.Duration) {
			down := between(rng, 0, longest)
			p.add(at, "process "+component, fmt.Sprintf("kill %s, start it again after %v", component, down), func(ctx context.Context, r *run) error {
				return r.keepers[component].restart(ctx, down)
			})
		})
	}
	kill(lab.PodGangScheduler, schedulerKillInterval, 2500*time.Millisecond)
	kill(lab.APIServer, apiKillInterval, 1500*time.Millisecond)
	kill(lab.ControllerManager, managerKillInterval, 4*time.Second)
}
