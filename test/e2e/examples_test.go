// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// labCommand runs podgang-lab on a lab of its own and returns what it prints.
type labCommand struct {
	t         *testing.T
	path, dir string
}

func (l labCommand) run(args ...string) string {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), 4**patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, l.path, append([]string{"--dir", l.dir}, args...)...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("podgang-lab %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The examples of an NVL72 rack do what their first lines say: in one NVLink domain when
// there is one, in two when none has room and the gang may.
func TestExamplesOfNVL72(t *testing.T) {
	path, err := lab.FindBinary("", lab.MultiCall)
	if err != nil {
		t.Fatal(err)
	}
	l := labCommand{t, path, t.TempDir()}
	l.run("up", "--shape", "c-2", "--scheduler", *schedulerBinary)
	t.Cleanup(func() { l.run("down") })
	for _, tc := range []struct {
		example  string
		cordoned []string
		want     []string
	}{
		{"nvl72", nil, []string{`nvl72-0 +Running +18 of 18 .* 1\.0000`, `(?m)nvl72-0 +\S+\.1 +18 +18$`}},
		{"nvl72-preferred", oneTrayOfEach, []string{
			`nvl72-preferred-0 +Running +18 of 18 .* 0\.3462`, `(?m)nvl72-preferred-0 +\S+\.1 +17 +17$`, `(?m)nvl72-preferred-0 +\S+\.1 +1 +1$`,
		}},
	} {
		for _, name := range tc.cordoned {
			l.run("kubectl", "cordon", name)
		}
		out := l.run("run", tc.example)
		for _, want := range tc.want {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("run %s does not print %q:\n%s", tc.example, want, out)
			}
		}
		l.run("kubectl", "delete", "namespace", tc.example)
	}
}
