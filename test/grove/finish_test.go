// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/grove/operator"
	"github.com/podgang/podgang-scheduler/test/observe"
)

const (
	// partialLimit is how long the bindings of a gang may take, one after another.
	partialLimit = 10 * time.Second
	// cleanTime bounds the clean-up of a scenario.
	cleanTime = 60 * time.Second
)

// finish runs the common checks, tells what a failed scenario looked like, and deletes
// what it made.
func (s *scenario) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	s.ctx = ctx // that of the test has ended
	if s.op != nil {
		s.op.Stop()
	}
	for _, fault := range s.replay() {
		s.t.Error(fault)
	}
	for _, line := range s.suspiciousLines() {
		s.t.Errorf("the scheduler's log says: %s", line)
	}
	if n := s.scheduler().Restarts() - s.restarts; n != 0 || !s.scheduler().Running() {
		s.t.Errorf("the scheduler has ended (%v)", s.scheduler().Err())
	}
	if s.t.Failed() {
		s.dump()
	}
	s.clean()
}

// replay goes through what has happened, and returns the moments that must not be: a
// gang bound in part for long, a pod bound before its gang was initialized, a condition
// of the operator's that is gone.
func (s *scenario) replay() []string {
	var (
		faults []string
		pods   = map[string]*corev1.Pod{}
		gangs  = map[string]*v1alpha1.PodGang{}
		// whole are the gangs with every floor bound since they last had no pod bound;
		// since is when a gang that is not came to have some.
		whole = map[string]bool{}
		since = map[string]time.Time{}
	)
	for _, c := range s.c.recorder.of(s.ns) {
		switch object := c.object.(type) {
		case *corev1.Pod:
			old := pods[object.Name]
			keep(pods, object.Name, object, c.deleted)
			pg := gangs[object.Labels[v1alpha1.LabelPodGang]]
			if pg != nil && object.Spec.NodeName != "" && (old == nil || old.Spec.NodeName == "") && !s.mayBind(pg) {
				faults = append(faults, fmt.Sprintf("pod %s was bound before PodGang %s was initialized", object.Name, pg.Name))
			}
		case *v1alpha1.PodGang:
			old := gangs[object.Name]
			keep(gangs, object.Name, object, c.deleted)
			if old != nil && !c.deleted && old.UID == object.UID && len(object.Status.Conditions) < len(old.Status.Conditions) {
				faults = append(faults, fmt.Sprintf("PodGang %s has lost a condition: it had %v and has %v", object.Name, old.Status.Conditions, object.Status.Conditions))
			}
		default:
			continue
		}
		for name, pg := range gangs {
			bound, floors := boundAmong(pods, pg)
			began, partial := since[name]
			switch {
			case bound == 0 || floors:
				if partial && c.at.Sub(began) > partialLimit {
					faults = append(faults, fmt.Sprintf("PodGang %s was bound in part for %v", name, c.at.Sub(began)))
				}
				delete(since, name)
				whole[name] = bound > 0
			case !whole[name] && !partial:
				since[name] = c.at
			}
		}
	}
	for name, began := range since {
		if gangs[name] != nil && time.Since(began) > partialLimit {
			faults = append(faults, fmt.Sprintf("PodGang %s has been bound in part for %v", name, time.Since(began)))
		}
	}
	return faults
}

func (s *scenario) mayBind(pg *v1alpha1.PodGang) bool {
	return s.generation == operator.GenerationA || meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionInitialized)
}

func keep[T any](m map[string]T, name string, object T, deleted bool) {
	if deleted {
		delete(m, name)
	} else {
		m[name] = object
	}
}

func boundAmong(pods map[string]*corev1.Pod, pg *v1alpha1.PodGang) (bound int, floors bool) {
	floors = true
	for _, g := range pg.Spec.PodGroups {
		n := 0
		for _, ref := range g.PodReferences {
			if pod := pods[ref.Name]; pod != nil && observe.Live(pod) && pod.Spec.NodeName != "" {
				n++
			}
		}
		bound += n
		floors = floors && n >= int(g.MinReplicas)
	}
	return bound, floors
}

// suspiciousLines are lines of the scheduler's log that no scenario may cause.
func (s *scenario) suspiciousLines() []string {
	var found []string
	for _, line := range s.logLines() {
		lower := strings.ToLower(line)
		for _, word := range []string{"forbidden", "panic", "data race", "nil pointer", "likely a bug"} {
			if strings.Contains(lower, word) && len(found) < 5 {
				found = append(found, line)
				break
			}
		}
	}
	return found
}

// logLines are the lines that the scheduler has written since the scenario began.
func (s *scenario) logLines() []string {
	file, err := os.Open(s.scheduler().LogFile())
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = file.Close() }() // only read
	if _, err := file.Seek(s.logFrom, io.SeekStart); err != nil {
		return []string{err.Error()}
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return []string{err.Error()}
	}
	return strings.Split(strings.TrimRight(string(data), "\n"), "\n")
}

// dump tells what a failed scenario looked like.
func (s *scenario) dump() {
	const lines = 40
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %s, %d of %d nodes usable, %s\n", s.ns, s.free, s.total, s.makeUp())
	for _, pg := range s.gangs() {
		fmt.Fprintf(&b, "PodGang %s, phase %s\n", pg.Name, pg.Status.Phase)
		for _, c := range s.c.recorder.of(s.ns) {
			if e, ok := c.object.(*eventsv1.Event); ok && e.Regarding.Kind == "PodGang" && e.Regarding.Name == pg.Name {
				fmt.Fprintf(&b, "  event %s\n", eventText(e))
			}
		}
	}
	for _, pod := range s.pods() {
		fmt.Fprintf(&b, "pod %s\n", describe(pod))
	}
	fmt.Fprintf(&b, "--- %s\n", s.scheduler().LogFile())
	var own []string
	for _, line := range s.logLines() {
		if strings.Contains(line, s.ns+"/") {
			own = append(own, line)
		}
	}
	for _, line := range own[max(0, len(own)-lines):] {
		fmt.Fprintln(&b, line)
	}
	s.t.Log(b.String())
}

// clean deletes what the scenario made and cordons all nodes.
func (s *scenario) clean() {
	now, all := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}
	errs := []error{
		s.c.cordon(s.ctx, 0, nodes, true),
		s.c.Client.CoreV1().Pods(s.ns).DeleteCollection(s.ctx, now, all),
		s.c.Dynamic.Resource(v1alpha1.PodGangResource).Namespace(s.ns).DeleteCollection(s.ctx, metav1.DeleteOptions{}, all),
	}
	for _, name := range s.added {
		errs = append(errs, s.c.Client.CoreV1().Nodes().Delete(s.ctx, name, metav1.DeleteOptions{}))
	}
	for _, err := range errs {
		if err != nil && !apierrors.IsNotFound(err) {
			s.t.Errorf("cannot clean up: %v", err)
		}
	}
	err := s.c.recorder.Wait(s.ctx, cleanTime, func() bool {
		return len(observe.List[*corev1.Pod](s.c.recorder.State, s.ns))+len(s.gangs()) == 0
	})
	if err != nil {
		s.t.Errorf("cannot clean up: %d pods are left: %v", len(observe.List[*corev1.Pod](s.c.recorder.State, s.ns)), err)
	}
}
