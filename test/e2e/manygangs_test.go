// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Sixty gangs come and go on sixteen devices. All of them run; whenever the oldest that
// waits would fit, it is bound at once, and none holds a device for long before it is.
func TestManyGangsInTurn(t *testing.T) {
	const (
		gangs    = 60
		interval = 100 * time.Millisecond
		runTime  = 300 * time.Millisecond
		each     = 8
	)
	s := shared(t)
	s.slots(2, each)
	lots := s.lots()
	members := map[string][]string{}
	ends := map[string]time.Time{}
	next := time.Now()
	for done := 0; done < gangs; {
		now := time.Now()
		if i := len(members); i < gangs && !now.Before(next) {
			next = next.Add(interval)
			gang := fmt.Sprintf("g%d", i)
			members[gang] = names(gang, 1+lots.IntN(each))
			s.gang(gang, group("w", len(members[gang]), members[gang]...))
			s.manyPods(members[gang], of(gang), devices(1))
		}
		for gang, pods := range members {
			switch end, running := ends[gang]; {
			case !running && s.boundCount(pods...) == len(pods):
				ends[gang] = now.Add(runTime)
			case running && !end.IsZero() && now.After(end):
				ends[gang] = time.Time{}
				done++
				s.complete(pods)
			}
		}
		// Time itself is what the gangs wait for here.
		_ = s.c.history.wait(s.ctx, 10*time.Millisecond, func() bool { return false })
		if now.Sub(next) > *patience {
			t.Fatalf("%d gangs of %d have run", done, gangs)
		}
	}
	idle, held := s.idleRoom(2 * each)
	s.tookAtOnce("binding the oldest gang that waits and fits", idle)
	s.tookAtOnce("binding a gang that has got its first device", held)
}

// complete ends pods as their containers would: they succeed.
func (s *scenario) complete(list []string) {
	s.t.Helper()
	var g errgroup.Group
	for _, name := range list {
		g.Go(func() error {
			patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, corev1.PodSucceeded)
			_, err := s.client().CoreV1().Pods(s.ns).Patch(s.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		})
	}
	s.must(g.Wait())
}

// turn is a gang's story on a limited number of equal devices.
type turn struct {
	gang  *v1alpha1.PodGang
	size  int
	pods  map[string]bool // exist
	bound map[string]bool
	held  time.Time // the first device was allocated
}

// idleRoom goes through the history of gangs of pods with one device each. It returns
// for how long, at a time, the oldest gang that waited would have fitted into the free
// devices, and for every gang how long it had devices before it was bound.
func (s *scenario) idleRoom(devices int) (idle, held []time.Duration) {
	s.t.Helper()
	records := slices.Clone(s.c.history.of(s.ns))
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.revision, b.revision) })
	turns, taken := map[string]*turn{}, map[string]string{} // gang by claim
	var candidate *turn
	var since time.Time
	for _, r := range records {
		switch object := r.object.(type) {
		case *v1alpha1.PodGang:
			if turns[object.Name] == nil {
				turns[object.Name] = &turn{gang: object, size: int(object.Spec.PodGroups[0].MinReplicas), pods: map[string]bool{}, bound: map[string]bool{}}
			}
		case *corev1.Pod:
			if g := turns[object.Labels[v1alpha1.LabelPodGang]]; g != nil {
				g.pods[object.Name] = true
				if object.Spec.NodeName != "" && !g.bound[object.Name] {
					g.bound[object.Name] = true
					if len(g.bound) == g.size {
						held = append(held, r.at.Sub(g.held))
					}
				}
			}
		case *resourcev1.ResourceClaim:
			if r.deleted || object.Status.Allocation == nil {
				delete(taken, object.Name)
			} else if g := turns[gangOfClaim(object)]; g != nil {
				taken[object.Name] = g.gang.Name
				if g.held.IsZero() {
					g.held = r.at
				}
			}
		}
		now := oldestThatFits(turns, taken, devices-len(taken))
		if now != candidate {
			if candidate != nil {
				idle = append(idle, r.at.Sub(since))
			}
			candidate, since = now, r.at
		}
	}
	return idle, held
}

// gangOfClaim tells the gang of a claim of TestManyGangsInTurn: its pods are named
// <gang>-<number>, and a claim has the name of its pod in front.
func gangOfClaim(c *resourcev1.ResourceClaim) string {
	for i, r := range c.Name {
		if r == '-' {
			return c.Name[:i]
		}
	}
	return c.Name
}

// oldestThatFits returns the gang that is first in the order of the queue of those that
// have all pods and none bound, if the free devices are enough for it.
func oldestThatFits(turns map[string]*turn, taken map[string]string, free int) *turn {
	var oldest *turn
	for g := range maps.Values(turns) {
		if len(g.pods) < g.size || len(g.bound) > 0 {
			continue
		}
		if oldest == nil || cmp.Or(g.gang.CreationTimestamp.Compare(oldest.gang.CreationTimestamp.Time), cmp.Compare(g.gang.UID, oldest.gang.UID)) < 0 {
			oldest = g
		}
	}
	if oldest == nil {
		return nil
	}
	for _, gang := range taken { // its own are not in its way
		if gang == oldest.gang.Name {
			free++
		}
	}
	if free < oldest.size {
		return nil
	}
	return oldest
}

// Two gangs of two groups on four nodes: either fills the cluster. The pods come in an
// order in which one group of each could be placed.
func TestTwoGangsOfTwoGroupsPodByPod(t *testing.T) {
	s := shared(t)
	s.slots(4, 8)
	groups := map[string][]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		groups[name] = names(name, 2)
	}
	s.gang("p", group("a", 2, groups["a"]...), group("b", 2, groups["b"]...))
	s.gang("q", group("c", 2, groups["c"]...), group("d", 2, groups["d"]...))
	gangOf := map[string]string{"a": "p", "b": "p", "c": "q", "d": "q"}
	for _, name := range []string{"a", "c", "b", "d"} {
		for _, pod := range groups[name] {
			s.pod(pod, of(gangOf[name]), devices(8))
		}
	}
	first, second := append(groups["a"], groups["b"]...), append(groups["c"], groups["d"]...)
	s.until("one of the gangs is bound", func() string {
		if s.boundCount(first...) < 4 && s.boundCount(second...) < 4 {
			return s.describe("a-0") + "; " + s.describe("c-0")
		}
		return ""
	})
	if s.boundCount(second...) == 4 {
		first, second = second, first
	}
	s.unschedulable(second)
	s.holdsNothing(second...)
	s.deletePods(first...)
	s.bound(second...)
}

// Four pairs on room for two, the leaders first: no leader runs without its worker.
func TestLeadersDoNotTakeTheRoomOfWorkers(t *testing.T) {
	s := shared(t)
	s.slots(4, 1)
	pair := func(gang string) []string { return []string{gang + "-leader", gang + "-worker"} }
	create := func(gangs ...string) {
		for _, gang := range gangs {
			pods := pair(gang)
			s.gang(gang, group("leader", 1, pods[0]), group("worker", 1, pods[1]))
		}
		for _, role := range []int{0, 1} {
			for _, gang := range gangs {
				s.pod(pair(gang)[role], of(gang), devices(1))
			}
		}
	}
	create("old-0", "old-1")
	s.bound(append(pair("old-0"), pair("old-1")...)...)
	for _, gang := range []string{"old-0", "old-1"} { // to zero, and at once to four
		s.gone(gang, pair(gang)...)
	}
	gangs := names("new", 4)
	create(gangs...)
	var whole, waiting []string
	s.until("two pairs are bound", func() string {
		whole, waiting = nil, nil
		for _, gang := range gangs {
			switch s.boundCount(pair(gang)...) {
			case 2:
				whole = append(whole, gang)
			case 0:
				waiting = append(waiting, pair(gang)...)
			}
		}
		if len(whole) != 2 || len(waiting) != 4 {
			return fmt.Sprintf("%v are whole, and %v wait", whole, waiting)
		}
		return ""
	})
	s.unschedulable(waiting)
	s.holdsNothing(waiting...)
	for _, gang := range whole {
		s.gone(gang, pair(gang)...)
	}
	s.bound(waiting...)
}

// Two gangs of which one pod cannot come, and one that is complete.
func TestGangsWhoseLastMemberCannotCome(t *testing.T) {
	s := shared(t)
	s.slots(4, 8)
	for _, gang := range []string{"p", "q", "r"} {
		s.gang(gang, group("w", 4, names(gang, 4)...))
	}
	incomplete := append(names("p", 3), names("q", 3)...)
	for i := range 3 { // pod by pod
		s.pod(fmt.Sprintf("p-%d", i), of("p"), devices(8))
		s.pod(fmt.Sprintf("q-%d", i), of("q"), devices(8))
	}
	s.waits(incomplete, "3 of 4")
	s.tells("p", "3 of 4")
	s.tells("q", "3 of 4")
	s.holdsNothing(incomplete...)
	r := s.members("r", 4, devices(8))
	s.bound(r...)
	s.holdsNothing(incomplete...)
	s.gone("p", names("p", 3)...)
	s.gone("r", r...)
	s.pod("q-3", of("q"), devices(8))
	s.bound(names("q", 4)...)
}
