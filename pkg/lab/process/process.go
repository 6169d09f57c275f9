// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	// Name is what errors call the process.
	Name string
	// Path is the executable, Args its arguments without the program name.
	Path string
	Args []string
	// Env is the whole environment of the process; nil means that of the parent.
	Env []string
	// Dir is the working directory; empty means that of the parent.
	Dir string
	// LogFile gets standard output and standard error, appended.
	LogFile string
}

// Process is one started child process.
type Process struct {
	spec     Spec
	cmd      *exec.Cmd
	started  time.Time
	logStart int64 // size of the log file before this process wrote to it

	done chan struct{} // closed when the process has ended
	err  error         // result of Wait; written before done is closed, read only after
}

// Start runs spec as a child in its own process group, so that an interrupt typed
// at the terminal reaches only the parent, which then stops its children in order.
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.LogFile), 0o700); err != nil {
		return nil, fmt.Errorf("%s: cannot make the log directory: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot open its log: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	info, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: cannot read its log: %w", spec.Name, err)
	}

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("%s: cannot start: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: cmd, started: time.Now(), logStart: info.Size(), done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Started is when the process was started.
func (p *Process) Started() time.Time { return p.started }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Exit describes how the process ended; it is nil while the process runs.
func (p *Process) Exit() *ExitError {
	if p.Running() {
		return nil
	}
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return &ExitError{Name: p.spec.Name, How: how, LogFile: p.spec.LogFile, Tail: p.LogTail(12)}
}

// LogTail returns the last lines that this process wrote, at most n.
func (p *Process) LogTail(n int) []string {
	lines, err := Tail(p.spec.LogFile, p.logStart, n)
	if err != nil {
		return []string{fmt.Sprintf("(cannot read the log: %v)", err)}
	}
	return lines
}

// Kill sends SIGKILL and waits for the end. Killing an ended process does nothing.
func (p *Process) Kill() {
	if p.Running() {
		// The only error is that the process ended first.
		_ = p.cmd.Process.Kill()
	}
	<-p.done
}

// Stop sends SIGTERM, waits up to grace (or until ctx ends), then kills.
func (p *Process) Stop(ctx context.Context, grace time.Duration) {
	if !p.Running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.Kill()
}
