// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// change is one change of an object, as a watch has delivered it.
type change struct {
	// revision orders changes of different kinds: all come from one etcd.
	revision uint64
	at       time.Time
	// object is a *Pod, *PodGang or *Event; its last state if deleted.
	object  metav1.Object
	deleted bool
}

// recorder keeps every change of pods, PodGangs and events of the cluster.
type recorder struct {
	// State is what exists by the changes.
	*observe.State

	mu sync.Mutex // guards changes
	// changes by namespace, in the order of delivery.
	changes map[string][]change
}

// record starts a recorder, and returns when what exists is known.
func record(ctx context.Context, client kubernetes.Interface, dyn dynamic.Interface) (*recorder, error) {
	r := &recorder{State: observe.NewState(), changes: map[string][]change{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	gangs, err := observe.PodGangs(dyn, metav1.NamespaceAll, nil)
	if err != nil {
		return nil, err
	}
	return r, observe.Follow(ctx, r.add, factory.Core().V1().Pods().Informer(), factory.Events().V1().Events().Informer(), gangs)
}

func (r *recorder) add(c observe.Change) {
	r.note(c)
	r.Apply(c) // the last, because it wakes those who wait
}

func (r *recorder) note(c observe.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ns := c.Object.GetNamespace()
	r.changes[ns] = append(r.changes[ns], change{revision: observe.Revision(c.Object), at: time.Now(), object: c.Object, deleted: c.Deleted})
}

// of returns the changes in a namespace, in the order in which the API server made them.
func (r *recorder) of(namespace string) []change {
	r.mu.Lock()
	changes := slices.Clone(r.changes[namespace])
	r.mu.Unlock()
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	return changes
}

var (
	_ metav1.Object = &corev1.Pod{}
	_ metav1.Object = &v1alpha1.PodGang{}
	_ metav1.Object = &eventsv1.Event{}
)
