// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/podgang/podgang-scheduler/pkg/bindevents"
)

// scheduledEvents are the events that tell that a pod is bound.
func (s *scenario) scheduledEvents(pod string) []*eventsv1.Event {
	var found []*eventsv1.Event
	for _, r := range s.c.history.of(s.ns) {
		e, ok := r.object.(*eventsv1.Event)
		if ok && !r.deleted && e.Reason == "Scheduled" && e.Regarding.Kind == "Pod" && e.Regarding.Name == pod {
			found = append(found, e)
		}
	}
	return found
}

// toldOnce waits until an event tells of the binding of each pod, and checks that it is
// the only one and says what is so.
func (s *scenario) toldOnce(pods ...string) {
	s.t.Helper()
	for _, name := range pods {
		s.until(fmt.Sprintf("an event tells that pod %s is bound", name), func() string {
			if len(s.scheduledEvents(name)) == 0 {
				return "none does"
			}
			return ""
		})
		events := s.scheduledEvents(name)
		if len(events) > 1 {
			s.t.Errorf("%d events tell that pod %s is bound, want 1", len(events), name)
		}
		pod, e := s.getPod(name), events[0]
		if e.Type != corev1.EventTypeNormal || e.Action != "Binding" || e.Regarding.UID != pod.UID ||
			e.ReportingController != schedulerName || !strings.HasSuffix(e.Note, " to "+pod.Spec.NodeName) {
			s.t.Errorf("the event is %v, on pod %s of UID %s on node %s", e, name, pod.UID, pod.Spec.NodeName)
		}
		// The API server cuts the times of creations down to seconds.
		made := e.EventTime.Truncate(time.Second)
		if made.Before(pod.CreationTimestamp.Time) || made.After(e.CreationTimestamp.Time) {
			s.t.Errorf("the event is of %v; pod %s was created at %v, the event at %v", e.EventTime, name, pod.CreationTimestamp, e.CreationTimestamp)
		}
	}
}

func TestEventsTellThatPodsAreBound(t *testing.T) {
	s := shared(t)
	s.plainPods([]string{"plain"})
	s.toldOnce("plain")
	s.plainPods([]string{"device"}, gpu)
	s.toldOnce("device")
	s.deletePods("device")
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, gpu)
	s.bound(pods...)
	s.toldOnce(pods...)
}

// boundBesideAnother creates the gang g of g-0 and g-1 with a GPU each. The first is bound
// while the binding of the other is held at the gate, and the scheduler knows that it is.
func (s *scenario) boundBesideAnother() (pods []string, binding *rule) {
	s.t.Helper()
	first := s.hold(bindingOf(s.ns, "g-0"))
	binding = s.hold(bindingOf(s.ns, "g-1"))
	pods = s.pairHeldBy(binding)
	s.waitMet(first, 1)
	first.release()
	s.bound("g-0")
	s.marker() // by now it has the answer, and an event that does not wait is there
	return pods, binding
}

func TestEventsWaitForBindingsThatAreUnderWay(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods, binding := s.boundBesideAnother()
	n, waited := len(s.scheduledEvents("g-0")), time.Since(s.boundAt("g-0"))
	if n > 0 && waited < bindevents.MaxDelay {
		t.Errorf("%d events tell that pod g-0 is bound while the binding of g-1 is under way", n)
	}
	released := time.Now()
	binding.release()
	s.bound(pods...)
	s.toldOnce(pods...)
	if e := s.scheduledEvents("g-0")[0]; !e.EventTime.Time.Before(released) {
		t.Errorf("the event on pod g-0 is of %v, which is when it was written: its binding was before %v", e.EventTime, released)
	}
}

func TestSchedulerThatEndsWritesTheEventsThatWait(t *testing.T) {
	s := newScenario(t, gatedLab)
	pods, binding := s.boundBesideAnother()
	s.end()
	s.toldOnce("g-0")
	binding.drop()
	s.restart()
	s.bound(pods...)
	s.toldOnce(pods...)
}

// end ends the scheduler as the kubelet does, with SIGTERM.
func (s *scenario) end() {
	s.t.Helper()
	s.scheduler().Stop(s.ctx)
	s.hasEnded()
}
