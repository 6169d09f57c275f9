// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/probe"
	"github.com/podgang/podgang-scheduler/test/perf/result"
)

const (
	// refuseAttempts is how many changes are made that could help the gang, and do not.
	refuseAttempts = 10
	// attemptPatience is how long a change may take to cause an attempt: the longest
	// back-off of kube-scheduler is 10 s.
	attemptPatience = 15 * time.Second
	// idleFor is how long the scheduler's idle use of the CPU is measured.
	idleFor = 3 * time.Second
	// gangPatience is how long the gang may take to be told after its members.
	gangPatience = 10 * time.Second
)

// extraNode has one GPU and therefore little for a gang of pods with 8 each.
const extraNode = `
parameters: {n: 0}
nodeGroups:
- {name: "extra-${n}", machine: l40s, devices: [l40s-gpus]}
`

// refuse creates the gang on the full cluster and measures until all of it has been told
// that it does not fit; then what further attempts cost.
func (r *run) refuse(ctx context.Context) (err error) {
	if err := r.startScheduler(ctx); err != nil {
		return err
	}
	if r.before, err = r.requests(ctx); err != nil {
		return err
	}
	profiled := r.profile(ctx)
	r.begin = time.Now()
	members := len(r.set.Pods())
	if err := r.createAndWait(ctx); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	refusal := &result.Refusal{MembersTold: -1, GangTold: -1}
	r.out.Refusal = refusal
	if err := r.record.WaitFor(limit, func(c journal.Counts) bool { return c.Refused >= members }); err != nil {
		counts, _ := r.record.Counts()
		r.out.Error = fmt.Sprintf("%d of %d members are told after %v", counts.Refused, members, r.timeout())
		return r.sumUp(ctx)
	}
	gang := r.set.Gangs[0].Name
	if r.Contender.Gang != nil {
		r.waitForGang(ctx, gang)
	}
	r.verdict(refusal, gang)
	if err := r.attempts(ctx, refusal); err != nil {
		return err
	}
	r.out.Finished = true
	if profiled != nil {
		if err := <-profiled; err != nil {
			return err
		}
	}
	return r.sumUp(ctx)
}

func (r *run) waitForGang(ctx context.Context, gang string) {
	ctx, cancel := context.WithTimeout(ctx, gangPatience)
	defer cancel()
	// Whether it was told is read from the journal.
	_ = r.record.WaitFor(ctx, func(journal.Counts) bool { return !r.record.Told(gang).IsZero() })
}

// verdict measures from the creation of the gang's last pod.
func (r *run) verdict(refusal *result.Refusal, gang string) {
	var created, refused time.Time
	for _, e := range r.record.Entries() {
		if e.Created.After(created) {
			created = e.Created
		}
		if e.Refused.After(refused) {
			refused = e.Refused
		}
	}
	refusal.MembersTold = refused.Sub(created).Seconds()
	if told := r.record.Told(gang); !told.IsZero() {
		refusal.GangTold = told.Sub(created).Seconds()
	}
}

// sample is what the scheduler has used and done at a time.
type sample struct {
	at       time.Time
	cpu      time.Duration
	attempts int
}

func (r *run) sample(ctx context.Context, endpoint *probe.Endpoint) (sample, error) {
	usage, err := probe.ReadUsage(r.scheduler().PID())
	if err != nil {
		return sample{}, err
	}
	metrics, err := endpoint.Metrics(ctx)
	if err != nil {
		return sample{}, err
	}
	return sample{at: time.Now(), cpu: usage.CPU, attempts: int(metrics.Sum(r.Contender.AttemptMetric))}, nil
}

// attempts adds nodes that are too small, one at a time, and measures what the attempts
// that follow cost.
func (r *run) attempts(ctx context.Context, refusal *result.Refusal) error {
	endpoint, err := probe.NewEndpoint(r.lab.RESTConfig(), r.scheduler().Port())
	if err != nil {
		return err
	}
	idle, err := r.sample(ctx, endpoint)
	if err != nil {
		return err
	}
	pause(ctx, idleFor)
	first, err := r.sample(ctx, endpoint)
	if err != nil {
		return err
	}
	last := first
	for n := range refuseAttempts {
		r.progress("change %d of %d, %d attempts so far", n+1, refuseAttempts, last.attempts-first.attempts)
		node, err := shapes.Parse("extra", []byte(extraNode), map[string]string{"n": fmt.Sprint(n)})
		if err != nil {
			return err
		}
		if err := r.lab.ApplyShape(ctx, node); err != nil {
			return err
		}
		if last, err = r.waitForAttempt(ctx, endpoint, last); err != nil {
			return err
		}
	}
	refusal.Attempts = last.attempts - first.attempts
	// Scraping the metrics is in both, about as often.
	idleShare := float64(first.cpu-idle.cpu) / float64(first.at.Sub(idle.at))
	used := float64(last.cpu-first.cpu) - idleShare*float64(last.at.Sub(first.at))
	if refusal.Attempts > 0 {
		refusal.CPUPerAttempt = max(0, used/float64(time.Second)/float64(refusal.Attempts))
	}
	return nil
}

// waitForAttempt waits until the scheduler has made one more attempt than at the sample
// before, or will not.
func (r *run) waitForAttempt(ctx context.Context, endpoint *probe.Endpoint, before sample) (sample, error) {
	deadline := time.Now().Add(attemptPatience)
	for {
		pause(ctx, 500*time.Millisecond)
		now, err := r.sample(ctx, endpoint)
		if err != nil || now.attempts > before.attempts || now.at.After(deadline) {
			return now, err
		}
	}
}
