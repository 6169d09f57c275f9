// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

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
	mu sync.Mutex // guards everything below
	// changes by namespace, in the order of delivery.
	changes map[string][]change
	// latest is the state of every object that exists, by kind and name.
	latest map[string]metav1.Object
	// changed is closed and replaced with every change.
	changed chan struct{}
}

// record starts a recorder, and returns when what exists is known.
func record(ctx context.Context, client kubernetes.Interface, dyn dynamic.Interface) (*recorder, error) {
	r := &recorder{changes: map[string][]change{}, latest: map[string]metav1.Object{}, changed: make(chan struct{})}
	factory := informers.NewSharedInformerFactory(client, 0)
	gangs, err := observe.PodGangs(dyn, metav1.NamespaceAll, nil)
	if err != nil {
		return nil, err
	}
	all := []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer(), factory.Events().V1().Events().Informer(), gangs}
	for _, informer := range all {
		if _, err := observe.Changes(informer, r.add); err != nil {
			return nil, err
		}
		go informer.Run(ctx.Done())
	}
	for _, informer := range all {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, errors.New("cannot watch the cluster")
		}
	}
	return r, nil
}

func (r *recorder) add(c observe.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ns, key := c.Object.GetNamespace(), keyOf(c.Object)
	r.changes[ns] = append(r.changes[ns], change{revision: observe.Revision(c.Object), at: time.Now(), object: c.Object, deleted: c.Deleted})
	if c.Deleted {
		delete(r.latest, key)
	} else {
		r.latest[key] = c.Object
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func keyOf(object metav1.Object) string {
	return fmt.Sprintf("%T/%s/%s", object, object.GetNamespace(), object.GetName())
}

// get returns the object of a name as last seen, nil if there is none.
func get[T interface {
	*O
	metav1.Object
}, O any](r *recorder, namespace, name string) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, _ := r.latest[fmt.Sprintf("%T/%s/%s", T(nil), namespace, name)].(T)
	return object
}

// list returns the objects of a kind in a namespace as last seen, by name.
func list[T metav1.Object](r *recorder, namespace string) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	var objects []T
	for _, object := range r.latest {
		if o, ok := object.(T); ok && o.GetNamespace() == namespace {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return objects
}

// of returns the changes in a namespace, in the order in which the API server made them.
func (r *recorder) of(namespace string) []change {
	r.mu.Lock()
	changes := slices.Clone(r.changes[namespace])
	r.mu.Unlock()
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	return changes
}

// recheck is how often a condition is looked at although nothing was recorded: some
// conditions are about more than recorded objects.
const recheck = 100 * time.Millisecond

// wait returns when the condition holds, or an error.
func (r *recorder) wait(ctx context.Context, timeout time.Duration, condition func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(recheck):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var (
	_ metav1.Object = &corev1.Pod{}
	_ metav1.Object = &v1alpha1.PodGang{}
	_ metav1.Object = &eventsv1.Event{}
)
