// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"k8s.io/component-base/metrics/testutil"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// waits returns how many waits of gangs have been observed, and their sum.
func waits(t *testing.T) (count uint64, seconds float64) {
	t.Helper()
	count, err := testutil.GetHistogramMetricCount(gangWait.ObserverMetric)
	if err != nil {
		t.Fatal(err)
	}
	seconds, err = testutil.GetHistogramMetricValue(gangWait.ObserverMetric)
	if err != nil {
		t.Fatal(err)
	}
	return count, seconds
}

func TestWaitIsMeasuredFromReadyToBound(t *testing.T) {
	p, q := pod("p"), pod("q")
	f := newFixture(t, config.StatusPolicyScoreOnly, 2, p)
	defer f.stop()
	countBefore, secondsBefore := waits(t)
	f.reportNow() // lacks a member
	f.changeGang(func(pg *v1alpha1.PodGang) {
		group := &pg.Spec.PodGroups[0]
		group.PodReferences = append(group.PodReferences, v1alpha1.NamespacedName{Namespace: "ns", Name: "q"})
	})
	f.setPod(q)
	f.reportAfter(time.Minute) // ready
	f.index.DeletePod(q)
	f.reportAfter(time.Minute) // lacks a member again
	f.setPod(q)
	f.reportAfter(time.Minute) // ready
	f.reportAfter(3 * time.Second)
	f.setPod(changed(p, onNode))
	f.setPod(changed(q, onNode))
	f.reportAfter(4 * time.Second)
	f.reportAfter(time.Minute)
	count, seconds := waits(t)
	if count-countBefore != 1 || seconds-secondsBefore != 7 {
		t.Errorf("observed are %d waits of %v s, want one of 7 s", count-countBefore, seconds-secondsBefore)
	}
}

func TestNoWaitOfAGangThatWasScheduledBefore(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p", onNode))
	defer f.stop()
	before, _ := waits(t)
	f.reportNow()
	f.reportAfter(time.Minute)
	if after, _ := waits(t); after != before {
		t.Errorf("%d waits are observed", after-before)
	}
}

func TestRollbacksAreCountedByCause(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
	defer f.stop()
	value := func(cause gang.Cause) float64 {
		t.Helper()
		got, err := testutil.GetCounterMetricValue(rollbacks.WithLabelValues(string(cause)))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	timeouts, conflicts := value(gang.CauseTimeout), value(gang.CauseConflict)
	f.Undone(key, gang.CauseTimeout, "late")
	f.Undone(key, gang.CauseTimeout, "late again")
	if got := value(gang.CauseTimeout) - timeouts; got != 2 {
		t.Errorf("%v more timeouts, want 2", got)
	}
	if got := value(gang.CauseConflict) - conflicts; got != 0 {
		t.Errorf("%v more conflicts, want none", got)
	}
}
