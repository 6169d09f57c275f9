// SPDX-License-Identifier: Apache-2.0

package bindevents

import (
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
)

// reason and action are what the scheduler gives the event of a binding
// (pkg/scheduler/schedule_one.go of Kubernetes 1.37).
const (
	reason = "Scheduled"
	action = "Binding"
)

// binding is what becomes an event; it is small, as thousands may wait.
type binding struct {
	pod                  v1.ObjectReference
	note                 string
	at                   time.Time
	controller, instance string
}

// event has the fields that client-go's recorder would have given it
// (tools/events/event_recorder.go).
func (b *binding) event() *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      util.GenerateEventName(b.pod.Name, b.at.UnixNano()),
			Namespace: b.pod.Namespace,
		},
		EventTime:           metav1.NewMicroTime(b.at),
		ReportingController: b.controller,
		ReportingInstance:   b.instance,
		Action:              action,
		Reason:              reason,
		Regarding:           b.pod,
		Note:                b.note,
		Type:                v1.EventTypeNormal,
	}
}

// recorder has the events of bindings written by the writer, and passes on all others.
type recorder struct {
	events.EventRecorderLogger
	writer               *Writer
	controller, instance string
}

// Recorder returns a recorder that leaves the events of bindings to the writer, and all
// others to inner. So it does with events of bindings for which the writer's queue has no
// room. The controller is the name under which inner reports.
func (w *Writer) Recorder(inner events.EventRecorderLogger, controller string) events.EventRecorderLogger {
	hostname, _ := os.Hostname() // as client-go does
	return &recorder{EventRecorderLogger: inner, writer: w, controller: controller, instance: controller + "-" + hostname}
}

func (r *recorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	with := *r
	with.EventRecorderLogger = r.EventRecorderLogger.WithLogger(logger)
	return &with
}

func (r *recorder) Eventf(regarding, related runtime.Object, eventtype, why, what, note string, args ...any) {
	if !r.leave(regarding, related, eventtype, why, what, note, args) {
		r.EventRecorderLogger.Eventf(regarding, related, eventtype, why, what, note, args...)
	}
}

// leave leaves the event to the writer, if it is one of a binding and there is room.
func (r *recorder) leave(regarding, related runtime.Object, eventtype, why, what, note string, args []any) bool {
	pod, ok := regarding.(*v1.Pod)
	if !ok || related != nil || eventtype != v1.EventTypeNormal || why != reason || what != action {
		return false
	}
	ref, err := reference.GetReference(scheme.Scheme, pod)
	if err != nil {
		return false // inner says what is wrong with it
	}
	return r.writer.add(&binding{
		pod: *ref, note: fmt.Sprintf(note, args...), at: time.Now(),
		controller: r.controller, instance: r.instance,
	})
}
