// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab/process"
)

const (
	// readyPoll is how often a starting component is asked whether it is ready.
	readyPoll = 40 * time.Millisecond
	// stopGrace is how long a component may take to end after SIGTERM.
	stopGrace = 5 * time.Second
)

// Component is one process of the lab, which can be ended and started again with
// the same arguments, data and port.
type Component struct {
	spec    process.Spec
	port    int
	ready   func(context.Context) error // nil error: ready to serve
	timeout time.Duration
	// relaunches is how often it is started again when it ends before it is ready.
	relaunches int

	startMu sync.Mutex // held while starting, so that there is one process at a time

	mu     sync.Mutex       // guards the fields below
	proc   *process.Process // the latest process; nil before the first start
	starts int
}

// Name is the component's name.
func (c *Component) Name() string { return c.spec.Name }

// Port is the port on 127.0.0.1 that the component serves on.
func (c *Component) Port() int { return c.port }

// LogFile is the file that gets the component's output, of all its starts.
func (c *Component) LogFile() string { return c.spec.LogFile }

// Start starts the component and waits until it is ready. It does nothing when the
// component runs already.
func (c *Component) Start(ctx context.Context) error {
	c.startMu.Lock()
	defer c.startMu.Unlock()
	if proc := c.process(); proc != nil && proc.Running() {
		return nil
	}
	err := c.launch(ctx)
	for range c.relaunches {
		exit := (*process.ExitError)(nil)
		if !errors.As(err, &exit) || strings.HasPrefix(exit.How, "signal") {
			break // it did not end by itself
		}
		err = c.launch(ctx)
	}
	return err
}

// launch starts a process and waits until it is ready.
func (c *Component) launch(ctx context.Context) error {
	proc, err := process.Start(c.spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.proc = proc
	c.starts++
	c.mu.Unlock()
	if err := c.waitReady(ctx, proc); err != nil {
		proc.Kill()
		return err
	}
	return nil
}

// process is the latest process, nil before the first start.
func (c *Component) process() *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

func (c *Component) waitReady(parent context.Context, proc *process.Process) error {
	ctx, cancel := context.WithTimeout(parent, c.timeout)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	var last error
	for {
		select {
		case <-proc.Done():
			return proc.Exit()
		case <-ctx.Done():
			if err := parent.Err(); err != nil {
				return fmt.Errorf("the start of %s was given up: %w", c.Name(), err)
			}
			if last == nil {
				last = ctx.Err()
			}
			return fmt.Errorf("%s is not ready after %.0f s: %w; see %s", c.Name(), time.Since(proc.Started()).Seconds(), last, c.LogFile())
		case <-ticker.C:
			attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := c.ready(attempt)
			cancel()
			if err == nil && proc.Running() {
				return nil
			}
			if ctx.Err() == nil {
				last = err
			}
		}
	}
}

// Kill ends the component with SIGKILL and returns when it is gone. A Start that still
// waits for the component then fails.
func (c *Component) Kill() {
	if proc := c.process(); proc != nil {
		proc.Kill()
	}
}

// Stop ends the component with SIGTERM, or with SIGKILL if it does not end in a few
// seconds or ctx ends.
func (c *Component) Stop(ctx context.Context) {
	if proc := c.process(); proc != nil {
		proc.Stop(ctx, stopGrace)
	}
}

// Running reports whether the component's process runs.
func (c *Component) Running() bool {
	proc := c.process()
	return proc != nil && proc.Running()
}

// PID is the process id of the latest start, 0 before the first.
func (c *Component) PID() int {
	proc := c.process()
	if proc == nil {
		return 0
	}
	return proc.PID()
}

// Restarts is how often the component was started after the first time.
func (c *Component) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.starts-1)
}

// Since is when the latest process of the component was started.
func (c *Component) Since() time.Time {
	proc := c.process()
	if proc == nil {
		return time.Time{}
	}
	return proc.Started()
}

// Exited is closed when the latest process of the component has ended. It is nil
// before the first start.
func (c *Component) Exited() <-chan struct{} {
	proc := c.process()
	if proc == nil {
		return nil
	}
	return proc.Done()
}

// Err says how the component ended, with the end of its log; nil while it runs and
// before the first start.
func (c *Component) Err() error {
	proc := c.process()
	if proc == nil {
		return nil
	}
	if exit := proc.Exit(); exit != nil {
		return exit
	}
	return nil
}
