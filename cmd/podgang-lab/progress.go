// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/view"
)

var (
	okStyle   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	failStyle = lipgloss.NewStyle().Foreground(lipgloss.Red)
	dimStyle  = lipgloss.NewStyle().Faint(true)
)

// showAfter is how long a step may take before it is shown as running.
const showAfter = time.Second

// steps shows steps: a line for each that has ended, and on a terminal a last line
// with those that are taking longer than showAfter.
type steps struct {
	out  *os.File
	live bool
	quit chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex // guards running, and writing to out
	running []runningStep
	shown   bool // the live line is on the screen
}

type runningStep struct {
	name  string
	since time.Time
}

func newSteps(out *os.File) *steps {
	s := &steps{out: out, live: term.IsTerminal(int(out.Fd())), quit: make(chan struct{})}
	if s.live {
		s.done.Go(s.animate)
	}
	return s
}

func (s *steps) animate() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-ticker.C:
			s.mu.Lock()
			s.drawLive()
			s.mu.Unlock()
		}
	}
}

// drawLive needs the lock.
func (s *steps) drawLive() {
	var slow []string
	for _, r := range s.running {
		if took := time.Since(r.since); took >= showAfter {
			slow = append(slow, fmt.Sprintf("%s %.1f s", r.name, took.Seconds()))
		}
	}
	s.clearLive()
	if len(slow) > 0 {
		view.Printf(s.out, "%s", dimStyle.Render("  … "+strings.Join(slow, ", ")))
		s.shown = true
	}
}

// clearLive needs the lock.
func (s *steps) clearLive() {
	if s.shown {
		view.Printf(s.out, "\r\033[K")
		s.shown = false
	}
}

// report is told of a step's start and end.
func (s *steps) report(step lab.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !step.Done {
		s.running = append(s.running, runningStep{step.Name, time.Now()})
		return
	}
	s.running = slices.DeleteFunc(s.running, func(r runningStep) bool { return r.name == step.Name })
	s.clearLive()
	mark, note := okStyle.Render("✓"), step.Note
	if step.Err != nil {
		mark, note = failStyle.Render("✗"), "failed"
	}
	view.Printf(s.out, "%s %-28s %5.1f s  %s\n", mark, step.Name, step.Took.Seconds(), note)
}

func (s *steps) close() {
	close(s.quit)
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLive()
}
