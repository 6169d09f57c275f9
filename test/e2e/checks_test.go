// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/observe"
)

const (
	// settleTime is how long things that follow by themselves may take at the end.
	settleTime = 15 * time.Second
	// partialLimit is when a gang that is bound in part counts as at rest. The bindings
	// of a gang follow each other at once.
	partialLimit = 10 * time.Second
	// cleanTime bounds the clean-up of a scenario.
	cleanTime = 60 * time.Second
)

// finish runs the common checks, tells what a failed scenario looked like, and deletes
// what it made.
func (s *scenario) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime+4*settleTime)
	defer cancel()
	s.ctx = ctx // that of the test has ended
	if !s.t.Failed() && !s.t.Skipped() {
		s.check(ctx)
	}
	for _, r := range s.rulesOpen {
		r.release()
	}
	if s.t.Failed() {
		s.dump()
	}
	s.clean(ctx)
}

// check is what holds after every scenario.
func (s *scenario) check(ctx context.Context) {
	if instead := s.eventually(ctx, settleTime, s.partialNow); instead != "" {
		s.t.Errorf("not whole: %s", instead)
	}
	// A watch of one kind may be behind that of another.
	if instead := s.eventually(ctx, settleTime, func() string { return strings.Join(s.replay().faults, "; ") }); instead != "" {
		s.t.Errorf("not whole: %s", instead)
	}
	for _, doubled := range s.c.history.doubledDevices() {
		s.t.Errorf("not exclusive: %s", doubled)
	}
	if instead := s.eventually(ctx, settleTime, s.residue); instead != "" {
		s.t.Errorf("residue: %s", instead)
	}
	if instead := s.eventually(ctx, settleTime, s.unexplained); instead != "" {
		s.t.Errorf("unexplained: %s", instead)
	}
	if over := s.overcommitted(ctx); over != "" {
		s.t.Errorf("overcommitted: %s", over)
	}
	for _, line := range s.suspiciousLines() {
		s.t.Errorf("the scheduler's log says: %s", line)
	}
	if n := s.scheduler().Restarts() - s.restarts; n != s.killed {
		s.t.Errorf("the scheduler was started again %d times, by the test %d times", n, s.killed)
	}
	for _, component := range s.c.Components() {
		if err := component.Err(); err != nil {
			s.t.Errorf("a component has ended: %v", err)
		}
	}
}

// partialNow says which gang is bound in part now.
func (s *scenario) partialNow() string {
	return strings.Join(s.replay().partial, "; ")
}

// story is what the history tells about the gangs of a namespace.
type story struct {
	// faults are moments that must not be.
	faults []string
	// partial are the gangs bound in part at the end.
	partial []string
}

// gangStory is what a replay knows about one gang.
type gangStory struct {
	// complete: every floor has been bound since the gang last had no member bound.
	complete bool
	// since is when the gang came to be bound in part; zero while it is not.
	since time.Time
	// any: a member is bound.
	any bool
	// prepared is when every floor last had its devices.
	prepared time.Time
}

// preparedLimit is how much earlier than its first binding a gang may have been
// prepared: a member may go when its gang has been let go already.
const preparedLimit = 2 * time.Second

// replayed is the state of a namespace at one revision.
type replayed struct {
	pods   map[string]*corev1.Pod
	claims map[string]*resourcev1.ResourceClaim
	gangs  map[string]*v1alpha1.PodGang
}

func (n *replayed) apply(r record) (relevant bool) {
	switch object := r.object.(type) {
	case *corev1.Pod:
		set(n.pods, object.Name, object, r.deleted)
	case *resourcev1.ResourceClaim:
		set(n.claims, object.Name, object, r.deleted)
	case *v1alpha1.PodGang:
		set(n.gangs, object.Name, object, r.deleted)
	default:
		return false
	}
	return true
}

// replay goes through the records in the order in which the API server wrote them.
func (s *scenario) replay() story {
	records := slices.Clone(s.c.history.of(s.ns))
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.revision, b.revision) })
	var result story
	state := &replayed{pods: map[string]*corev1.Pod{}, claims: map[string]*resourcev1.ResourceClaim{}, gangs: map[string]*v1alpha1.PodGang{}}
	stories := map[string]*gangStory{}
	for _, r := range records {
		if !state.apply(r) {
			continue
		}
		for name := range stories {
			if state.gangs[name] == nil {
				delete(stories, name)
			}
		}
		for name, pg := range state.gangs {
			if stories[name] == nil {
				stories[name] = &gangStory{}
			}
			if fault := stories[name].next(state, pg, r.at); fault != "" && !s.foreignBinder {
				result.faults = append(result.faults, fmt.Sprintf("PodGang %s %s", name, fault))
			}
		}
	}
	for name, st := range stories {
		if !st.since.IsZero() {
			result.partial = append(result.partial, fmt.Sprintf("PodGang %s has been bound in part for %v", name, time.Since(st.since).Round(time.Millisecond)))
		}
	}
	return result
}

// next takes a gang's story on to the next state, and returns what is wrong with that.
func (st *gangStory) next(state *replayed, pg *v1alpha1.PodGang, at time.Time) (fault string) {
	bound, floors := countBound(state.pods, pg)
	missing := unprepared(state.pods, state.claims, pg)
	if missing == "" {
		st.prepared = at
	}
	if bound > 0 && !st.any && at.Sub(st.prepared) > preparedLimit {
		fault = "began to be bound when " + missing
	}
	st.any = bound > 0
	switch {
	case floors || bound == 0:
		if !st.since.IsZero() && at.Sub(st.since) > partialLimit {
			fault = fmt.Sprintf("was bound in part for %v", at.Sub(st.since))
		}
		st.since, st.complete = time.Time{}, floors && bound > 0
	case !st.complete && st.since.IsZero():
		st.since = at
	}
	return fault
}

func set[T any](m map[string]T, name string, object T, deleted bool) {
	if deleted {
		delete(m, name)
	} else {
		m[name] = object
	}
}

// countBound counts a gang's bound members, and tells whether all floors are bound.
func countBound(pods map[string]*corev1.Pod, pg *v1alpha1.PodGang) (bound int, floors bool) {
	floors = true
	for i := range pg.Spec.PodGroups {
		n := liveBound(pods, &pg.Spec.PodGroups[i])
		bound += n
		floors = floors && n >= int(pg.Spec.PodGroups[i].MinReplicas)
	}
	return bound, floors
}

// unprepared says which group has fewer members with all their devices than its floor.
func unprepared(pods map[string]*corev1.Pod, claims map[string]*resourcev1.ResourceClaim, pg *v1alpha1.PodGang) string {
	for i := range pg.Spec.PodGroups {
		g := &pg.Spec.PodGroups[i]
		ready := 0
		for _, ref := range g.PodReferences {
			if pod := pods[ref.Name]; pod != nil && observe.Live(pod) && hasDevices(pod, claims) {
				ready++
			}
		}
		if ready < int(g.MinReplicas) {
			return fmt.Sprintf("%d of the %d members of group %s had their devices", ready, g.MinReplicas, g.Name)
		}
	}
	return ""
}

func hasDevices(pod *corev1.Pod, claims map[string]*resourcev1.ResourceClaim) bool {
	own := observe.ClaimNames(pod)
	if len(own) < len(pod.Spec.ResourceClaims) {
		return false
	}
	for _, name := range own {
		c := claims[name]
		if c == nil || c.Status.Allocation == nil || !reservedFor(c, pod) {
			return false
		}
	}
	return true
}

// residue says which claim is allocated or reserved for a pod that is not bound.
func (s *scenario) residue() string {
	bound := map[string]bool{}
	for _, pod := range list[*corev1.Pod](s.c.history, s.ns) {
		if pod.Spec.NodeName != "" {
			bound[string(pod.UID)] = true
		}
	}
	var found []string
	for _, c := range list[*resourcev1.ResourceClaim](s.c.history, s.ns) {
		for _, consumer := range c.Status.ReservedFor {
			if !bound[string(consumer.UID)] {
				found = append(found, fmt.Sprintf("claim %s is reserved for pod %s, which is not bound", c.Name, consumer.Name))
			}
		}
		if c.Status.Allocation != nil && len(c.Status.ReservedFor) == 0 {
			found = append(found, fmt.Sprintf("claim %s is allocated for nobody", c.Name))
		}
	}
	return strings.Join(found, "; ")
}

// unexplained says which pod waits without saying why.
func (s *scenario) unexplained() string {
	var found []string
	for _, pod := range list[*corev1.Pod](s.c.history, s.ns) {
		if pod.Spec.NodeName != "" || !observe.Live(pod) || pod.Spec.SchedulerName != schedulerName {
			continue
		}
		if c := observe.Scheduled(pod); c == nil || c.Status != corev1.ConditionFalse || c.Message == "" {
			found = append(found, fmt.Sprintf("pod %s waits without a reason", pod.Name))
		}
	}
	return strings.Join(found, "; ")
}

// overcommitted says which node has more pods or CPU asked of it than it has.
func (s *scenario) overcommitted(ctx context.Context) string {
	nodes, err := s.client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	pods := list[*corev1.Pod](s.c.history, "")
	for i := range nodes.Items {
		node := &nodes.Items[i]
		asked := corev1.ResourceList{}
		for _, pod := range pods {
			if pod.Spec.NodeName != node.Name || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
				continue
			}
			for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
				sum := asked[name]
				sum.Add(quantity)
				asked[name] = sum
			}
		}
		for name, quantity := range asked {
			has, known := node.Status.Allocatable[name]
			if known && quantity.Cmp(has) > 0 {
				return fmt.Sprintf("node %s has %s of %s, and its pods ask for %s", node.Name, has.String(), name, quantity.String())
			}
		}
	}
	return ""
}

// suspiciousLines are lines of the scheduler's log that no scenario may cause.
func (s *scenario) suspiciousLines() []string {
	var found []string
	for _, line := range s.logLines(s.scheduler()) {
		if strings.Contains(line, "denied by the test") {
			continue
		}
		lower := strings.ToLower(line)
		for _, word := range []string{"forbidden", "panic", "data race", "nil pointer", "likely a bug"} {
			if s.outage && word == "forbidden" {
				continue
			}
			if strings.Contains(lower, word) && len(found) < 5 {
				found = append(found, line)
				break
			}
		}
	}
	return found
}

// linesAboutScenario are the last lines of a component's log that name the scenario's
// namespace, and the last lines of all.
func (s *scenario) linesAboutScenario(component *lab.Component) []string {
	const about, all = 25, 3
	lines := s.logLines(component)
	var own []string
	for _, line := range lines {
		if strings.Contains(line, s.ns+"/") {
			own = append(own, line)
		}
	}
	return append(own[max(0, len(own)-about):], lines[max(0, len(lines)-all):]...)
}

// logLines are the lines that a component has written since the scenario began.
func (s *scenario) logLines(component *lab.Component) []string {
	data, err := os.ReadFile(component.LogFile())
	if err != nil {
		return []string{err.Error()}
	}
	data = data[min(int(s.logFrom[component.Name()]), len(data)):]
	return strings.Split(strings.TrimRight(string(data), "\n"), "\n")
}

// dump tells what a failed scenario looked like.
func (s *scenario) dump() {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %s\n", s.ns)
	for _, pg := range list[*v1alpha1.PodGang](s.c.history, s.ns) {
		fmt.Fprintf(&b, "PodGang %s: phases %q", pg.Name, s.phases(pg.Name))
		for _, g := range pg.Spec.PodGroups {
			fmt.Fprintf(&b, "; group %s, floor %d, lists", g.Name, g.MinReplicas)
			for _, ref := range g.PodReferences {
				fmt.Fprintf(&b, " %s", ref.Name)
			}
		}
		fmt.Fprintln(&b)
		for _, note := range s.eventsOn(pg.Name) {
			fmt.Fprintf(&b, "  event %s\n", note)
		}
	}
	for _, pod := range list[*corev1.Pod](s.c.history, s.ns) {
		fmt.Fprintf(&b, "pod %s\n", s.describe(pod.Name))
	}
	for _, c := range list[*resourcev1.ResourceClaim](s.c.history, s.ns) {
		fmt.Fprintf(&b, "claim %s: allocated %t, reserved for %v\n", c.Name, c.Status.Allocation != nil, c.Status.ReservedFor)
	}
	for _, component := range s.c.Components() {
		fmt.Fprintf(&b, "--- %s\n", component.LogFile())
		for _, line := range s.linesAboutScenario(component) {
			fmt.Fprintln(&b, line)
		}
	}
	s.t.Log(b.String())
}

// clean deletes what the scenario made. Pods go before PodGangs: a pod without its gang
// is an ordinary pod.
func (s *scenario) clean(ctx context.Context) {
	now, all := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}
	errs := []error{
		s.client().CoreV1().Pods(s.ns).DeleteCollection(ctx, now, all),
		s.c.gangs.Namespace(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		s.client().ResourceV1().ResourceClaims(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
	}
	for _, name := range s.nodes {
		errs = append(errs,
			s.client().ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name}),
			s.client().CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}))
	}
	for _, name := range s.classes {
		errs = append(errs, s.client().ResourceV1().DeviceClasses().Delete(ctx, name, metav1.DeleteOptions{}))
	}
	for _, name := range s.pclasses {
		errs = append(errs, s.client().SchedulingV1().PriorityClasses().Delete(ctx, name, metav1.DeleteOptions{}))
	}
	for _, undo := range slices.Backward(s.restore) {
		errs = append(errs, undo(ctx))
	}
	for _, err := range errs {
		if err != nil && !apierrors.IsNotFound(err) {
			s.t.Errorf("cannot clean up: %v", err)
		}
	}
	instead := s.eventually(ctx, cleanTime, func() string {
		pods, claims := list[*corev1.Pod](s.c.history, s.ns), list[*resourcev1.ResourceClaim](s.c.history, s.ns)
		if n := len(pods) + len(claims); n > 0 {
			return fmt.Sprintf("%d pods and %d claims are left", len(pods), len(claims))
		}
		return ""
	})
	if instead != "" {
		s.t.Errorf("cannot clean up: %s", instead)
	}
}
