// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
)

const testScheduler = "podgang-scheduler"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testGang makes a gang of one group with the floor, that lists the pods.
func testGang(name string, age time.Duration, class string, floor int32, pods ...*v1.Pod) *v1alpha1.PodGang {
	pg := &v1alpha1.PodGang{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(start.Add(age)),
	}}
	pg.Spec.PriorityClassName = class
	group := v1alpha1.PodGroup{Name: "w", MinReplicas: floor}
	for _, p := range pods {
		group.PodReferences = append(group.PodReferences, v1alpha1.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	pg.Spec.PodGroups = []v1alpha1.PodGroup{group}
	return pg
}

func withPriority(priority int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Priority = &priority }
}

func onNodeNamed(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

func forScheduler(p *v1.Pod) { p.Spec.SchedulerName = testScheduler }

// sorter is a Plugin that knows the gangs, their pods and two priority classes.
func sorter(t testing.TB, gangs []*v1alpha1.PodGang, pods ...*v1.Pod) *Plugin {
	t.Helper()
	classes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, value := range map[string]int32{"urgent": 100, "batch": -100} {
		if err := classes.Add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	pl := &Plugin{
		index:           gang.NewIndex(testScheduler, func(string, string) *v1.Pod { return nil }),
		priorityClasses: schedulinglisters.NewPriorityClassLister(classes),
	}
	for _, pg := range gangs {
		pl.index.SetGang(pg)
	}
	for _, p := range pods {
		pl.index.SetPod(p)
	}
	return pl
}

func queuedAt(t testing.TB, p *v1.Pod, after time.Duration) fwk.QueuedEntityInfo {
	t.Helper()
	info, err := framework.NewPodInfo(p)
	if err != nil {
		t.Fatal(err)
	}
	return &framework.QueuedPodInfo{PodInfo: info, QueueingParams: framework.QueueingParams{Timestamp: start.Add(after)}}
}

func TestLess(t *testing.T) {
	topUp, extra, floor, floor2 := testPod("topup", forScheduler), testPod("extra", forScheduler), testPod("floor", forScheduler), testPod("floor2", forScheduler)
	urgent, batch := testPod("urgent", forScheduler, withPriority(-7)), testPod("batch", forScheduler, withPriority(1000))
	unknown := testPod("unknown", forScheduler, withPriority(1))
	bound, bound2 := testPod("bound", forScheduler, onNodeNamed("n")), testPod("bound2", forScheduler, onNodeNamed("n"))
	pl := sorter(t, []*v1alpha1.PodGang{
		testGang("partly", 50*time.Second, "", 2, topUp, bound),
		testGang("full", 0, "", 1, extra, bound2),
		testGang("new", 20*time.Second, "", 2, floor, floor2),
		testGang("urgent", time.Hour, "urgent", 1, urgent),
		testGang("batch", 0, "batch", 1, batch),
		testGang("unknown", 0, "no-such-class", 1, unknown),
	}, topUp, extra, floor, floor2, urgent, batch, unknown, bound, bound2)
	single := func(name string, priority int32) *v1.Pod { return testPod(name, forScheduler, withPriority(priority)) }
	// The order is that of the list, whatever the order in which they were queued.
	want := []fwk.QueuedEntityInfo{
		queuedAt(t, single("important", 200), time.Hour),
		queuedAt(t, urgent, time.Hour),               // by the class of the gang, not the pod's own priority
		queuedAt(t, unknown, time.Hour),              // no such class: the pod's own priority
		queuedAt(t, topUp, time.Hour),                // its gang is bound in part
		queuedAt(t, single("early", 0), time.Second), // in no gang: by the time of queueing
		queuedAt(t, floor, 2*time.Hour),              // members of a gang by the age of the gang,
		queuedAt(t, floor2, 3*time.Hour),             // and then by the time of queueing
		queuedAt(t, single("late", 0), 30*time.Second),
		queuedAt(t, extra, 0),
		queuedAt(t, batch, 0),
	}
	for i := range want {
		for j := range want {
			if got := pl.Less(want[i], want[j]); got != (i < j) {
				t.Errorf("%s before %s: got %v", nameOf(want[i]), nameOf(want[j]), got)
			}
		}
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b fwk.QueuedEntityInfo) int {
		switch {
		case pl.Less(a, b):
			return -1
		case pl.Less(b, a):
			return 1
		}
		return 0
	})
	var names, wantNames []string
	for i := range want {
		names, wantNames = append(names, nameOf(got[i])), append(wantNames, nameOf(want[i]))
	}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func nameOf(entity fwk.QueuedEntityInfo) string {
	return entity.(*framework.QueuedPodInfo).Pod.Name
}

func TestPodsOutsideGangsSortAsInTree(t *testing.T) {
	pl := sorter(t, nil)
	high := queuedAt(t, testPod("high", withPriority(5)), time.Hour)
	old, young := queuedAt(t, testPod("old"), 0), queuedAt(t, testPod("young"), time.Millisecond)
	for _, tc := range []struct {
		a, b fwk.QueuedEntityInfo
		want bool
	}{{high, old, true}, {old, high, false}, {old, young, true}, {young, old, false}, {old, old, false}} {
		if got := pl.Less(tc.a, tc.b); got != tc.want {
			t.Errorf("%s before %s: got %v, want %v", nameOf(tc.a), nameOf(tc.b), got, tc.want)
		}
	}
}
