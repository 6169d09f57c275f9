// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func TestMayWritePhase(t *testing.T) {
	other := func(pg *v1alpha1.PodGang) {
		pg.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
	}
	for _, tc := range []struct {
		name   string
		policy config.StatusPolicy
		set    func(*v1alpha1.PodGang)
		want   bool
	}{
		{"a gang without conditions", config.StatusPolicyFull, func(*v1alpha1.PodGang) {}, true},
		{"a gang without the condition Initialized", config.StatusPolicyFull, other, true},
		{"initialized", config.StatusPolicyFull, initialized(metav1.ConditionTrue), true},
		{"not initialized", config.StatusPolicyFull, initialized(metav1.ConditionFalse), false},
		{"initialized unknown", config.StatusPolicyFull, initialized(metav1.ConditionUnknown), false},
		{"the score only", config.StatusPolicyScoreOnly, func(*v1alpha1.PodGang) {}, false},
		{"the score only, initialized", config.StatusPolicyScoreOnly, initialized(metav1.ConditionTrue), false},
	} {
		pg := &v1alpha1.PodGang{}
		tc.set(pg)
		if got := mayWritePhase(tc.policy, pg); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestPhaseIsWritten(t *testing.T) {
	p, q := pod("p"), pod("q")
	f := newFixture(t, config.StatusPolicyFull, 2, p, q)
	defer f.stop()

	f.reportNow()
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhasePending))
	f.reportNow()
	f.expectWrites() // the informer has not shown it yet

	p = changed(p, onNode)
	f.setPod(p)
	f.reportNow()
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhaseStarting))

	f.changeGang(func(pg *v1alpha1.PodGang) { pg.Status.Phase = v1alpha1.PodGangPhaseStarting })
	f.reportNow()
	f.expectWrites()

	f.setPod(changed(p, running))
	f.setPod(changed(q, running))
	f.reportNow()
	f.expectWrites(phaseWrite(v1alpha1.PodGangPhaseRunning))
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
