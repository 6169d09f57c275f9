// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/probe"
	"github.com/podgang/podgang-scheduler/test/perf/result"
)

const (
	// changes are made that could help the gang and do not, changeEvery so often.
	changes     = 10
	changeEvery = time.Second
	// idleFor is how long the scheduler's idle use of the CPU is measured.
	idleFor = 3 * time.Second
	// gangPatience is how long the gang may take to be told after its members.
	gangPatience = 10 * time.Second
)

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

// attempts publishes the devices of a node anew, one time after another, and measures what
// the attempts that follow cost. Nothing else changes, so that the reason stays the same
// and is not written again. Attempts are counted before and after, because reading the
// metrics costs the scheduler as much as an attempt may.
func (r *run) attempts(ctx context.Context, refusal *result.Refusal) error {
	idle, err := r.idleShare(ctx)
	if err != nil {
		return err
	}
	before, err := r.attemptsSoFar(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	used, err := r.cpuOver(ctx, func() error {
		for n := range changes {
			r.progress("change %d of %d", n+1, changes)
			if err := r.republish(ctx); err != nil {
				return err
			}
			pause(ctx, changeEvery)
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := r.attemptsSoFar(ctx)
	if err != nil {
		return err
	}
	if refusal.Attempts = after - before; refusal.Attempts > 0 {
		used -= time.Duration(idle * float64(took))
		refusal.CPUPerAttempt = max(0, used).Seconds() / float64(refusal.Attempts)
	}
	return nil
}

// idleShare is the part of a CPU that the scheduler uses when it makes no attempts; 0
// where it did make some although nothing changed.
func (r *run) idleShare(ctx context.Context) (float64, error) {
	pause(ctx, settle)
	before, err := r.attemptsSoFar(ctx)
	if err != nil {
		return 0, err
	}
	used, err := r.cpuOver(ctx, func() error { pause(ctx, idleFor); return nil })
	if err != nil {
		return 0, err
	}
	if after, err := r.attemptsSoFar(ctx); err != nil || after > before {
		return 0, err
	}
	return float64(used) / float64(idleFor), nil
}

func (r *run) attemptsSoFar(ctx context.Context) (int, error) {
	endpoint, err := probe.NewEndpoint(r.lab.RESTConfig(), r.scheduler().Port())
	if err != nil {
		return 0, err
	}
	metrics, err := endpoint.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	return int(metrics.Sum(r.Contender.AttemptMetric)), nil
}

// cpuOver is the CPU time that the scheduler uses while something is done.
func (r *run) cpuOver(ctx context.Context, do func() error) (time.Duration, error) {
	before, err := probe.ReadUsage(r.scheduler().PID())
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := probe.ReadUsage(r.scheduler().PID())
	if err != nil {
		return 0, err
	}
	return after.CPU - before.CPU, ctx.Err()
}

// republish writes the ResourceSlice of the first node again, as a driver does that has
// started anew: with the next generation.
func (r *run) republish(ctx context.Context) error {
	slices := r.client.ResourceV1().ResourceSlices()
	slice, err := slices.Get(ctx, r.cluster.Slices[0].Name, metav1.GetOptions{})
	if err == nil {
		slice.Spec.Pool.Generation++
		_, err = slices.Update(ctx, slice, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("cannot publish the devices of a node anew: %w", err)
	}
	return nil
}
