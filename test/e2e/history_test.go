// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// record is one change of an object, as a watch has delivered it.
type record struct {
	// revision orders records of different kinds: all of them come from one etcd. Of a
	// deletion that no watch has seen it is the highest that was seen by then.
	revision uint64
	at       time.Time
	// object is a *Pod, *ResourceClaim, *PodGang or *Event; its last state if deleted.
	object  metav1.Object
	deleted bool
}

// history is every change of pods, claims, PodGangs and events in a cluster.
type history struct {
	// state is what exists by the records.
	state *observe.State

	mu sync.Mutex // guards everything below
	// records by namespace, in the order of delivery.
	records map[string][]record
	// latest is the highest revision of all.
	latest uint64
	// holder names the claim that has a device, by driver, pool and device name.
	holder map[string]types.NamespacedName
	// doubled are the moments at which a device was in two claims.
	doubled []string
	// sharing are the drivers whose devices may be.
	sharing map[string]bool
}

// recordHistory starts to record, and returns when what exists is known.
func recordHistory(ctx context.Context, client kubernetes.Interface) (*history, error) {
	h := &history{
		state:   observe.NewState(),
		records: make(map[string][]record),
		holder:  make(map[string]types.NamespacedName),
		sharing: make(map[string]bool),
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	return h, observe.Follow(ctx, h.add,
		factory.Core().V1().Pods().Informer(),
		factory.Resource().V1().ResourceClaims().Informer(),
		factory.Events().V1().Events().Informer(),
	)
}

// followGangs records PodGangs.
func (h *history) followGangs(ctx context.Context, dyn dynamic.Interface) error {
	informer, err := observe.PodGangs(dyn, metav1.NamespaceAll, nil)
	if err != nil {
		return err
	}
	return observe.Follow(ctx, h.add, informer)
}

func (h *history) add(c observe.Change) {
	h.note(c)
	h.state.Apply(c) // the last, because it wakes those who wait
}

func (h *history) note(c observe.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ns, revision := c.Object.GetNamespace(), observe.Revision(c.Object)
	h.latest = max(h.latest, revision)
	if c.Missed {
		revision = h.latest
	}
	h.records[ns] = append(h.records[ns], record{revision: revision, at: time.Now(), object: c.Object, deleted: c.Deleted})
	if claim, ok := c.Object.(*resourcev1.ResourceClaim); ok {
		h.trackDevices(claim, c.Deleted)
	}
}

// trackDevices keeps the book of who has which device.
func (h *history) trackDevices(claim *resourcev1.ResourceClaim, deleted bool) {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	for device, holder := range h.holder {
		if holder == name {
			delete(h.holder, device)
		}
	}
	if deleted || claim.Status.Allocation == nil {
		return
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		device := r.Driver + "/" + r.Pool + "/" + r.Device
		if other, taken := h.holder[device]; taken && !h.sharing[r.Driver] {
			h.doubled = append(h.doubled, fmt.Sprintf("device %s is in claims %s and %s", device, other, name))
		}
		h.holder[device] = name
	}
}

func keyOf(object metav1.Object) string { return observe.Key(object) }

// get returns the object of a name as last seen, nil if there is none.
func get[T interface {
	*O
	metav1.Object
}, O any](h *history, namespace, name string) T {
	return observe.Get[T](h.state, namespace, name)
}

// list returns the objects of a kind in a namespace ("" for all) as last seen.
func list[T metav1.Object](h *history, namespace string) []T {
	return observe.List[T](h.state, namespace)
}

// of returns the records of a namespace in the order of delivery.
func (h *history) of(namespace string) []record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records[namespace][:len(h.records[namespace]):len(h.records[namespace])]
}

// doubledDevices returns the moments at which a device was in two claims.
func (h *history) doubledDevices() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubled
}

// wait returns when the condition holds, or an error.
func (h *history) wait(ctx context.Context, timeout time.Duration, condition func() bool) error {
	return h.state.Wait(ctx, timeout, condition)
}

// saw reports whether a record of the namespace matches.
func (h *history) saw(namespace string, match func(record) bool) bool {
	for _, r := range h.of(namespace) {
		if match(r) {
			return true
		}
	}
	return false
}

var (
	_ metav1.Object = &corev1.Pod{}
	_ metav1.Object = &resourcev1.ResourceClaim{}
	_ metav1.Object = &v1alpha1.PodGang{}
	_ metav1.Object = &eventsv1.Event{}
)

// The object of a deletion that no watch has seen is an old one: in its place the claim of
// a gang would be gone before the gang was bound.
func TestDeletionThatWasMissedComesAfterWhatWasSeen(t *testing.T) {
	h := &history{records: map[string][]record{}, holder: map[string]types.NamespacedName{}}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", ResourceVersion: "5"}}
	gone := claim.DeepCopy()
	gone.ResourceVersion = "11"
	for _, c := range []observe.Change{
		{Object: claim},
		{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", ResourceVersion: "9"}}},
		{Object: claim, Deleted: true, Missed: true},
		{Object: gone, Deleted: true},
	} {
		h.note(c)
	}
	var got []uint64
	for _, r := range h.records["ns"] {
		got = append(got, r.revision)
	}
	if want := []uint64{5, 9, 9, 11}; !slices.Equal(got, want) {
		t.Errorf("revisions %v, want %v", got, want)
	}
}
