// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used since it began.
type Usage struct {
	// CPU is the time on a CPU, user and system, of all threads.
	CPU time.Duration
	// PeakRSS is the most memory that was resident at a time, in bytes.
	PeakRSS int64
}

// ReadUsage reads the usage of a running process.
func ReadUsage(pid int) (Usage, error) {
	return readUsage(filepath.Join("/proc", strconv.Itoa(pid)))
}

func readUsage(dir string) (Usage, error) {
	var u Usage
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return u, fmt.Errorf("cannot read the CPU time: %w", err)
	}
	if u.CPU, err = parseStat(stat); err != nil {
		return u, err
	}
	if precise, err := threadTime(dir); err == nil && precise > u.CPU {
		u.CPU = precise
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, fmt.Errorf("cannot read the memory: %w", err)
	}
	u.PeakRSS, err = parsePeak(status)
	return u, err
}

// tick is the unit of CPU time in /proc/PID/stat: USER_HZ, 100 on every Linux platform
// that Go supports.
const tick = 10 * time.Millisecond

// parseStat reads utime and stime, fields 14 and 15 of /proc/PID/stat (proc_pid_stat(5)).
func parseStat(stat []byte) (time.Duration, error) {
	// The name, field 2, is in parentheses and may hold anything.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("cannot read the CPU time in %q", stat)
	}
	fields := strings.Fields(string(stat[end+1:])) // from field 3 on
	if len(fields) < 13 {
		return 0, fmt.Errorf("cannot read the CPU time in %q", stat)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read the CPU time in %q: %w", stat, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// threadTime adds up the time on a CPU of the threads that there are, in nanoseconds:
// the first field of their schedstat. It misses threads that have ended, which a Go
// program hardly has, so the larger of it and the ticks is nearer to the truth.
func threadTime(dir string) (time.Duration, error) {
	files, err := filepath.Glob(filepath.Join(dir, "task", "*", "schedstat"))
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(content), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read %s: %w", file, err)
		}
		sum += n
	}
	return time.Duration(sum), nil
}

// parsePeak reads VmHWM of /proc/PID/status, in kB (proc_pid_status(5)).
func parsePeak(status []byte) (int64, error) {
	for line := range strings.Lines(string(status)) {
		value, found := strings.CutPrefix(line, "VmHWM:")
		if !found {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		return kb * 1024, err
	}
	return 0, errors.New("cannot find VmHWM in the status of the process")
}
