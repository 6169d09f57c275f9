// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// tailBytes bounds how much of a log is read to find its last lines.
const tailBytes = 64 << 10

// ExitError says that a process ended although it was wanted.
type ExitError struct {
	Name    string
	How     string   // "exit status 1", "signal: killed"
	LogFile string   // the whole log
	Tail    []string // its last lines
}

func (e *ExitError) Error() string {
	if len(e.Tail) == 0 {
		return fmt.Sprintf("%s ended (%s) and wrote nothing to %s", e.Name, e.How, e.LogFile)
	}
	return fmt.Sprintf("%s ended (%s); the last lines of %s:\n  %s", e.Name, e.How, e.LogFile, strings.Join(e.Tail, "\n  "))
}

// Tail returns the last n lines of the file that lie after offset from (bytes).
func Tail(file string, from int64, n int) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	start := max(from, info.Size()-tailBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, start, info.Size()-start))
	if err != nil {
		return nil, err
	}
	if start > from { // the first line is cut
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			data = data[i+1:]
		}
	}
	text := strings.TrimRight(string(data), "\n")
	if text == "" {
		return nil, nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):], nil
}
