// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// checkpoint waits until exactly so many pods of the workload run and so many are
// pending, and shows that it stays so: the operator has nothing to do, whatever waits
// has been refused, and the scheduler has nothing left to try.
func (s *scenario) checkpoint(running, pending int) {
	s.t.Helper()
	want := fmt.Sprintf("%d running, %d pending", running, pending)
	s.until(want+", and the operator has done its part", func() string {
		if left := s.op.Unfinished(); left != "" {
			return left
		}
		if got := s.count(); got != want {
			return got + "; " + s.makeUp()
		}
		return ""
	})
	s.until("whatever waits says why", s.unexplained)
	s.drain()
	if got := s.count(); got != want {
		s.t.Fatalf("it did not stay at %s: %s; %s", want, got, s.makeUp())
	}
	for _, pg := range s.gangs() {
		if bound, floors := s.boundOf(pg); bound > 0 && !floors && !s.mayLack[pg.Name] {
			s.t.Errorf("at %s PodGang %s is bound in part: %s", want, pg.Name, s.makeUp())
		}
	}
	s.until("the phase of every PodGang is that of its pods", s.wrongPhase)
	s.t.Logf("%s: %s", want, s.makeUp())
}

// count says how many pods run and are pending, and what else there is.
func (s *scenario) count() string {
	running, pending := 0, 0
	var other []string
	for _, pod := range s.pods() {
		switch {
		case pod.DeletionTimestamp != nil:
			other = append(other, describe(pod))
		case pod.Status.Phase == corev1.PodRunning:
			running++
		case pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName == "":
			pending++
		default:
			other = append(other, describe(pod)) // bound, and not yet started
		}
	}
	text := fmt.Sprintf("%d running, %d pending", running, pending)
	if len(other) > 0 {
		text += ", and " + strings.Join(other, ", ")
	}
	return text
}

// makeUp says how much of each gang is bound.
func (s *scenario) makeUp() string {
	var parts []string
	for _, pg := range s.gangs() {
		part := pg.Name
		for i := range pg.Spec.PodGroups {
			g := &pg.Spec.PodGroups[i]
			part += fmt.Sprintf(" %d/%d/%d", s.boundIn(g), g.MinReplicas, len(g.PodReferences))
		}
		parts = append(parts, part)
	}
	return "bound/floor/all of each group: " + strings.Join(parts, ", ")
}

// boundIn counts the live bound pods that a group lists.
func (s *scenario) boundIn(g *v1alpha1.PodGroup) int {
	n := 0
	for _, ref := range g.PodReferences {
		if pod := observe.Get[*corev1.Pod](s.c.recorder.State, s.ns, ref.Name); pod != nil && observe.Live(pod) && pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// boundOf counts the bound members of a gang, and tells whether every floor is met.
func (s *scenario) boundOf(pg *v1alpha1.PodGang) (bound int, floors bool) {
	floors = true
	for i := range pg.Spec.PodGroups {
		n := s.boundIn(&pg.Spec.PodGroups[i])
		bound += n
		floors = floors && n >= int(pg.Spec.PodGroups[i].MinReplicas)
	}
	return bound, floors
}

// unexplained says which pod or gang waits without saying why, and which pod is gated
// although nothing keeps its gate.
func (s *scenario) unexplained() string {
	var found []string
	waiting := map[string]bool{}
	dependsOn := map[string]string{}
	for _, g := range s.op.Gangs() {
		dependsOn[g.Name] = g.DependsOn
	}
	for _, pod := range s.pods() {
		if pod.Spec.NodeName != "" || !observe.Live(pod) {
			continue
		}
		gang := pod.Labels[v1alpha1.LabelPodGang]
		reason := corev1.PodReasonUnschedulable
		if len(pod.Spec.SchedulingGates) > 0 {
			reason = corev1.PodReasonSchedulingGated
			if base := observe.Get[*v1alpha1.PodGang](s.c.recorder.State, s.ns, dependsOn[gang]); base == nil {
				found = append(found, describe(pod)+", and its gang depends on none")
			} else if _, floors := s.boundOf(base); floors {
				found = append(found, describe(pod)+", and the gang that its own depends on is bound")
			}
		} else {
			waiting[gang] = true
		}
		if c := observe.Scheduled(pod); c == nil || c.Status != corev1.ConditionFalse || c.Reason != reason || c.Message == "" {
			found = append(found, fmt.Sprintf("%s, want the reason %s with a message", describe(pod), reason))
		}
	}
	for gang := range waiting {
		pg := observe.Get[*v1alpha1.PodGang](s.c.recorder.State, s.ns, gang)
		if pg == nil {
			found = append(found, "PodGang "+gang+" does not exist")
			continue
		}
		if bound, _ := s.boundOf(pg); bound > 0 && !s.mayLack[gang] {
			continue // what waits is beyond its floor
		}
		if e := s.newestEvent("PodGang", gang); e == nil || e.Reason != corev1.PodReasonUnschedulable || e.Type != corev1.EventTypeWarning {
			found = append(found, fmt.Sprintf("the newest event on PodGang %s is %s", gang, eventText(e)))
		}
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}

// events checks that every gang that waits without a bound pod has been refused with an
// event: Unschedulable on the PodGang, and the stock FailedScheduling on the member that
// was tried for all. The other members have the same in their condition PodScheduled,
// which every checkpoint looks at.
func (s *scenario) events() {
	s.t.Helper()
	checked := 0
	for _, pg := range s.gangs() {
		pods := s.podsOf(pg.Name)
		if bound, _ := s.boundOf(pg); bound > 0 || slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 }) {
			continue
		}
		checked++
		s.until("events tell that PodGang "+pg.Name+" cannot be scheduled", func() string {
			e := s.newestEvent("PodGang", pg.Name)
			if e == nil || e.Reason != corev1.PodReasonUnschedulable || e.Type != corev1.EventTypeWarning || e.ReportingController != schedulerName || e.Regarding.UID != pg.UID {
				return "the newest event on it is " + eventText(e)
			}
			for _, pod := range pods {
				if e := s.newestEvent("Pod", pod.Name); e != nil && e.Reason == "FailedScheduling" && e.Type == corev1.EventTypeWarning && e.ReportingController == schedulerName {
					return ""
				}
			}
			return "the newest event on none of its pods is FailedScheduling"
		})
	}
	if checked == 0 {
		s.t.Error("no gang waits: there is no event to look at")
	}
}

// newestEvent is the event on an object that was written last.
func (s *scenario) newestEvent(kind, name string) *eventsv1.Event {
	var newest *eventsv1.Event
	for _, e := range observe.List[*eventsv1.Event](s.c.recorder.State, s.ns) {
		if e.Regarding.Kind == kind && e.Regarding.Name == name && (newest == nil || observe.Revision(e) > observe.Revision(newest)) {
			newest = e
		}
	}
	return newest
}

func eventText(e *eventsv1.Event) string {
	if e == nil {
		return "missing"
	}
	return fmt.Sprintf("%s %s from %q: %s", e.Type, e.Reason, e.ReportingController, e.Note)
}

// wrongPhase says which PodGang has another phase than its pods warrant.
func (s *scenario) wrongPhase() string {
	for _, pg := range s.gangs() {
		want := v1alpha1.PodGangPhasePending
		if bound, floors := s.boundOf(pg); floors {
			want = v1alpha1.PodGangPhaseRunning
		} else if bound > 0 {
			want = v1alpha1.PodGangPhaseStarting
		}
		if pg.Status.Phase != want {
			return fmt.Sprintf("the phase of PodGang %s is %q, want %s", pg.Name, pg.Status.Phase, want)
		}
	}
	return ""
}

// readyOnDistinctNodes waits until every pod of the workload is ready, each on a node of
// its own.
func (s *scenario) readyOnDistinctNodes() {
	s.t.Helper()
	s.until("all pods are ready", func() string {
		for _, pod := range s.pods() {
			if c := observe.Condition(pod, corev1.PodReady); c == nil || c.Status != corev1.ConditionTrue {
				return describe(pod)
			}
		}
		return ""
	})
	on := map[string]string{}
	for _, pod := range s.pods() {
		if other, taken := on[pod.Spec.NodeName]; taken {
			s.t.Errorf("pods %s and %s are both on node %s", other, pod.Name, pod.Spec.NodeName)
		}
		on[pod.Spec.NodeName] = pod.Name
	}
}
