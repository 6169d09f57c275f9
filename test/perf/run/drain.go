// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/contender"
	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/oracle"
)

// drain creates the load, then starts the scheduler.
func (r *run) drain(ctx context.Context) (err error) {
	if err := r.createAndWait(ctx); err != nil {
		return err
	}
	if r.before, err = r.requests(ctx); err != nil {
		return err
	}
	if r.Contender.Scheduler == nil {
		return r.consult(ctx)
	}
	if err := r.startScheduler(ctx); err != nil {
		return err
	}
	r.begin = time.Now()
	return r.finish(ctx, r.profile(ctx))
}

// arrive starts the scheduler, then creates the load.
func (r *run) arrive(ctx context.Context) (err error) {
	if err := r.startScheduler(ctx); err != nil {
		return err
	}
	if r.before, err = r.requests(ctx); err != nil {
		return err
	}
	profiled := r.profile(ctx)
	r.begin = time.Now()
	created := make(chan error, 1)
	creating, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { created <- r.create(creating, &r.set) }()
	if err := r.finish(ctx, profiled); err != nil {
		return err
	}
	cancel()
	// A scheduler that is cut short leaves pods that were not created.
	if err := <-created; err != nil && !errors.Is(err, context.Canceled) && r.out.Finished {
		return err
	}
	return nil
}

// consult has the oracle make its writes.
func (r *run) consult(ctx context.Context) error {
	places, err := oracle.Placement(&r.set, r.cluster)
	if err != nil {
		return fmt.Errorf("the oracle finds no placement: %w", err)
	}
	job, err := oracle.Prepare(ctx, r.config, contender.TunedQPS, contender.TunedBurst, places)
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	r.begin = time.Now()
	go func() { written <- job.Write(writing) }()
	if err := r.finish(ctx, nil); err != nil {
		return err
	}
	cancel()
	if err := <-written; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// finish waits until all is bound that is to be, or the time is up, and sums up.
func (r *run) finish(ctx context.Context, profiled <-chan error) error {
	r.out.Error = r.await(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	r.out.Finished = r.out.Error == ""
	if err := r.quieten(ctx); err != nil {
		return err
	}
	if profiled != nil {
		if err := <-profiled; err != nil {
			return err
		}
	}
	return r.sumUp(ctx)
}

// await waits until all pods are bound that are to be; otherwise it says why not.
func (r *run) await(ctx context.Context) string {
	limit, cancel := context.WithTimeoutCause(ctx, r.timeout(), fmt.Errorf("not finished after %v", r.timeout()))
	defer cancel()
	limit, end := context.WithCancelCause(limit)
	defer end(nil)
	if c := r.scheduler(); c != nil {
		exited := c.Exited()
		go func() {
			select {
			case <-exited:
				end(fmt.Errorf("%w: %w", errEnded, c.Err()))
			case <-limit.Done():
			}
		}()
	}
	stop := r.watchProgress(limit)
	defer stop()
	err := r.record.WaitFor(limit, func(c journal.Counts) bool { return c.Bound >= r.out.Pods })
	if err == nil {
		return ""
	}
	return context.Cause(limit).Error()
}

// watchProgress tells how many pods are bound, twice a second, until the returned
// function is called.
func (r *run) watchProgress(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			counts, _ := r.record.Counts()
			r.progress("%d of %d pods bound after %.0f s", counts.Bound, r.out.Pods, time.Since(r.begin).Seconds())
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}
