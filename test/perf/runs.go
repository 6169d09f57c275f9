// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/podgang/podgang-scheduler/test/perf/contender"
	"github.com/podgang/podgang-scheduler/test/perf/report"
	"github.com/podgang/podgang-scheduler/test/perf/result"
	"github.com/podgang/podgang-scheduler/test/perf/run"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// defaultOut is where results go unless told otherwise.
const defaultOut = "perf-results/results.jsonl"

// session makes runs and keeps their results.
type session struct {
	out      string
	scale    float64
	profile  string
	long     bool
	keep     bool
	timeout  time.Duration
	progress *report.Progress
}

func (s *session) flags(set *flag.FlagSet) {
	set.StringVar(&s.out, "out", defaultOut, "file of JSON lines that results are appended to")
	set.Float64Var(&s.scale, "scale", 1, "multiplies nodes and gangs of every workload, for a quick look")
	set.StringVar(&s.profile, "profile", "", "directory for CPU and heap profiles of the schedulers")
	set.BoolVar(&s.long, "long", false, "run churn for its long time")
	set.BoolVar(&s.keep, "keep", false, "keep the logs of the control planes")
	set.DurationVar(&s.timeout, "timeout", 0, "bound for the measured part of a run, in place of the workload's")
}

// one makes one run.
func (s *session) one(ctx context.Context, w *workload.Workload, c *contender.Contender, mode string, round int) (*result.Result, error) {
	s.progress.Begin(fmt.Sprintf("%s, %s, round %d", w.Name, c.Name, round))
	r, err := run.Run(ctx, run.Options{
		Workload: w, Contender: c, Mode: mode, Scale: s.scale, Round: round, Long: s.long, Timeout: s.timeout,
		ProfileDir: s.profile, Keep: s.keep, Progress: s.progress.Tell,
	})
	if err != nil {
		return nil, fmt.Errorf("%s, %s, round %d: %w", w.Name, c.Name, round, err)
	}
	s.progress.Say(report.Line(r))
	return r, result.Append(s.out, r)
}

// runCommand runs workloads on schedulers.
func runCommand(ctx context.Context, args []string) error {
	s := &session{progress: report.NewProgress(os.Stderr)}
	set := flag.NewFlagSet("perf", flag.ContinueOnError)
	s.flags(set)
	workloads := set.String("workload", "small", "workloads, separated by commas: "+strings.Join(workload.Names(), ", "))
	schedulers := set.String("scheduler", contender.PodGang, "schedulers, separated by commas: "+strings.Join(contender.Names(), ", "))
	rounds := set.Int("rounds", 1, "how often each is run; rounds take turns, so that all meet the same machine")
	mode := set.String("mode", result.Drain, result.Drain+": the load is created before the scheduler starts; "+result.Arrival+": while it runs")
	plots := set.String("plots", "", "directory for plots as SVG")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *mode != result.Drain && *mode != result.Arrival {
		return fmt.Errorf("unknown mode %q: use %s or %s", *mode, result.Drain, result.Arrival)
	}
	list, err := pairs(*workloads, *schedulers)
	if err != nil {
		return err
	}
	var results []result.Result
	for round := 1; round <= *rounds; round++ {
		for _, p := range list {
			r, err := s.one(ctx, p.workload, p.contender, *mode, round)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				s.progress.Say(err.Error())
				continue
			}
			results = append(results, *r)
		}
	}
	if want := len(list) * *rounds; len(results) < want {
		defer func() {
			s.progress.Say(fmt.Sprintf("%d of %d runs could not be made, see above", want-len(results), want))
		}()
	}
	return show(os.Stdout, results, *plots, false)
}

// pair is what to run on what.
type pair struct {
	workload  *workload.Workload
	contender *contender.Contender
}

func pairs(workloads, schedulers string) ([]pair, error) {
	var list []pair
	for _, name := range strings.Split(workloads, ",") {
		w, err := workload.Load(name)
		if err != nil {
			return nil, err
		}
		for _, name := range strings.Split(schedulers, ",") {
			c, err := contender.Get(name)
			if err != nil {
				return nil, err
			}
			list = append(list, pair{w, c})
		}
	}
	return list, nil
}
