// SPDX-License-Identifier: Apache-2.0

package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestResultsAreAppendedAndReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "results.jsonl")
	want := []Result{
		{Workload: "a", Scheduler: "s", Mode: Drain, Scale: 1, Finished: true, Waits: []float64{1, 2}, Requests: map[string]int{"POST pods/binding": 3}},
		{Workload: "b", Scheduler: "s", Mode: Drain, Scale: 1, Error: "too slow", Refusal: &Refusal{GangTold: -1}},
	}
	for i := range want {
		if err := Append(path, &want[i]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(path, filepath.Join(t.TempDir(), "missing.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
}

func TestBrokenLineIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	if err := os.WriteFile(path, []byte("{}\n\n{broken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "results.jsonl:3") {
		t.Errorf("got %v", err)
	}
}

func TestGroupIsSortedByTime(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	groups := Group([]Result{{Workload: "a", Round: 2, Time: late}, {Workload: "b", Time: early}, {Workload: "a", Round: 1, Time: early}})
	if got := groups[Key{Workload: "a"}]; len(groups) != 2 || len(got) != 2 || got[0].Round != 1 {
		t.Errorf("got %v", groups)
	}
}

func TestNewestKeepsTheLastBuildOfEach(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	results := []Result{
		{Scheduler: "a", Build: "old", Time: early}, {Scheduler: "a", Build: "new", Time: late, Round: 1},
		{Scheduler: "a", Build: "new", Time: late, Round: 2}, {Scheduler: "b", Build: "old", Time: early},
	}
	if diff := cmp.Diff(results[1:], Newest(results)); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
}

func TestBuildsAreToldApart(t *testing.T) {
	dir := t.TempDir()
	var builds []string
	for _, content := range []string{"one", "two", "one"} {
		path := filepath.Join(dir, "program")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		build, err := Build(path)
		if err != nil {
			t.Fatal(err)
		}
		builds = append(builds, build)
	}
	if builds[0] == builds[1] || builds[0] != builds[2] {
		t.Errorf("got %v", builds)
	}
}

func TestFieldOfProc(t *testing.T) {
	if got := field("processor\t: 0\nmodel name\t: Fast CPU\nmodel name\t: other\n", "model name"); got != "Fast CPU" {
		t.Errorf("got %q", got)
	}
}
