// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/testlab"
)

// The short run of every test of the project: a seed whose plan has all kinds of faults.
const (
	shortSeed     = 158
	shortDuration = 25 * time.Second
)

var (
	seedFlag      = flag.String("seed", strconv.Itoa(shortSeed), "what the run is planned from: a number, or random")
	durationFlag  = flag.Duration("duration", shortDuration, "how long there are faults")
	schedulerFlag = flag.String("scheduler", lab.PodGangScheduler, "what schedules: "+lab.PodGangScheduler+" or "+lab.KubeScheduler)
	patienceFlag  = flag.Duration("patience", 90*time.Second, "how long the cluster may take to become calm when faults stop")
	keepFlag      = flag.Bool("keep", false, "keep plan, timeline and logs when nothing is found too")
)

// summary is the last line of the output, once there is one.
var summary string

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // watches break when the API server is killed
	code := m.Run()
	if summary != "" {
		fmt.Println(summary)
	}
	os.Exit(code)
}

func parseSeed() (uint64, error) {
	if *seedFlag == "random" {
		return uint64(rand.Uint32()), nil
	}
	return strconv.ParseUint(*seedFlag, 10, 64)
}

// TestChaos is a run.
func TestChaos(t *testing.T) {
	seed, err := parseSeed()
	if err != nil {
		t.Fatalf("the seed is a number or \"random\": %v", err)
	}
	if err := testlab.RequireBuilt(); err != nil {
		t.Fatal(err)
	}
	opts := options{seed: seed, duration: *durationFlag, scheduler: *schedulerFlag, patience: *patienceFlag}
	say("seed %d, %v under fire", seed, opts.duration)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := newRun(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	found := r.carryOut(ctx)
	cancel()
	r.stop()
	for _, err := range r.errs {
		t.Errorf("the run could not be carried out as planned: %v", err)
	}
	summary = fmt.Sprintf("chaos: %d gangs, %d faults, %d violations", len(r.judge.seen), r.journal.faultCount(), len(found))
	if len(found) > 0 {
		t.Errorf("%d violations; replay with: make chaos SEED=%d DURATION=%v", len(found), seed, opts.duration)
	}
	if err := r.keep(found, t.Failed() || *keepFlag); err != nil {
		t.Error(err)
	}
}

func say(format string, args ...any) { fmt.Printf("chaos: "+format+"\n", args...) }

// carryOut goes through the rounds and the finale, and returns what was found.
func (r *run) carryOut(ctx context.Context) []finding {
	var found []finding
	begin, steps := time.Duration(0), r.plan.steps
	for n, end := range r.plan.rounds {
		i, _ := slices.BinarySearchFunc(steps, end, func(s step, end time.Duration) int { return cmp.Compare(s.at, end) })
		before := r.journal.faultCount()
		r.fire(ctx, steps[:i], begin, end)
		steps, begin = steps[i:], end
		r.peace(ctx)
		peace := time.Now()
		fresh := r.collect(r.calm(ctx, nil))
		found = append(found, fresh...)
		say("round %d of %d: %d steps, %d faults, calm after %.1f s, %d violations so far", n+1, len(r.plan.rounds), i,
			r.journal.faultCount()-before, time.Since(peace).Seconds(), len(found))
		for _, f := range fresh {
			say("VIOLATION %s %s", f.subject, f.text)
		}
	}
	found = append(found, r.collect(r.finale(ctx))...)
	say("%d gangs began to be bound with all devices checked, %d unchecked because the API server had just been killed; %d bound in part with an excuse",
		r.judge.prepared, r.judge.unsure, len(r.judge.excused))
	return found
}

// collect adds to what was found at rest what has been found since the last call.
func (r *run) collect(atRest []finding) []finding {
	found := slices.Concat(r.judge.findings, atRest, r.logAlarms())
	r.judge.findings = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	found = append(found, r.fallen...)
	r.fallen = nil
	return found
}

// logAlarms are lines of the scheduler's log that must not be.
func (r *run) logAlarms() []finding {
	lines, err := r.log.lines()
	if err != nil {
		return []finding{{at: time.Now(), text: "cannot read the scheduler's log: " + err.Error()}}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []finding
	for _, line := range lines {
		if at, ok := logTime(line); ok {
			r.logged = at // the lines of a long message have no time of their own
		}
		if alarm(line, r.logged, r.apiDown) && len(found) < 5 {
			found = append(found, finding{at: time.Now(), subject: subjectOf(line), text: "the scheduler's log says: " + line})
		}
	}
	return found
}

// shown is how many lines of a timeline are printed, and afterwards how long after the
// violation they end; the whole is in a file.
const (
	shown      = 40
	afterwards = time.Second
)

// keep tells what was found, and writes down all that is known of it, or removes the
// directory of the run.
func (r *run) keep(found []finding, keep bool) error {
	if !keep {
		return os.RemoveAll(r.dir)
	}
	if err := r.write("timeline.txt", r.journal.about("", time.Now())); err != nil {
		return err
	}
	r.log.offset = 0
	log, err := r.log.lines()
	if err != nil {
		return err
	}
	for n, f := range found {
		fmt.Printf("\nVIOLATION %d %s %s\n", n+1, f.subject, f.text)
		if n < 5 && f.subject != "" {
			until := f.at.Add(afterwards)
			story := slices.DeleteFunc(r.journal.about(f.subject, until), func(line string) bool { return !strings.Contains(line, f.subject) })
			fmt.Print(indent(last(story, shown)), indent(last(linesAbout(log, f.subject, until), shown/4)))
		}
		lines := slices.Concat(
			[]string{fmt.Sprintf("violation %d, seed %d, seen %s", n+1, r.opts.seed, f.at.Format("15:04:05.000")), f.text},
			[]string{"", "timeline of " + cmp.Or(f.subject, "everything"), ""}, r.journal.about(f.subject, time.Now()),
			[]string{"", "the scheduler's log", ""}, linesAbout(log, f.subject, time.Now()),
		)
		if err := r.write(fmt.Sprintf("violation-%02d.txt", n+1), lines); err != nil {
			return err
		}
	}
	say("plan, timeline, violations and logs of all components (lab/logs) are in %s", r.dir)
	return nil
}

func (r *run) write(name string, lines []string) error {
	return os.WriteFile(filepath.Join(r.dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}
