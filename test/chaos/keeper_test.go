// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// keeper runs a component of the lab as its kubelet would: what ends is started again.
type keeper struct {
	component *lab.Component
	journal   *journal
	// fell is told when the component has ended by itself after it was ready.
	fell func(err error)
	// killed is told before the component is killed, started when it is ready again.
	killed  func()
	started func(ctx context.Context) error

	mu sync.Mutex // held while the component is ended or started
}

// startPause is how long a keeper waits before it starts a component again that has
// not come up.
const startPause = 300 * time.Millisecond

// restart kills the component, and starts it again after a while.
func (k *keeper) restart(ctx context.Context, down time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killed != nil {
		k.killed()
	}
	k.journal.fault("kill " + k.component.Name())
	k.component.Kill()
	if !pause(ctx, down) {
		return ctx.Err()
	}
	return k.start(ctx)
}

// start starts the component until it is ready. A scheduler that cannot reach the API
// server at its start may end, and is started again.
func (k *keeper) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*persistence)
	defer cancel()
	for {
		err := k.component.Start(ctx)
		if err == nil {
			k.journal.note("", k.component.Name()+" is ready")
			if k.started != nil {
				return k.started(ctx)
			}
			return nil
		}
		k.journal.note("", fmt.Sprintf("%s did not come up: %v", k.component.Name(), err))
		if !pause(ctx, startPause) {
			return errors.Join(fmt.Errorf("%s does not come up", k.component.Name()), err)
		}
	}
}

// watch starts the component again when it ends by itself, until ctx ends.
func (k *keeper) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.component.Exited():
		}
		k.mu.Lock()
		if ctx.Err() == nil && !k.component.Running() {
			k.fell(k.component.Err())
			_ = k.start(ctx) // if it does not come up, the component is missing at rest
		}
		k.mu.Unlock()
	}
}

// logReader reads what a component has logged, piece by piece.
type logReader struct {
	file   string
	offset int64
}

// lines returns the whole lines that are new.
func (l *logReader) lines() ([]string, error) {
	file, err := os.Open(l.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, err
	}
	var lines []string
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		l.offset += int64(len(line))
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
}

// busy says that the component has logged something in the time of a pause, "" if not.
func (l *logReader) busy(pause time.Duration) string {
	info, err := os.Stat(l.file)
	if err != nil {
		return err.Error()
	}
	if time.Since(info.ModTime()) >= pause {
		return ""
	}
	const tail = 4096 // more than a line
	lines, err := (&logReader{file: l.file, offset: max(0, info.Size()-tail)}).lines()
	if err != nil {
		return err.Error()
	}
	return strings.Join(last(lines, 1), "")
}

// linesAbout are the lines of a log that name the subject, up to a time.
func linesAbout(log []string, subject string, until time.Time) []string {
	var lines []string
	for _, line := range log {
		if at, ok := logTime(line); ok && at.After(until) {
			break
		}
		if subject != "" && strings.Contains(line, subject) {
			lines = append(lines, line)
		}
	}
	return lines
}

// alarming are words that the scheduler's log must not contain.
var alarming = []string{"panic", "data race", "fatal error", "nil pointer", "likely a bug", "forbidden"}

// alarm reports whether a line of the scheduler's log, written at a time, is one that
// must not be. For some seconds after its start, an API server may forbid everything: it
// has not read the roles yet.
func alarm(line string, at time.Time, apiDown []span) bool {
	lower := strings.ToLower(line)
	return slices.ContainsFunc(alarming, func(word string) bool {
		return strings.Contains(lower, word) && (word != "forbidden" || !within(at, apiDown, lag))
	})
}

// span is a time, an open one if to is zero.
type span struct{ from, to time.Time }

// within reports whether a time is in one of the spans or not longer than more after it.
func within(at time.Time, spans []span, more time.Duration) bool {
	return slices.ContainsFunc(spans, func(s span) bool {
		return at.After(s.from) && (s.to.IsZero() || at.Before(s.to.Add(more)))
	})
}

// logTime is the time of a line in klog's format: "E1129 17:38:57.123456 ...".
func logTime(line string) (time.Time, bool) {
	const layout = "0102 15:04:05.000000"
	if len(line) < len(layout)+1 {
		return time.Time{}, false
	}
	at, err := time.ParseInLocation(layout, line[1:len(layout)+1], time.Local)
	if err != nil {
		return time.Time{}, false
	}
	return at.AddDate(time.Now().Year(), 0, 0), true
}
