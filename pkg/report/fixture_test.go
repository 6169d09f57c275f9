// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const testScheduler = "podgang-scheduler"

var key = gang.Key{Namespace: "ns", Name: "g"}

// fixture is a Reporter on the gang ns/g, and what it writes.
type fixture struct {
	*Reporter
	t       *testing.T
	api     *fake.Clientset
	gangAPI *dynamicfake.FakeDynamicClient
	// time is the Reporter's until it is run.
	time    *clocktesting.FakePassiveClock
	current *v1alpha1.PodGang
	// written and told are the patches and the events that were not expected yet.
	written []write
	told    []*eventsv1.Event
}

// newFixture makes a gang of one group w with the floor and the pods given, which
// it also lists.
func newFixture(t *testing.T, policy config.StatusPolicy, floor int32, pods ...*v1.Pod) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pg := &v1alpha1.PodGang{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGang"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "uid-g", ResourceVersion: "1"},
	}
	group := v1alpha1.PodGroup{Name: "w", MinReplicas: floor, PodReferences: []v1alpha1.NamespacedName{}}
	objects := make([]runtime.Object, 0, len(pods))
	for _, pod := range pods {
		group.PodReferences = append(group.PodReferences, v1alpha1.NamespacedName{Namespace: "ns", Name: pod.Name})
		objects = append(objects, pod)
	}
	pg.Spec.PodGroups = []v1alpha1.PodGroup{group}
	f := &fixture{
		t:       t,
		api:     fake.NewClientset(objects...),
		gangAPI: dynamicfake.NewSimpleDynamicClient(scheme, pg.DeepCopy()),
		time:    clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	index := gang.NewIndex(testScheduler, func(string, string) *v1.Pod { return nil })
	f.Reporter = New(testScheduler, index, f.api, f.gangAPI, policy)
	f.clock = f.time
	f.setGang(pg)
	for _, pod := range pods {
		f.setPod(pod)
	}
	return f
}

// stop ends a Reporter that was not run.
func (f *fixture) stop() { f.queue.ShutDown() }

func (f *fixture) setGang(pg *v1alpha1.PodGang) {
	f.current = pg
	f.index.SetGang(pg)
}

// changeGang sets the next version of the PodGang.
func (f *fixture) changeGang(change func(*v1alpha1.PodGang)) {
	pg := f.current.DeepCopy()
	pg.ResourceVersion = next(pg.ResourceVersion)
	change(pg)
	f.setGang(pg)
}

func (f *fixture) setPod(pod *v1.Pod) { f.index.SetPod(pod) }

// reportNow writes what is due at once, outside the queue.
func (f *fixture) reportNow() {
	f.t.Helper()
	if err := f.report(f.t.Context(), key); err != nil {
		f.t.Fatalf("report: %v", err)
	}
}

// reportAfter lets time go by and writes what is due then.
func (f *fixture) reportAfter(d time.Duration) {
	f.t.Helper()
	f.time.SetTime(f.time.Now().Add(d))
	f.reportNow()
}

// collect takes over what has been written.
func (f *fixture) collect() {
	f.t.Helper()
	for _, client := range []*clienttesting.Fake{&f.gangAPI.Fake, &f.api.Fake} {
		for _, action := range client.Actions() {
			if create, ok := action.(clienttesting.CreateAction); ok {
				f.told = append(f.told, create.GetObject().(*eventsv1.Event))
			} else {
				f.written = append(f.written, f.writeOf(action))
			}
		}
		client.ClearActions()
	}
}

// expectEvents checks which events there have been since the last call.
func (f *fixture) expectEvents(want ...string) {
	f.t.Helper()
	f.collect()
	var got []string
	for _, e := range f.told {
		got = append(got, e.Type+" "+e.Reason+" "+e.Note)
	}
	f.told = nil
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// write is a write to the API.
type write struct {
	Object, Subresource string
	Type                types.PatchType
	Body                map[string]any
}

func phaseWrite(phase v1alpha1.PodGangPhase) write {
	return statusWrite(map[string]any{"phase": string(phase)})
}

func scoreWrite(score float64) write {
	return statusWrite(map[string]any{"placementScore": score})
}

func statusWrite(status map[string]any) write {
	return write{
		Object: "podgangs ns/g", Subresource: "status", Type: types.MergePatchType,
		Body: map[string]any{"status": status},
	}
}

// conditionWrite is the write of PodScheduled=False on a pod of version 1.
func conditionWrite(pod, reason, message string) write {
	return write{
		Object: "pods ns/" + pod, Subresource: "status", Type: types.StrategicMergePatchType,
		Body: map[string]any{
			"metadata": map[string]any{"uid": "uid-" + pod, "resourceVersion": "1"},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": "PodScheduled", "status": "False", "reason": reason, "message": message,
			}}},
		},
	}
}

// expectWrites checks what has been written since the last call; times and
// generations in conditions are left out.
func (f *fixture) expectWrites(want ...write) {
	f.t.Helper()
	f.collect()
	got := f.written
	f.written = nil
	// Members are told side by side, in no order.
	byObject := cmpopts.SortSlices(func(a, b write) bool { return a.Object+a.Subresource < b.Object+b.Subresource })
	if diff := cmp.Diff(want, got, byObject); diff != "" {
		f.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func (f *fixture) writeOf(action clienttesting.Action) write {
	f.t.Helper()
	patch, ok := action.(clienttesting.PatchAction)
	if !ok {
		f.t.Fatalf("got %s of %s, want patches only", action.GetVerb(), action.GetResource().Resource)
	}
	w := write{
		Object:      fmt.Sprintf("%s %s/%s", patch.GetResource().Resource, patch.GetNamespace(), patch.GetName()),
		Subresource: patch.GetSubresource(),
		Type:        patch.GetPatchType(),
	}
	if err := json.Unmarshal(patch.GetPatch(), &w.Body); err != nil {
		f.t.Fatalf("patch %s: %v", patch.GetPatch(), err)
	}
	status, _ := w.Body["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, condition := range conditions {
		for _, field := range []string{"lastProbeTime", "lastTransitionTime", "observedGeneration"} {
			delete(condition.(map[string]any), field)
		}
	}
	return w
}

func pod(name string, options ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec:       v1.PodSpec{SchedulerName: testScheduler},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

// changed returns the next version of a pod.
func changed(p *v1.Pod, options ...func(*v1.Pod)) *v1.Pod {
	p = p.DeepCopy()
	p.ResourceVersion = next(p.ResourceVersion)
	for _, option := range options {
		option(p)
	}
	return p
}

func next(version string) string {
	n, _ := strconv.Atoi(version)
	return strconv.Itoa(n + 1)
}

func onNode(p *v1.Pod) { p.Spec.NodeName = "n" }

func running(p *v1.Pod) {
	p.Spec.NodeName = "n"
	p.Status.Phase = v1.PodRunning
}

func waiting(reason, message string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(time.Unix(0, 0)),
		}}
	}
}

func initialized(status metav1.ConditionStatus) func(*v1alpha1.PodGang) {
	return func(pg *v1alpha1.PodGang) {
		pg.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: status, Reason: "Why"}}
	}
}
