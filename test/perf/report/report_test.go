// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podgang/podgang-scheduler/test/perf/result"
)

func TestNumberHasThreeDigits(t *testing.T) {
	for want, x := range map[string]float64{
		"0": 0, "7": 7, "1235": 1234.56, "12.3": 12.34, "1.23": 1.234, "0.12": 0.1234, "0.012": 0.01234, "-2.50": -2.5, missing: math.NaN(),
	} {
		if got := Number(x); got != want {
			t.Errorf("%v is written %q, want %q", x, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table := &Table{Header: []string{"name", "n"}, Rows: [][]string{{"a|b", "5"}, {"c", "10"}}}
	var text, markdown strings.Builder
	if err := errors.Join(table.Text(&text), table.Markdown(&markdown)); err != nil {
		t.Fatal(err)
	}
	if want := "name   n\na|b    5\nc     10\n"; text.String() != want {
		t.Errorf("got\n%s, want\n%s", text.String(), want)
	}
	if want := "| name | n |\n| --- | --: |\n| a\\|b | 5 |\n| c | 10 |\n"; markdown.String() != want {
		t.Errorf("got\n%s, want\n%s", markdown.String(), want)
	}
}

// round is a run of three pods.
func round(scheduler string, pods, took float64) result.Result {
	return result.Result{
		Workload: "w", Scheduler: scheduler, Mode: result.Drain, Scale: 1, Finished: true, Pods: 3, Bound: 3, PodsPerSecond: pods, Took: took,
		Waits: []float64{1, 2, 4}, Curve: []int{1, 3}, CurveStep: 0.1,
		Requests: map[string]int{"POST pods/binding": 3, "PUT resourceclaims/status": 6, "GET pods": 50},
	}
}

func row(t *testing.T, table *Table, scheduler string) map[string]string {
	t.Helper()
	for _, r := range table.Rows {
		if r[1] == scheduler {
			cells := map[string]string{}
			for i, name := range table.Header {
				cells[name] = r[i]
			}
			return cells
		}
	}
	t.Fatalf("no row of %s", scheduler)
	return nil
}

func TestRunsShowsMediansAndTheWorst(t *testing.T) {
	stalled, cut := round("podgang", 30, 2), round("native", 5, 9)
	stalled.StalledSeconds, stalled.PartialGangs = 4, 1
	cut.Finished, cut.Bound, cut.Error = false, 2, "not finished after 9s"
	table := Runs([]result.Result{round("podgang", 10, 1), stalled, round("podgang", 20, 3), cut})
	got := row(t, table, "podgang")
	for column, want := range map[string]string{
		"rounds": "3", "bound": "3", "pods/s": "20", "took s": "2", "writes/pod": "3", "stalled s": "4", "faults": "1 gangs left partly bound",
	} {
		if got[column] != want {
			t.Errorf("%s is %q, want %q", column, got[column], want)
		}
	}
	if got := row(t, table, "native"); got["bound"] != "2 of 3" || got["faults"] != "not finished after 9s" {
		t.Errorf("got %v", got)
	}
}

func TestPlotsAreXML(t *testing.T) {
	dir := t.TempDir()
	if err := Plots(dir, []result.Result{round("podgang", 10, 1), round("native", 5, 2)}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w-drain-throughput.svg", "w-drain-waits.svg"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for decoder := xml.NewDecoder(strings.NewReader(string(content))); ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
				lines++
			}
		}
		if lines != 2 {
			t.Errorf("%s has %d lines, want one for each scheduler", name, lines)
		}
	}
}

func TestMiddleRoundIsDrawn(t *testing.T) {
	if got := middle([]result.Result{round("a", 0, 3), round("a", 0, 1), round("a", 0, 2)}).Took; got != 2 {
		t.Errorf("the round that took %v s is drawn", got)
	}
}

func TestCurvesReachAllPods(t *testing.T) {
	r := round("a", 10, 1)
	if got := throughput(&r).points; got[len(got)-1] != (point{0.2, 3}) {
		t.Errorf("got %v", got)
	}
	if got := distribution(&r).points; got[len(got)-1] != (point{4, 100}) || !slices.Contains(got, point{2, 100.0 / 3}) {
		t.Errorf("got %v", got)
	}
}

func TestAxesEndOnARoundNumber(t *testing.T) {
	for x, want := range map[float64]float64{0: 1, 1: 1, 1.1: 2, 2.2: 2.5, 26: 50, 896: 1000, 0.03: 0.05} {
		if got := roundUp(x); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is rounded to %v, want %v", x, got, want)
		}
	}
}
