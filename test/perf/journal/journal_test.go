// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func TestFirstTimesAreKept(t *testing.T) {
	j := New()
	j.Observe(State{Pod: "a", Gang: "g"}, at(0))
	j.Observe(State{Pod: "a", Gang: "g", Refused: true}, at(10))
	j.Observe(State{Pod: "a", Gang: "g", Refused: true, Claims: true}, at(20))
	j.Observe(State{Pod: "a", Gang: "g", Node: "n"}, at(30))
	j.Observe(State{Pod: "a", Gang: "g", Node: "n"}, at(40))
	j.Observe(State{Pod: "a", Gang: "g", Node: "n", Deleted: true}, at(50))
	want := Entry{Pod: "a", Gang: "g", Node: "n", Created: at(0), Refused: at(10), Bound: at(30), Deleted: at(50), Claims: true}
	if got := j.Entries(); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	counts, _ := j.Counts()
	if want := (Counts{Created: 1, Bound: 1, Deleted: 1, Refused: 1, WithClaims: 1, LastBound: at(30)}); counts != want {
		t.Errorf("got %+v, want %+v", counts, want)
	}
}

func TestWaitForSeesALaterChange(t *testing.T) {
	j := New()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, changed := j.Counts()
	go j.Observe(State{Pod: "a", Node: "n"}, at(0))
	<-changed
	if err := j.WaitFor(ctx, func(c Counts) bool { return c.Bound == 1 }); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if err := j.WaitFor(ended, func(c Counts) bool { return c.Bound == 2 }); err == nil {
		t.Error("it did not wait for a second pod")
	}
}

func TestGangIsToldOnce(t *testing.T) {
	j := New()
	j.Tell("g", at(1))
	j.Tell("g", at(2))
	if got := j.Told("g"); got != at(1) {
		t.Errorf("got %v", got)
	}
}

func TestLedger(t *testing.T) {
	type set struct {
		holder string
		things map[string]int
	}
	tests := map[string]struct {
		sets      []set
		doubly    int
		contested []string
	}{
		"nothing shared": {sets: []set{{"a", map[string]int{"gpu-0": 1}}, {"b", map[string]int{"gpu-1": 1}}}},
		"one device for two claims": {
			sets:   []set{{"a", map[string]int{"gpu-0": 1, "gpu-1": 1}}, {"b", map[string]int{"gpu-1": 1}}},
			doubly: 1, contested: []string{"gpu-1"},
		},
		"given away twice, for a moment": {
			sets:   []set{{"a", map[string]int{"gpu-0": 1}}, {"b", map[string]int{"gpu-0": 1}}, {"a", nil}},
			doubly: 1, contested: []string{"gpu-0"},
		},
		"freed, then given to another": {sets: []set{{"a", map[string]int{"gpu-0": 1}}, {"a", nil}, {"b", map[string]int{"gpu-0": 1}}}},
		"the same claim seen again":    {sets: []set{{"a", map[string]int{"gpu-0": 1}}, {"a", map[string]int{"gpu-0": 1}}}},
		"more than a node has": {
			sets:   []set{{"a", map[string]int{"GPUs of n": 4}}, {"b", map[string]int{"GPUs of n": 4}}, {"c", map[string]int{"GPUs of n": 2}}},
			doubly: 2, contested: []string{"GPUs of n"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := NewLedger(map[string]int{"GPUs of n": 8})
			for _, s := range tc.sets {
				l.Set(s.holder, s.things)
			}
			if got := l.Doubly(); got != tc.doubly {
				t.Errorf("%d given away twice, want %d", got, tc.doubly)
			}
			if got := l.Contested(); !slices.Equal(got, tc.contested) {
				t.Errorf("contested are %v, want %v", got, tc.contested)
			}
		})
	}
}
