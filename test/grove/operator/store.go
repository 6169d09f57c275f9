// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// snapshot is what exists of a workload, by name. The objects are shared: read only.
type snapshot struct {
	pods  map[string]*corev1.Pod
	gangs map[string]*v1alpha1.PodGang
	// levels are the label keys of the workload's topology by the names of its domains;
	// empty when it does not exist.
	levels map[string]string
}

// store is what the informers have shown of a workload.
type store struct {
	wake  func()
	shown observe.Signal // raised with every change

	mu      sync.Mutex // guards everything below
	seen    snapshot
	version map[types.UID]uint64 // of every object ever shown
	gone    map[types.UID]bool
}

// newStore follows a workload's pods, PodGangs and topology until the context ends, and
// returns when what exists is known. Every change calls wake.
func newStore(ctx context.Context, client kubernetes.Interface, dyn dynamic.Interface, opts *Options, wake func()) (*store, error) {
	namespace, workload := opts.Namespace, opts.Workload.Name
	s := &store{
		wake:    wake,
		seen:    snapshot{pods: map[string]*corev1.Pod{}, gangs: map[string]*v1alpha1.PodGang{}},
		version: map[types.UID]uint64{}, gone: map[types.UID]bool{},
	}
	own := func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelPartOf + "=" + workload }
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(own)).Core().V1().Pods().Informer()
	gangs, err := observe.PodGangs(dyn, namespace, own)
	if err != nil {
		return nil, err
	}
	all := []cache.SharedIndexInformer{pods, gangs}
	if opts.Workload.Topology != "" {
		all = append(all, topologyInformer(dyn, opts.Generation, opts.Workload.Topology))
	}
	if err := observe.Follow(ctx, s.add, all...); err != nil {
		return nil, fmt.Errorf("watch pods and PodGangs of workload %s/%s: %w", namespace, workload, err)
	}
	return s, nil
}

func (s *store) add(c observe.Change) {
	s.note(c)
	s.shown.Raise()
	s.wake()
}

func (s *store) note(c observe.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch object := c.Object.(type) {
	case *corev1.Pod:
		keep(s.seen.pods, object.Name, object, c.Deleted)
	case *v1alpha1.PodGang:
		keep(s.seen.gangs, object.Name, object, c.Deleted)
	case *unstructured.Unstructured:
		if s.seen.levels = nil; !c.Deleted {
			s.seen.levels = levels(object)
		}
	}
	s.version[c.Object.GetUID()] = observe.Revision(c.Object)
	s.gone[c.Object.GetUID()] = c.Deleted
}

func keep[T metav1.Object](m map[string]T, name string, object T, deleted bool) {
	switch known, ok := m[name]; {
	case !deleted:
		m[name] = object
	case ok && known.GetUID() == object.GetUID():
		delete(m, name)
	}
}

// shows returns the condition that the store has been shown this version or a later one.
func shows(object metav1.Object) func(*store) bool {
	uid, version := object.GetUID(), observe.Revision(object)
	return func(s *store) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gone[uid] || s.version[uid] >= version
	}
}

func (s *store) pod(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.pods[name]
}

func (s *store) gang(name string) *v1alpha1.PodGang {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.gangs[name]
}

// snapshot copies what exists.
func (s *store) snapshot() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := snapshot{levels: s.seen.levels, pods: make(map[string]*corev1.Pod, len(s.seen.pods)), gangs: make(map[string]*v1alpha1.PodGang, len(s.seen.gangs))}
	for name, pod := range s.seen.pods {
		copied.pods[name] = pod
	}
	for name, pg := range s.seen.gangs {
		copied.gangs[name] = pg
	}
	return copied
}

// wait returns when the condition holds.
func (s *store) wait(ctx context.Context, timeout time.Duration, condition func(*store) bool) error {
	return s.shown.Wait(ctx, timeout, func() bool { return condition(s) })
}
