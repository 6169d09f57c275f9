// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
)

func TestPhaseOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		view gang.View
		want v1alpha1.PodGangPhase
	}{
		{"nobody is bound", gang.View{}, v1alpha1.PodGangPhasePending},
		{"floors of 0 and nobody is bound", gang.View{Satisfied: true}, v1alpha1.PodGangPhasePending},
		{"one is bound", gang.View{AnyBound: true}, v1alpha1.PodGangPhaseStarting},
		{"the floor is bound", gang.View{AnyBound: true, Satisfied: true}, v1alpha1.PodGangPhaseStarting},
		{"the floor runs", gang.View{AnyBound: true, Satisfied: true, Running: true}, v1alpha1.PodGangPhaseRunning},
	} {
		if got := phaseOf(tc.view); got != tc.want {
			t.Errorf("%s: got phase %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestMayWriteStatus(t *testing.T) {
	other := func(pg *v1alpha1.PodGang) {
		pg.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
	}
	for _, tc := range []struct {
		name string
		set  func(*v1alpha1.PodGang)
		want bool
	}{
		{"a gang without conditions", func(*v1alpha1.PodGang) {}, true},
		{"a gang without the condition Initialized", other, true},
		{"initialized", initialized(metav1.ConditionTrue), true},
		{"not initialized", initialized(metav1.ConditionFalse), false},
		{"initialized unknown", initialized(metav1.ConditionUnknown), false},
	} {
		pg := &v1alpha1.PodGang{}
		tc.set(pg)
		if got := mayWriteStatus(pg); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestDuePatch(t *testing.T) {
	const full, scoreOnly = config.StatusPolicyFull, config.StatusPolicyScoreOnly
	rated := ptr.To(0.93)
	satisfied := gang.View{AnyBound: true, Satisfied: true}
	for _, tc := range []struct {
		name   string
		policy config.StatusPolicy
		view   gang.View
		status v1alpha1.PodGangStatus
		rated  *float64
		want   *statusPatch
	}{
		{"phase and score at once", full, satisfied, v1alpha1.PodGangStatus{Phase: "Pending"}, rated, &statusPatch{phase: "Starting", rated: true, score: rated}},
		{"the score alone", scoreOnly, satisfied, v1alpha1.PodGangStatus{Phase: "Pending"}, rated, &statusPatch{rated: true, score: rated}},
		{"the score alone where nobody has set a phase", scoreOnly, satisfied, v1alpha1.PodGangStatus{}, rated, &statusPatch{phase: "Pending", rated: true, score: rated}},
		{"no phase where there is no score either", scoreOnly, satisfied, v1alpha1.PodGangStatus{}, nil, nil},
		{"a score that has changed", full, satisfied, v1alpha1.PodGangStatus{Phase: "Starting", PlacementScore: ptr.To(0.5)}, rated, &statusPatch{rated: true, score: rated}},
		{"a score that has not", full, satisfied, v1alpha1.PodGangStatus{Phase: "Starting", PlacementScore: ptr.To(0.93)}, rated, nil},
		{"a score from before a restart stays", full, satisfied, v1alpha1.PodGangStatus{Phase: "Starting", PlacementScore: ptr.To(0.5)}, nil, nil},
		{"no score before the floor is bound", full, gang.View{AnyBound: true}, v1alpha1.PodGangStatus{Phase: "Starting"}, rated, nil},
		{"the score of a gang below its floor stays", full, gang.View{AnyBound: true}, v1alpha1.PodGangStatus{Phase: "Starting", PlacementScore: ptr.To(0.5)}, rated, nil},
		{"no score of a gang that is gone", full, gang.View{}, v1alpha1.PodGangStatus{Phase: "Pending", PlacementScore: ptr.To(0.5)}, rated, &statusPatch{rated: true}},
		{
			"nothing while the operator works on it", full, satisfied,
			v1alpha1.PodGangStatus{Phase: "Pending", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionFalse}}}, rated, nil,
		},
	} {
		tc.view.Object = &v1alpha1.PodGang{Status: tc.status}
		got := duePatch(tc.policy, tc.view, tc.rated)
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(statusPatch{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestScoreIsWrittenWhenTheFloorIsBound(t *testing.T) {
	p, q := pod("p"), pod("q")
	f := newFixture(t, config.StatusPolicyScoreOnly, 2, p, q)
	defer f.stop()
	f.changeGang(func(pg *v1alpha1.PodGang) { pg.Status.Phase = v1alpha1.PodGangPhasePending })

	f.Scored(key, 0.75)
	f.setPod(changed(p, onNode))
	f.reportNow()
	f.expectWrites()

	f.setPod(changed(q, onNode))
	f.reportNow()
	f.expectWrites(scoreWrite(0.75))
	f.reportNow()
	f.expectWrites() // the informer has not shown it yet

	f.changeGang(func(pg *v1alpha1.PodGang) { pg.Status.PlacementScore = ptr.To(0.75) })
	f.Undone(key, gang.CauseTimeout, "too late")
	f.reportNow()
	f.expectWrites()
}

func TestPhaseIsWritten(t *testing.T) {
	p, q := pod("p"), pod("q")
	f := newFixture(t, config.StatusPolicyFull, 2, p, q)
	defer f.stop()

	f.reportNow()
	f.reportAfter(unseen)
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhasePending))
	f.reportNow()
	f.expectWrites() // the informer has not shown it yet

	p = changed(p, onNode)
	f.setPod(p)
	f.reportNow()
	f.reportAfter(settle)
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhaseStarting))

	f.changeGang(func(pg *v1alpha1.PodGang) { pg.Status.Phase = v1alpha1.PodGangPhaseStarting })
	f.reportNow()
	f.expectWrites()

	f.setPod(changed(p, running))
	f.setPod(changed(q, running))
	f.reportNow()
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhaseRunning))
}

// Of a gang that is bound as soon as it is looked at, the phase is written once.
func TestPhaseThatPassesIsNotWritten(t *testing.T) {
	p, q := pod("p"), pod("q")
	f := newFixture(t, config.StatusPolicyFull, 2, p, q)
	defer f.stop()
	f.reportNow()
	f.reportAfter(unseen - 1)
	f.expectWrites()
	f.setPod(changed(p, onNode))
	f.reportNow()
	f.reportAfter(settle - 1)
	f.expectWrites()
	f.setPod(changed(q, onNode))
	f.Scored(key, 0.75)
	f.reportNow()
	f.expectWrites(statusWrite(map[string]any{"phase": "Starting", "placementScore": 0.75}))
}

func TestPhaseOfAGangThatWaitsIsWrittenAtOnce(t *testing.T) {
	f := newFixture(t, config.StatusPolicyFull, 1, pod("p"))
	defer f.stop()
	f.Waits(key, "no room", "no room")
	f.reportNow()
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhasePending), conditionWrite("p", ReasonUnschedulable, "no room"))
}

// What is not written now is looked at again when it may be due.
func TestPhaseThatPassesIsLookedAtAgain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		bound func(*v1.Pod)
		again time.Duration
	}{
		{"nobody is bound", func(*v1.Pod) {}, unseen},
		{"one of two is bound", onNode, settle},
	} {
		f := newFixture(t, config.StatusPolicyFull, 2, pod("p", tc.bound), pod("q"))
		view, _ := f.index.View(key)
		if due := f.due(key, view); !due.passing || due.again != tc.again {
			t.Errorf("%s: passing %v, again after %v, want after %v", tc.name, due.passing, due.again, tc.again)
		}
		f.stop()
	}
}

// A gang that has had a phase is not left with one that is wrong.
func TestPhaseOfAGangThatHasLostItsPodsIsWritten(t *testing.T) {
	p := pod("p", running)
	f := newFixture(t, config.StatusPolicyFull, 1, p)
	defer f.stop()
	f.changeGang(func(pg *v1alpha1.PodGang) { pg.Status.Phase = v1alpha1.PodGangPhaseRunning })
	f.index.DeletePod(p)
	f.setPod(pod("p"))
	f.reportNow()
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhasePending))
}

func TestPhaseIsWrittenAgainOnceAfterEachReset(t *testing.T) {
	f := newFixture(t, config.StatusPolicyFull, 1, pod("p", running))
	defer f.stop()
	f.reportNow()
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhaseRunning))
	for range 2 {
		f.changeGang(func(pg *v1alpha1.PodGang) { pg.Status.Phase = v1alpha1.PodGangPhasePending })
		f.reportNow()
		f.reportNow()
		f.expectWrites(phaseWrite(v1alpha1.PodGangPhaseRunning))
	}
}

func TestPhaseIsLeftToItsOwner(t *testing.T) {
	t.Run("the policy is the score only", func(t *testing.T) {
		f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p", running))
		defer f.stop()
		f.reportNow()
		f.expectWrites()
	})
	t.Run("the operator has not finished", func(t *testing.T) {
		f := newFixture(t, config.StatusPolicyFull, 1, pod("p", running))
		defer f.stop()
		f.changeGang(initialized(metav1.ConditionFalse))
		f.reportNow()
		f.expectWrites()
		f.changeGang(initialized(metav1.ConditionTrue))
		f.reportNow()
		f.expectWrites(phaseWrite(v1alpha1.PodGangPhaseRunning))
	})
	t.Run("another scheduler places the gang", func(t *testing.T) {
		p := pod("p", running)
		p.Spec.SchedulerName = "other"
		f := newFixture(t, config.StatusPolicyFull, 1, p)
		defer f.stop()
		f.reportNow()
		f.expectWrites()
		f.expectEvents()
	})
}
