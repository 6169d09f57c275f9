// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

func createdAt(age time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(start.Add(age)) }
}

func ownedBy(kind string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", Controller: new(true)}}
	}
}

func nominatedTo(node string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.NominatedNodeName = node }
}

// keeper is a Plugin that keeps node "kept" for gang large, an hour old.
func keeper(t *testing.T) (pl *Plugin, pods map[string]*v1.Pod) {
	t.Helper()
	pods = map[string]*v1.Pod{}
	add := func(name string, options ...func(*v1.Pod)) *v1.Pod {
		pods[name] = testPod(name, append(options, forScheduler)...)
		return pods[name]
	}
	gangs := []*v1alpha1.PodGang{
		testGang("large", time.Hour, "", 1, add("large-0")),
		testGang("older", 0, "", 1, add("older-0")),
		testGang("younger", 2*time.Hour, "", 1, add("younger-0")),
		testGang("urgent", 2*time.Hour, "urgent", 1, add("urgent-0")),
		testGang("full", 0, "", 1, add("full-0", onNodeNamed("n")), add("extra")),
	}
	add("early", createdAt(0))
	add("late", createdAt(2*time.Hour))
	add("important", createdAt(2*time.Hour), withPriority(7))
	add("daemon", createdAt(2*time.Hour), ownedBy("DaemonSet"))
	add("replica", createdAt(2*time.Hour), ownedBy("ReplicaSet"))
	add("nominated", createdAt(2*time.Hour), nominatedTo("kept"))
	var members []*v1.Pod
	for _, name := range []string{"large-0", "older-0", "younger-0", "urgent-0", "full-0", "extra"} {
		members = append(members, pods[name])
	}
	pl = sorter(t, gangs, members...)
	pl.bystanders, pl.keeps, pl.waits, pl.turns = newBystanderBook(), newKeepBook(keepAfter), newWaitBook(), newTurnBook()
	key, order := gang.Key{Namespace: "ns", Name: "large"}, pl.turnKey(pods["large-0"])
	since, _ := pl.keeps.refused(key, order, start)
	pl.keeps.keep(newKeep(key, order, since, sets.New("kept")))
	return pl, pods
}

func TestKeptNodesAreClosedToWhatComesAfterTheGang(t *testing.T) {
	const reason = "kept for PodGang ns/large, which has waited since 2026-01-01T00:00:00Z"
	for _, tc := range []struct {
		pod    string
		closed bool
	}{
		{"large-0", false},
		{"older-0", false},
		{"younger-0", true},
		{"urgent-0", false},
		{"extra", true},
		{"early", false},
		{"late", true},
		{"important", false},
		{"daemon", false},
		{"replica", true},
		{"nominated", false},
	} {
		t.Run(tc.pod, func(t *testing.T) {
			pl, pods := keeper(t)
			state := framework.NewCycleState()
			pl.meetKeep(state, pods[tc.pod])
			for _, name := range []string{"kept", "other"} {
				node := framework.NewNodeInfo()
				node.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
				want := ""
				if tc.closed && name == "kept" {
					want = reason
				}
				if got := pl.Filter(t.Context(), state, pods[tc.pod], node).Message(); got != want {
					t.Errorf("node %s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestPodsThatAreKeptOutAreCalledForLater(t *testing.T) {
	for _, tc := range []struct {
		name, pod string
		open      bool // before the pod comes
		planning  bool
		// skip: Filter has nothing to do. called: the pod is in the book of bystanders.
		skip, called bool
	}{
		{name: "a pod that is kept out", pod: "late", called: true},
		{name: "a pod that comes before the gang", pod: "early", skip: true},
		{name: "nothing is kept", pod: "late", open: true, skip: true},
		{name: "a plan, which is not a pod's own cycle", pod: "younger-0", planning: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl, pods := keeper(t)
			if tc.open {
				pl.keeps.open(gang.Key{Namespace: "ns", Name: "large"})
			}
			state := framework.NewCycleState()
			if tc.planning {
				gangresources.MarkPlanning(state)
			}
			if got := pl.meetKeep(state, pods[tc.pod]).IsSkip(); got != tc.skip {
				t.Errorf("Filter is skipped: %v, want %v", got, tc.skip)
			}
			if got := len(pl.bystanders.take()) == 1; got != tc.called {
				t.Errorf("the pod is called for later: %v, want %v", got, tc.called)
			}
		})
	}
}

func TestGangsThatDoNotWaitForRoomAreForgotten(t *testing.T) {
	large := gang.Key{Namespace: "ns", Name: "large"}
	for _, tc := range []struct {
		name   string
		change func(pl *Plugin, pods map[string]*v1.Pod)
		open   bool
	}{
		{"it waits", func(*Plugin, map[string]*v1.Pod) {}, false},
		{"it is deleted", func(pl *Plugin, _ map[string]*v1.Pod) { pl.index.DeleteGang(testGang("large", time.Hour, "", 1)) }, true},
		{"a member of its floor is", func(pl *Plugin, pods map[string]*v1.Pod) { pl.index.DeletePod(pods["large-0"]) }, true},
		{"its floor is bound", func(pl *Plugin, _ map[string]*v1.Pod) {
			pl.index.SetPod(testPod("large-0", forScheduler, onNodeNamed("kept")))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl, pods := keeper(t)
			pl.waits.set(large, pods["large-0"], blockers{"Any": {pods["large-0"]}})
			pl.turns.wake(large, pods["large-0"])
			tc.change(pl, pods)
			if got := pl.forgetSated([]gang.Key{large}); got != tc.open {
				t.Errorf("nodes are open again: %v, want %v", got, tc.open)
			}
			if got := pl.keeps.current.Load() == nil; got != tc.open {
				t.Errorf("nothing is kept: %v, want %v", got, tc.open)
			}
			if pl.waits.refused(large) == tc.open || (pl.turns.due[large] != nil) == tc.open {
				t.Errorf("in the books of gangs that wait: %v, of those that are due: %v", pl.waits.refused(large), pl.turns.due[large] != nil)
			}
		})
	}
}
