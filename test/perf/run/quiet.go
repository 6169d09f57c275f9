// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/probe"
)

// look is how often the number of writes is read; it costs the API server, not the
// scheduler.
const look = 250 * time.Millisecond

// quieten waits, after a run that has finished, until what its bindings have left behind
// is written. One that has not finished never gets quiet: it gets the time for what was
// under way.
func (r *run) quieten(ctx context.Context) error {
	if !r.out.Finished {
		pause(ctx, settle)
		return ctx.Err()
	}
	r.progress("waiting for the last writes")
	return quiet(ctx, func(ctx context.Context) (int, error) {
		requests, err := r.requests(ctx)
		// Leases are renewed for ever.
		return probe.Writes(requests, "leases"), err
	})
}

// quiet waits until the count has not changed for settle, but no longer than settleLimit.
func quiet(ctx context.Context, count func(context.Context) (int, error)) error {
	begin := time.Now()
	last, since := -1, begin
	for {
		n, err := count(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		if n != last {
			last, since = n, now
		}
		if now.Sub(since) >= settle || now.Sub(begin) >= settleLimit {
			return ctx.Err()
		}
		pause(ctx, look)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
