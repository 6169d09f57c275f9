// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const stat = "42 (a) b) S 1 42 42 0 -1 4194304 2549 0 0 0 150 25 0 0 20 0 12 0 8863 1 2 3"

func TestUsageIsReadFromProc(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "stat", stat)
	write(t, dir, "status", "Name:\ta\nVmPeak:\t  900 kB\nVmHWM:\t   300 kB\nVmRSS:\t 200 kB\n")
	got, err := readUsage(dir)
	if want := (Usage{CPU: 1750 * time.Millisecond, PeakRSS: 300 * 1024}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	// Two threads, together more than the ticks say.
	write(t, dir, "task/42/schedstat", "1500000000 77 3\n")
	write(t, dir, "task/43/schedstat", "254000000 77 3\n")
	if got, err := readUsage(dir); err != nil || got.CPU != 1754*time.Millisecond {
		t.Errorf("got %v, %v; want the sum of the threads", got.CPU, err)
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	before, err := ReadUsage(os.Getpid())
	if err != nil || before.PeakRSS < 1<<20 {
		t.Fatalf("got %v, %v; want more than 1 MiB", before, err)
	}
	for begin := time.Now(); time.Since(begin) < 30*time.Millisecond; { // use the CPU
	}
	after, err := ReadUsage(os.Getpid())
	if used := after.CPU - before.CPU; err != nil || used <= 0 {
		t.Errorf("%v of CPU time for a busy loop, %v", used, err)
	}
	if _, err := ReadUsage(1 << 30); err == nil {
		t.Error("a process that does not exist has a usage")
	}
}

func TestRequestsAreCountedByVerbAndResource(t *testing.T) {
	metrics, err := ParseMetrics([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="resourceclaims",subresource="status",verb="PUT"} 5
apiserver_request_total{code="409",resource="resourceclaims",subresource="status",verb="PUT"} 2
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 4
apiserver_request_total{code="200",resource="pods",subresource="",verb="WATCH"} 9
apiserver_request_total{code="200",resource="",subresource="/readyz",verb="GET"} 9
`))
	if err != nil {
		t.Fatal(err)
	}
	got := metrics.Requests()
	want := map[string]int{"PUT resourceclaims/status": 7, "POST pods/binding": 4}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Since(map[string]int{"POST pods/binding": 4, "PUT resourceclaims/status": 3}, got); !maps.Equal(got, map[string]int{"PUT resourceclaims/status": 4}) {
		t.Errorf("since then: %v", got)
	}
	if got := metrics.Sum("apiserver_request_total"); got != 29 {
		t.Errorf("the sum is %v", got)
	}
}

func TestWritesAreTheRequestsThatChangeSomething(t *testing.T) {
	requests := map[string]int{
		"GET pods": 1, "LIST pods": 2, "POST pods/binding": 4, "PUT leases": 8, "PATCH pods/status": 16, "DELETE pods": 32, "APPLY nodes": 64,
	}
	if got := Writes(requests); got != 124 {
		t.Errorf("%d are writes, want 124", got)
	}
	if got := Writes(requests, "leases"); got != 116 {
		t.Errorf("%d are writes of other things than leases, want 116", got)
	}
}
