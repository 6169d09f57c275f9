// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// pass lets time go by, in a bubble of synctest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// run has the Reporter work in the background until stop is called.
func (f *fixture) run() (stop func()) {
	f.clock = clock.RealClock{}
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestReasonReachesEveryUnboundMember(t *testing.T) {
	gated := pod("gated")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}}
	f := newFixture(t, config.StatusPolicyScoreOnly, 3,
		pod("bound", onNode), pod("p"), pod("q"), pod("told", waiting("Unschedulable", "0/4: no room")), gated)
	defer f.stop()
	f.Waits(key, "no room", "0/4: no room")
	f.reportNow()
	f.expectEvents("Warning Unschedulable no room")
	f.expectWrites(
		conditionWrite("p", "Unschedulable", "0/4: no room"),
		conditionWrite("q", "Unschedulable", "0/4: no room"))

	// The pods carry it now: nothing is written again.
	for _, name := range []string{"p", "q"} {
		f.setPod(changed(pod(name), waiting("Unschedulable", "0/4: no room")))
	}
	f.Waits(key, "no room", "0/4: no room")
	f.reportNow()
	f.expectEvents()
	f.expectWrites()
}

func TestOneEventForEachChangeOfTheReason(t *testing.T) {
	p, q := pod("p"), pod("q")
	f := newFixture(t, config.StatusPolicyScoreOnly, 2, p, q)
	defer f.stop()
	f.reportNow()
	f.expectEvents()
	for range 3 {
		f.Waits(key, "room for 1", "a")
		f.reportNow()
		f.reportAfter(time.Minute)
	}
	f.expectEvents("Warning Unschedulable room for 1")
	f.Waits(key, "room for none", "b")
	f.reportNow()
	f.Waits(key, "room for 1", "a")
	f.reportAfter(pause)
	f.expectEvents("Warning Unschedulable room for none", "Warning Unschedulable room for 1")
	f.setPod(changed(p, onNode))
	f.setPod(changed(q, onNode))
	f.reportAfter(pause)
	f.reportAfter(time.Minute)
	f.expectEvents("Normal GangScheduled every group has its floor bound")
}

func TestEventNamesTheGangAndTheScheduler(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
	defer f.stop()
	f.Waits(key, "no room", "m")
	f.reportNow()
	f.collect()
	if len(f.told) != 1 {
		t.Fatalf("got %d events", len(f.told))
	}
	e := f.told[0]
	if instance := e.ReportingInstance; !strings.HasPrefix(instance, testScheduler+"-") || len(instance) > 128 {
		t.Errorf("reporting instance is %q", instance)
	}
	if !strings.HasPrefix(e.Name, "g.unschedulable.") {
		t.Errorf("name is %q", e.Name)
	}
	e.Name, e.ReportingInstance = "", ""
	want := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: "ns"},
		EventTime:           metav1.NewMicroTime(f.time.Now()),
		ReportingController: testScheduler,
		Action:              "Scheduling", Type: "Warning", Reason: "Unschedulable", Note: "no room",
		Regarding: v1.ObjectReference{
			APIVersion: "scheduler.grove.io/v1alpha1", Kind: "PodGang", Namespace: "ns", Name: "g", UID: "uid-g", ResourceVersion: "1",
		},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

// A reason that changes with every attempt does not flood the API.
func TestEventsOfAGangKeepAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
		defer f.run()()
		for n := range 10 {
			f.Waits(key, fmt.Sprintf("room for %d", n), "m")
			pass(pause/4 + 10*time.Millisecond)
		}
		pass(time.Minute)
		f.expectEvents("Warning Unschedulable room for 0", "Warning Unschedulable room for 3", "Warning Unschedulable room for 7", "Warning Unschedulable room for 9")
	})
}

func TestEventThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
		defer f.run()()
		failures := 1
		f.api.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, apierrors.NewServiceUnavailable("not now")
		})
		f.Waits(key, "no room", "m")
		pass(time.Minute)
		f.expectEvents("Warning Unschedulable no room", "Warning Unschedulable no room")
	})
}

func TestNothingIsToldOfAGangThatWasScheduledBefore(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p", onNode))
	defer f.stop()
	f.reportNow()
	f.expectEvents()
	f.expectWrites()
}

func TestUndoneAttemptIsToldOnce(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
	defer f.stop()
	f.Undone(key, gang.CauseChanged, "member q was deleted")
	f.reportNow()
	f.reportAfter(time.Minute)
	f.expectEvents("Warning GangUndone member q was deleted")
	// The same reason once more is another attempt.
	f.Undone(key, gang.CauseChanged, "member q was deleted")
	f.reportNow()
	f.expectEvents("Warning GangUndone member q was deleted")
	// Of several within a pause the last is told.
	f.Undone(key, gang.CauseChanged, "first")
	f.reportNow()
	f.Undone(key, gang.CauseChanged, "second")
	f.reportNow()
	f.expectEvents()
	f.reportAfter(pause)
	f.expectEvents("Warning GangUndone second")
}

func TestMemberThatCouldNotBeBoundIsToldOnce(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
	defer f.stop()
	f.NotBound(key, "pod p could not be bound: denied")
	f.reportNow()
	f.reportAfter(time.Minute)
	f.expectEvents("Warning MemberNotBound pod p could not be bound: denied")
	// Of several within a pause the last is told.
	f.NotBound(key, "first")
	f.reportNow()
	f.NotBound(key, "second")
	f.reportNow()
	f.expectEvents("Warning MemberNotBound first")
	f.reportAfter(pause)
	f.expectEvents("Warning MemberNotBound second")
}

func TestIgnoredHintIsToldOnce(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
	defer f.stop()
	f.ReuseIgnored(key, "no place of a is known")
	f.reportNow()
	f.expectEvents("Warning ReuseReservationIgnored no place of a is known")
	f.ReuseIgnored(key, "no place of a is known")
	f.reportAfter(time.Minute)
	f.ReuseIgnored(key, "")
	f.reportAfter(time.Minute)
	f.expectEvents()
	f.ReuseIgnored(key, "no place of b is known")
	f.reportAfter(time.Minute)
	f.expectEvents("Warning ReuseReservationIgnored no place of b is known")
}

func TestLongReasonsAreCut(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
	defer f.stop()
	f.Waits(key, strings.Repeat("x", 2000), "")
	f.reportNow()
	f.expectEvents("Warning Unschedulable " + strings.Repeat("x", 1020) + " ...")
	if got := truncate(strings.Repeat("y", 1024), 1024); len(got) != 1024 || strings.HasSuffix(got, "...") {
		t.Errorf("a message of 1024 bytes is cut: %q", got)
	}
}

func TestReasonThatLiesWithTheGangIsToldOnceItIsCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, config.StatusPolicyScoreOnly, 3, pod("p"))
		defer f.run()()
		const one = "PodGang ns/g waits for members: group w has 1 of 3 present (1 listed in podReferences)"
		f.Changed(key)
		pass(calm)
		f.expectEvents()
		f.expectWrites()

		// The reason changes, so that the wait begins anew.
		f.changeGang(func(pg *v1alpha1.PodGang) { pg.Spec.PodGroups[0].MinReplicas = 4 })
		f.Changed(key)
		pass(calm)
		f.expectEvents()
		two := strings.ReplaceAll(one, "of 3", "of 4")
		pass(2 * gather)
		f.expectEvents("Warning GangNotReady " + two)
		f.expectWrites(conditionWrite("p", "GangNotReady", two))
		pass(time.Minute)
		f.expectEvents()
	})
}

func TestMemberWithAReasonOfItsOwn(t *testing.T) {
	stray := pod("stray")
	stray.Labels = map[string]string{v1alpha1.LabelPodGang: "g"}
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"))
	defer f.stop()
	if _, err := f.api.CoreV1().Pods("ns").Create(t.Context(), stray, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.api.ClearActions()
	f.setPod(stray)
	f.Waits(key, "no room", "0/4: no room")
	f.reportNow()
	f.expectWrites(conditionWrite("p", "Unschedulable", "0/4: no room"))
	f.reportAfter(calm)
	f.expectWrites(
		conditionWrite("p", "Unschedulable", "0/4: no room"),
		conditionWrite("stray", "GangNotReady", "pod stray is not listed in the podReferences of PodGang ns/g"))
	f.expectEvents("Warning Unschedulable no room")
}

func TestMembersOfAGangThatDoesNotExistAreTold(t *testing.T) {
	p := pod("p")
	p.Labels = map[string]string{v1alpha1.LabelPodGang: "g"}
	f := newFixture(t, config.StatusPolicyFull, 1, p)
	defer f.stop()
	f.index.DeleteGang(f.current)
	f.reportNow()
	f.expectWrites()
	f.reportAfter(calm)
	f.expectWrites(conditionWrite("p", "GangNotReady", "PodGang ns/g does not exist"))
	f.expectEvents()
}

func TestReadyGangForgetsTheReasonThatLayWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, config.StatusPolicyScoreOnly, 2, pod("p"))
		defer f.run()()
		f.Changed(key)
		pass(calm / 2)
		f.changeGang(func(pg *v1alpha1.PodGang) { pg.Spec.PodGroups[0].MinReplicas = 1 })
		f.Changed(key)
		pass(time.Minute)
		f.expectEvents()
		f.expectWrites()
	})
}

func TestConflictIsTriedAgainWithTheNewVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("p")
		f := newFixture(t, config.StatusPolicyScoreOnly, 1, p)
		defer f.run()()
		f.api.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if strings.Contains(string(action.(clienttesting.PatchAction).GetPatch()), `"resourceVersion":"1"`) {
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("the object has been modified"))
			}
			return false, nil, nil
		})
		f.Waits(key, "no room", "0/4: no room")
		pass(time.Millisecond)
		f.expectWrites(conditionWrite("p", "Unschedulable", "0/4: no room"))
		f.setPod(changed(p))
		pass(time.Second)
		again := conditionWrite("p", "Unschedulable", "0/4: no room")
		again.Body["metadata"].(map[string]any)["resourceVersion"] = "2"
		f.expectWrites(again)
		f.expectEvents("Warning Unschedulable no room")
	})
}

func TestFailedPhaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, config.StatusPolicyFull, 1, pod("p", running))
		defer f.run()()
		failures := 2
		f.gangAPI.PrependReactor("patch", "podgangs", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, apierrors.NewInternalError(fmt.Errorf("no"))
		})
		f.Changed(key)
		pass(time.Minute)
		w := phaseWrite(v1alpha1.PodGangPhaseRunning)
		f.expectWrites(w, w, w)
	})
}

func TestPodThatIsGoneHoldsNothingUp(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"), pod("q"))
	defer f.stop()
	if err := f.api.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.api.ClearActions()
	f.Waits(key, "no room", "m")
	f.reportNow()
	f.expectWrites(conditionWrite("p", "Unschedulable", "m"), conditionWrite("q", "Unschedulable", "m"))
}

func TestOnePodThatCannotBeWrittenHoldsNobodyUp(t *testing.T) {
	f := newFixture(t, config.StatusPolicyScoreOnly, 1, pod("p"), pod("q"))
	defer f.stop()
	f.api.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.(clienttesting.PatchAction).GetName() == "p", nil, errors.New("refused")
	})
	f.Waits(key, "no room", "m")
	err := f.report(t.Context(), key)
	if err == nil || !strings.Contains(err.Error(), "write the reason for waiting on pod ns/p: refused") {
		t.Errorf("got error %v", err)
	}
	f.expectWrites(conditionWrite("p", "Unschedulable", "m"), conditionWrite("q", "Unschedulable", "m"))
}

func TestDeletedGangIsForgotten(t *testing.T) {
	f := newFixture(t, config.StatusPolicyFull, 1, pod("p"))
	defer f.stop()
	f.Waits(key, "no room", "m")
	f.reportNow()
	f.index.DeleteGang(f.current)
	f.index.DeletePod(pod("p"))
	f.reportNow()
	if len(f.notes) > 0 {
		t.Errorf("notes %v are left", f.notes)
	}
}

func TestNotesOfAMomentAreOneReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, config.StatusPolicyFull, 1, pod("p", running))
		defer f.run()()
		for range 100 {
			f.Changed(key)
		}
		pass(time.Minute)
		f.expectWrites(phaseWrite(v1alpha1.PodGangPhaseRunning))
	})
}
