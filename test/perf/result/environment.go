// SPDX-License-Identifier: Apache-2.0

package result

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// Build tells apart what was built: the start of the SHA-256 of an executable.
func Build(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the executable: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("cannot read the executable: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// ReadVersions finds out the commit, from git, where there is one, and the version of Go.
func ReadVersions(ctx context.Context) Versions {
	v := Versions{Go: runtime.Version()}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		v.Commit = strings.TrimSpace(string(out))
	}
	return v
}

// ReadMachine describes this machine; what it cannot read stays empty.
func ReadMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH}
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	m.CPU = field(string(cpus), "model name")
	memory, _ := os.ReadFile("/proc/meminfo")
	if kb, err := strconv.ParseInt(strings.TrimSuffix(field(string(memory), "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = kb * 1024
	}
	if load, _ := os.ReadFile("/proc/loadavg"); len(load) > 0 {
		m.Load, _ = strconv.ParseFloat(strings.Fields(string(load))[0], 64)
	}
	return m
}

// field is the value of the first line "name : value".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
