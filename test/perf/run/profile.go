// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/probe"
)

// profileFor is how long the CPU profile lasts; a run that ends sooner waits for it. An
// idle scheduler adds next to nothing to it.
const profileFor = 15 * time.Second

// profile takes a CPU profile from now on, then a heap profile, and reports when both
// are written; nil when none is wanted.
func (r *run) profile(ctx context.Context) <-chan error {
	if r.ProfileDir == "" || r.Contender.Scheduler == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- r.writeProfiles(ctx) }()
	return done
}

func (r *run) writeProfiles(ctx context.Context) error {
	endpoint, err := probe.NewEndpoint(r.lab.RESTConfig(), r.scheduler().Port())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.ProfileDir, 0o755); err != nil {
		return fmt.Errorf("cannot keep profiles: %w", err)
	}
	for _, p := range []struct{ name, path string }{
		{"cpu", fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileFor.Seconds()))},
		{"heap", "/debug/pprof/heap"},
		{"allocs", "/debug/pprof/allocs"},
	} {
		content, err := endpoint.Get(ctx, p.path)
		if err != nil {
			return fmt.Errorf("cannot take the %s profile: %w", p.name, err)
		}
		name := fmt.Sprintf("%s-%s-%s-%d.%s.pprof", r.Workload.Name, r.Contender.Name, r.Mode, r.Round, p.name)
		if err := os.WriteFile(filepath.Join(r.ProfileDir, name), content, 0o644); err != nil {
			return fmt.Errorf("cannot keep the %s profile: %w", p.name, err)
		}
	}
	return nil
}
