// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/perf/contender"
	"github.com/podgang/podgang-scheduler/test/perf/report"
	"github.com/podgang/podgang-scheduler/test/perf/result"
	"github.com/podgang/podgang-scheduler/test/perf/target"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// targetsCommand makes the runs that the targets need and are not there yet, and judges
// all there are. It ends well when a target is short: that is a result.
func targetsCommand(ctx context.Context, args []string) error {
	s := &session{progress: report.NewProgress(os.Stderr)}
	set := flag.NewFlagSet("perf targets", flag.ContinueOnError)
	s.flags(set)
	only := set.String("only", "", "workloads, separated by commas; all without it")
	budget := set.Duration("budget", 85*time.Minute, "no run is begun after this time")
	again := set.Bool("again", false, "run what the results have of this build already too")
	judge := set.Bool("judge", false, "run nothing, judge the results")
	markdown := set.Bool("markdown", false, "write the tables in Markdown")
	plots := set.String("plots", "", "directory for plots as SVG")
	if err := set.Parse(args); err != nil {
		return err
	}
	var workloads []string
	if *only != "" {
		workloads = strings.Split(*only, ",")
	}
	if !*judge {
		if err := s.due(ctx, workloads, *again, *budget); err != nil {
			return err
		}
	}
	results, err := result.Read(s.out)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return errors.New("there are no results")
	}
	if err := show(os.Stdout, results, *plots, *markdown); err != nil {
		return err
	}
	return writeTable(os.Stdout, target.Table(target.Judge(results, s.scale, workloads)), *markdown)
}

// due makes the runs that are due, until the budget is used up.
func (s *session) due(ctx context.Context, only []string, again bool, budget time.Duration) error {
	var done []result.Result
	if !again {
		var err error
		if done, err = result.Read(s.out); err != nil {
			return err
		}
	}
	builds, err := currentBuilds()
	if err != nil {
		return err
	}
	runs := target.Due(target.Plan(), only, s.scale, done, func(scheduler string) string { return builds[scheduler] })
	begin := time.Now()
	for i, due := range runs {
		if left := len(runs) - i; time.Since(begin) > budget {
			s.progress.Say(fmt.Sprintf("%d of %d runs are left out: %v are used up; the same command goes on with them", left, len(runs), budget))
			return nil
		}
		w, err := workload.Load(due.Workload)
		if err != nil {
			return err
		}
		c, err := contender.Get(due.Scheduler)
		if err != nil {
			return err
		}
		s.progress.Say(fmt.Sprintf("run %d of %d, %.0f min so far: %s, %s, round %d", i+1, len(runs), time.Since(begin).Minutes(), w.Name, c.Name, due.Round))
		if _, err := s.one(ctx, w, c, result.Drain, due.Round); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// It is due again next time.
			s.progress.Say(err.Error())
		}
	}
	return nil
}

// currentBuilds are those of the executables that would run now, by scheduler.
func currentBuilds() (map[string]string, error) {
	builds, byBinary := map[string]string{}, map[string]string{}
	for _, name := range contender.Names() {
		c, err := contender.Get(name)
		if err != nil {
			return nil, err
		}
		if byBinary[c.Binary] == "" {
			path, err := lab.FindBinary("", c.Binary)
			if err != nil {
				return nil, err
			}
			if byBinary[c.Binary], err = result.Build(path); err != nil {
				return nil, err
			}
		}
		builds[name] = byBinary[c.Binary]
	}
	return builds, nil
}
