// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunEndsWhenNothingIsWrittenAnyMore(t *testing.T) {
	for _, tc := range []struct {
		name string
		// writing is how long writes go on, one every tick.
		writing, tick  time.Duration
		least, longest time.Duration
	}{
		{"none", 0, time.Millisecond, settle, settle + look},
		{"events that come late", 4 * time.Second, time.Millisecond, 4*time.Second + settle, 4*time.Second + settle + 2*look},
		{"events with pauses", 4 * time.Second, settle / 2, 4*time.Second + settle/2, 4*time.Second + settle + 2*look},
		{"writes without end", time.Hour, time.Millisecond, settleLimit, settleLimit + look},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				err := quiet(t.Context(), func(context.Context) (int, error) {
					return int(min(time.Since(begin), tc.writing) / tc.tick), nil
				})
				if took := time.Since(begin); err != nil || took < tc.least || took > tc.longest {
					t.Errorf("it ends after %v with %v, want %v to %v", took, err, tc.least, tc.longest)
				}
			})
		})
	}
}

func TestWritesThatCannotBeCountedEndTheRun(t *testing.T) {
	failure := errors.New("no metrics")
	if err := quiet(t.Context(), func(context.Context) (int, error) { return 0, failure }); !errors.Is(err, failure) {
		t.Errorf("got error %v, want that of the count", err)
	}
}
