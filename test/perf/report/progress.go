// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// quietEvery is how often progress is written where it cannot be overwritten.
const quietEvery = 20 * time.Second

// Progress writes what happens on one line that is overwritten, or on a terminal's
// absence a line now and then.
type Progress struct {
	out      io.Writer
	terminal bool

	mu      sync.Mutex // guards the fields below
	prefix  string
	written time.Time
}

// NewProgress writes to the file.
func NewProgress(file *os.File) *Progress {
	return &Progress{out: file, terminal: term.IsTerminal(int(file.Fd()))}
}

// Begin names what is done from now on.
func (p *Progress) Begin(prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prefix, p.written = prefix, time.Now()
}

// Tell says how far it is.
func (p *Progress) Tell(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.terminal:
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s: %s", p.prefix, message) // nobody is told where nobody can be
	case time.Since(p.written) >= quietEvery:
		p.written = time.Now()
		_, _ = fmt.Fprintf(p.out, "%s: %s\n", p.prefix, message)
	}
}

// Say writes a line that stays.
func (p *Progress) Say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	erase := ""
	if p.terminal {
		erase = "\r\x1b[K"
	}
	_, _ = fmt.Fprintf(p.out, "%s%s\n", erase, line)
}
