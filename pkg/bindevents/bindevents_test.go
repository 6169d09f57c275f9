// SPDX-License-Identifier: Apache-2.0

package bindevents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// server keeps the events that are created, after the errors that it is to answer first.
type server struct {
	typed.EventsV1Interface

	mu      sync.Mutex // guards all below
	errors  []error
	tries   int
	created []*eventsv1.Event
	// held requests wait for their context.
	held bool
}

func (s *server) Events(string) typed.EventInterface { return target{server: s} }

type target struct {
	typed.EventInterface
	server *server
}

func (e target) Create(ctx context.Context, event *eventsv1.Event, _ metav1.CreateOptions) (*eventsv1.Event, error) {
	s := e.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.held {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	if len(s.errors) > 0 {
		err := s.errors[0]
		s.errors = s.errors[1:]
		return nil, err
	}
	s.created = append(s.created, event)
	return event, nil
}

func (s *server) notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var notes []string
	for _, e := range s.created {
		notes = append(notes, e.Note)
	}
	return notes
}

// inner records the reasons and notes that it is given, and the name of its logger.
type inner struct {
	notes  *[]string
	logger klog.Logger
}

func (i inner) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	i.logger.Info("inner") // with the logger that was set
	*i.notes = append(*i.notes, reason+" "+fmt.Sprintf(note, args...))
}

func (i inner) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	i.logger = logger
	return i
}

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "uid", ResourceVersion: "7"}}
}

// tell records the event of a binding as the scheduler does.
func tell(r events.EventRecorder, name string) {
	r.Eventf(pod(name), nil, v1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", "ns", name, "node")
}

func told(names ...string) []string {
	for i := range names {
		names[i] = "Successfully assigned ns/" + names[i] + " to node"
	}
	return names
}

// fixture is a writer that creates one event at a time, when calm is closed.
type fixture struct {
	*server
	writer   *Writer
	recorder events.EventRecorderLogger
	passed   []string // what went to the inner recorder
	calm     chan struct{}
}

func newFixture() *fixture {
	f := &fixture{server: &server{}, calm: make(chan struct{})}
	f.writer = NewWriter(f.server, func() <-chan struct{} { return f.calm })
	f.writer.writers = 1
	f.recorder = f.writer.Recorder(inner{notes: &f.passed}, "gangs")
	return f
}

// run runs a test in a bubble, where time passes at once, with a writer that runs.
func run(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.writer.Run(ctx)
		test(t, f)
	})
}

// pass lets the time of the bubble pass.
func pass(d time.Duration) { <-time.After(d) }

func (f *fixture) check(t *testing.T, when string, want []string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, f.notes()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestEventsOfBindingsWaitUntilItIsCalm(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		begin := time.Now()
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprintf("p%d", i))
			tell(f.recorder, want[i])
			pass(time.Second)
		}
		f.check(t, "while bindings are written", nil)
		close(f.calm)
		f.check(t, "afterwards", told(want...))
		for i, e := range f.created {
			if got := e.EventTime.Sub(begin); got != time.Duration(i)*time.Second {
				t.Errorf("event %d says that it is of %v after the beginning, want %d s", i, got, i)
			}
		}
		if len(f.passed) > 0 {
			t.Errorf("the inner recorder got %q too", f.passed)
		}
	})
}

func TestEventsOfBindingsDoNotWaitForever(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		tell(f.recorder, "a")
		pass(time.Second)
		tell(f.recorder, "b")
		pass(MaxDelay - time.Second - time.Millisecond)
		f.check(t, "just before the time", nil)
		pass(time.Millisecond)
		f.check(t, "when the first is due", told("a"))
		pass(time.Second)
		f.check(t, "when the second is due", told("a", "b"))
	})
}

func TestOneLateEventDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.writer.writers = writers
		f.errors = []error{errors.New("connection refused")}
		close(f.calm)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.writer.Run(ctx)
		tell(f.recorder, "a")
		synctest.Wait()
		tell(f.recorder, "b")
		f.check(t, "while the first is to be repeated", told("b"))
	})
}

// sink keeps what client-go's own recorder writes.
type sink struct{ got chan *eventsv1.Event }

func (s sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.got <- e
	return e, nil
}
func (s sink) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) { return nil, nil }
func (s sink) Patch(context.Context, *eventsv1.Event, []byte) (*eventsv1.Event, error) {
	return nil, nil
}

func TestEventIsThatOfClientGo(t *testing.T) {
	var stock *eventsv1.Event
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := sink{got: make(chan *eventsv1.Event, 1)}
		broadcaster := events.NewBroadcaster(s)
		defer broadcaster.Shutdown()
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			t.Fatal(err)
		}
		tell(broadcaster.NewRecorder(scheme.Scheme, "gangs"), "a")
		stock = <-s.got
	})
	run(t, func(t *testing.T, f *fixture) {
		close(f.calm)
		tell(f.recorder, "a")
		synctest.Wait()
		if len(f.created) != 1 {
			t.Fatalf("%d events, want 1", len(f.created))
		}
		// Both clocks of the bubbles begin at the same time, so that names are comparable.
		if diff := cmp.Diff(stock, f.created[0], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("event (-client-go +ours):\n%s", diff)
		}
	})
}

func TestOtherEventsGoTheirUsualWay(t *testing.T) {
	for name, eventf := range map[string]func(r events.EventRecorder){
		"of a failure": func(r events.EventRecorder) {
			r.Eventf(pod("a"), nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "no room")
		},
		"with another action": func(r events.EventRecorder) {
			r.Eventf(pod("a"), nil, v1.EventTypeNormal, "Scheduled", "Guessing", "no room")
		},
		"a warning": func(r events.EventRecorder) {
			r.Eventf(pod("a"), nil, v1.EventTypeWarning, "Scheduled", "Binding", "no room")
		},
		"with a related object": func(r events.EventRecorder) {
			r.Eventf(pod("a"), pod("b"), v1.EventTypeNormal, "Scheduled", "Binding", "no room")
		},
		"on another object": func(r events.EventRecorder) {
			r.Eventf(&v1.Node{}, nil, v1.EventTypeNormal, "Scheduled", "Binding", "no room")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, f *fixture) {
				close(f.calm)
				eventf(f.recorder)
				f.check(t, "the writer's", nil)
				if len(f.passed) != 1 || !strings.HasSuffix(f.passed[0], " no room") {
					t.Errorf("the inner recorder got %q", f.passed)
				}
			})
		})
	}
}

func TestLoggerIsThatOfTheInnerRecorder(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	buffer := logger.GetSink().(ktesting.Underlier).GetBuffer()
	run(t, func(t *testing.T, f *fixture) {
		with := f.recorder.WithLogger(logger)
		close(f.calm)
		tell(with, "a")
		f.check(t, "event of a binding", told("a"))
		with.Eventf(pod("a"), nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "no room")
		f.recorder.Eventf(pod("a"), nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "no room")
	})
	if got := strings.Count(buffer.String(), "inner"); got != 1 {
		t.Errorf("the logger got %d lines of the inner recorder, want 1: %s", got, buffer.String())
	}
}

func TestEventsWithoutRoomGoTheirUsualWay(t *testing.T) {
	f := newFixture()
	f.writer.queue = make(chan *binding, 2)
	for _, name := range []string{"a", "b", "c"} {
		tell(f.recorder, name)
	}
	if want := []string{"Scheduled " + told("c")[0]}; !slices.Equal(f.passed, want) {
		t.Errorf("the inner recorder got %q, want %q", f.passed, want)
	}
	if len(f.writer.queue) != 2 {
		t.Errorf("%d events wait, want 2", len(f.writer.queue))
	}
}

func TestFailedWritesAreRepeatedWhenThatHelps(t *testing.T) {
	resource := schema.GroupResource{Resource: "events"}
	unreachable := errors.New("connection refused")
	forever := slices.Repeat([]error{unreachable}, 100)
	for _, tc := range []struct {
		name    string
		answers []error
		tries   int
	}{
		{"not reached twice", []error{unreachable, unreachable}, 3},
		{"never reached", forever, tries},
		{"overloaded", []error{apierrors.NewTooManyRequests("later", 1)}, 2},
		{"failed inside", []error{apierrors.NewInternalError(unreachable)}, 2},
		{"answer lost", []error{unreachable, apierrors.NewAlreadyExists(resource, "e")}, 2},
		{"namespace ends", []error{apierrors.NewForbidden(resource, "e", unreachable)}, 1},
		{"namespace gone", []error{apierrors.NewNotFound(resource, "e")}, 1},
		{"not valid", []error{apierrors.NewBadRequest("no")}, 1},
		{"no request", []error{&rest.RequestConstructionError{Err: unreachable}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(t *testing.T, f *fixture) {
				f.errors = tc.answers
				close(f.calm)
				tell(f.recorder, "a")
				pass(tries * 2 * retryAfter)
				synctest.Wait()
				if f.tries != tc.tries {
					t.Errorf("%d tries, want %d", f.tries, tc.tries)
				}
			})
		})
	}
}

func TestCloseWritesWhatWaits(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		tell(f.recorder, "a")
		tell(f.recorder, "b")
		begin := time.Now()
		left := f.writer.Close(t.Context())
		if took := time.Since(begin); left != 0 || took > 0 {
			t.Errorf("%d events are left after %v, want none at once", left, took)
		}
		f.check(t, "after the end", told("a", "b"))
		tell(f.recorder, "c")
		if want := []string{"Scheduled " + told("c")[0]}; !slices.Equal(f.passed, want) {
			t.Errorf("after the end the inner recorder got %q, want %q", f.passed, want)
		}
		if left := f.writer.Close(t.Context()); left != 0 {
			t.Errorf("%d events are left after a second Close, want none", left)
		}
	})
}

func TestCloseTakesNoLongerThanItMay(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		f.held = true
		for _, name := range []string{"a", "b", "c"} {
			tell(f.recorder, name)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		left := f.writer.Close(ctx)
		if took := time.Since(begin); left != 2 || took != 2*time.Second {
			t.Errorf("%d events are left after %v, want 2 after 2 s", left, took)
		}
	})
}

func TestCloseDoesNotWaitForAServerThatIsGone(t *testing.T) {
	run(t, func(t *testing.T, f *fixture) {
		f.errors = slices.Repeat([]error{errors.New("connection refused")}, 100)
		close(f.calm)
		for _, name := range []string{"a", "b", "c"} {
			tell(f.recorder, name)
		}
		synctest.Wait() // the first is to be tried again
		begin := time.Now()
		f.writer.Close(t.Context())
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %v to give up", took)
		}
	})
}
