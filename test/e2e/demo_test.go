// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// The demo is what the README shows first, and its last line is what it proves.
func TestDemo(t *testing.T) {
	path, err := lab.FindBinary("", lab.MultiCall)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "demo", "--scheduler", *schedulerBinary).CombinedOutput()
	if err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := regexp.MustCompile(`^demo: held 0/3 with 1 of 2 GPUs free; bound 3/3 in \d+ ms after the GPU was freed$`)
	if got := lines[len(lines)-1]; !last.MatchString(got) {
		t.Errorf("the last line is %q", got)
	}
}
