// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// record is one change of an object, as a watch has delivered it.
type record struct {
	// revision orders changes of different kinds: all of them come from one etcd.
	revision uint64
	at       time.Time
	// object is a *Pod, *ResourceClaim, *PodGang, *Node or *ResourceSlice; its last
	// state if deleted.
	object  metav1.Object
	deleted bool
}

// recorder watches the API server, past the injector. It lives through restarts of the
// API server.
type recorder struct {
	journal *journal
	client  kubernetes.Interface
	dynamic dynamic.Interface
	stop    context.CancelFunc // ends the watches

	mu      sync.Mutex // held while a change is taken over; guards what follows
	pending []record   // not yet taken
	newest  uint64     // the highest revision so far
	// state is the newest version of everything, whatever the order of delivery.
	state *observe.State
}

func newRecorder(ctx context.Context, j *journal, client kubernetes.Interface, dyn dynamic.Interface) (*recorder, error) {
	r := &recorder{journal: j, client: client, dynamic: dyn, state: observe.NewState()}
	return r, r.follow(ctx)
}

// follow starts to watch until ctx ends, and returns when all that exists is known, and
// what does not exist any more.
func (r *recorder) follow(ctx context.Context) error {
	watchCtx, stop := context.WithCancel(ctx)
	r.stop = stop
	factory := informers.NewSharedInformerFactory(r.client, 0)
	gangs, err := observe.PodGangs(r.dynamic, metav1.NamespaceAll, nil)
	if err != nil {
		return err
	}
	all := []cache.SharedIndexInformer{
		factory.Core().V1().Pods().Informer(),
		factory.Core().V1().Nodes().Informer(),
		factory.Resource().V1().ResourceClaims().Informer(),
		factory.Resource().V1().ResourceSlices().Informer(),
		gangs,
	}
	if err := observe.Follow(watchCtx, r.add, all...); err != nil {
		return err
	}
	exists := map[string]bool{}
	for _, informer := range all {
		for _, obj := range informer.GetStore().List() {
			exists[observe.Key(obj.(metav1.Object))] = true
		}
	}
	for key, object := range r.state.All() {
		if !exists[key] {
			r.add(observe.Change{Object: object, Deleted: true, Missed: true})
		}
	}
	return nil
}

// restart watches anew, at once: the watches of before come back late after a restart of
// the API server.
func (r *recorder) restart(ctx context.Context) error {
	r.stop()
	return r.follow(ctx)
}

func (r *recorder) add(c observe.Change) {
	object, deleted := c.Object, c.Deleted
	rec := record{revision: observe.Revision(object), at: time.Now(), object: object, deleted: deleted}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = max(r.newest, rec.revision)
	if c.Missed {
		rec.revision = r.newest // it was deleted later than in its last known state
	}
	before := r.state.Find(observe.Key(object))
	if before != nil && !deleted {
		switch known := observe.Revision(before); {
		case known == rec.revision:
			return // listed again, or written by ourselves
		case known > rec.revision:
			r.pending = append(r.pending, rec) // the judge puts it where it belongs
			return
		}
	}
	r.state.Apply(c)
	r.pending = append(r.pending, rec)
	if text := changeText(before, object, deleted); text != "" {
		r.journal.change(entry{at: rec.at, revision: rec.revision, subject: subjectOf(object.GetName()), text: text})
	}
}

// gone records that a PodGang has been deleted.
func (r *recorder) gone(name string) {
	if pg := observe.Get[*v1alpha1.PodGang](r.state, namespace, name); pg != nil {
		r.add(observe.Change{Object: pg, Deleted: true, Missed: true})
	}
}

// take returns the records that came since the last call, in the order in which the API
// server made the changes.
func (r *recorder) take() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	records := r.pending
	r.pending = nil
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.revision, b.revision) })
	return records
}

// list returns the objects of a kind, by name.
func list[T metav1.Object](r *recorder) []T { return observe.List[T](r.state, "") }

// behind says which object the recorder has in another version than the API server; ""
// if it knows all.
func (r *recorder) behind(ctx context.Context, client kubernetes.Interface, dyn dynamic.Interface) string {
	there := map[string]string{}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for i := range pods.Items {
		there[observe.Key(&pods.Items[i])] = pods.Items[i].ResourceVersion
	}
	claims, err := client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for i := range claims.Items {
		there[observe.Key(&claims.Items[i])] = claims.Items[i].ResourceVersion
	}
	gangs, err := dyn.Resource(v1alpha1.PodGangResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for i := range gangs.Items {
		pg, err := observe.DecodePodGang(&gangs.Items[i])
		if err != nil {
			return err.Error()
		}
		there[observe.Key(pg)] = pg.ResourceVersion
	}
	known := r.state.All()
	for key, version := range there {
		if object := known[key]; object == nil || object.GetResourceVersion() != version {
			return "the watch has not delivered " + key
		}
	}
	for key, object := range known {
		if _, exists := there[key]; !exists && object.GetNamespace() == namespace {
			return "the watch has not delivered the end of " + key
		}
	}
	return ""
}

// changeText says what has changed, "" if nothing that matters.
func changeText(before, now metav1.Object, deleted bool) string {
	var was, is string
	switch object := now.(type) {
	case *corev1.Pod:
		is = podText(object)
		if b, ok := before.(*corev1.Pod); ok && b.UID == object.UID {
			was = podText(b)
		}
	case *resourcev1.ResourceClaim:
		is = claimText(object)
		if b, ok := before.(*resourcev1.ResourceClaim); ok && b.UID == object.UID {
			was = claimText(b)
		}
	case *v1alpha1.PodGang:
		is = gangText(object)
		if b, ok := before.(*v1alpha1.PodGang); ok && b.UID == object.UID {
			was = gangText(b)
		}
	case *corev1.Node:
		is = fmt.Sprintf("node %s unschedulable=%t", object.Name, object.Spec.Unschedulable)
		if b, ok := before.(*corev1.Node); ok && b.UID == object.UID {
			was = fmt.Sprintf("node %s unschedulable=%t", b.Name, b.Spec.Unschedulable)
		}
	case *resourcev1.ResourceSlice:
		is = fmt.Sprintf("slice %s of %s", object.Name, nodeOfSlice(object))
		if before != nil {
			was = is
		}
	}
	switch {
	case deleted:
		return "deleted: " + is
	case was == "":
		return "created: " + is
	case was == is:
		return ""
	}
	return is
}

func podText(p *corev1.Pod) string {
	s := fmt.Sprintf("pod %s %s", p.Name, p.Status.Phase)
	if p.Spec.NodeName != "" {
		s += " on " + p.Spec.NodeName
	}
	if p.DeletionTimestamp != nil {
		s += " terminating"
	}
	if len(p.Spec.SchedulingGates) > 0 {
		s += " gated"
	}
	if c := observe.Scheduled(p); c != nil && c.Status != corev1.ConditionTrue {
		s += fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
	}
	return s
}

func claimText(c *resourcev1.ResourceClaim) string {
	s := "claim " + c.Name
	if c.DeletionTimestamp != nil {
		s += " terminating"
	}
	if devices := devicesOf(c); len(devices) > 0 {
		s += " has " + strings.Join(devices, " ")
	} else if c.Status.Allocation != nil {
		s += " is allocated"
	}
	for _, consumer := range c.Status.ReservedFor {
		s += " for " + consumer.Name
	}
	return s
}

// devicesOf are the devices that a claim holds for itself, as pool/device.
func devicesOf(c *resourcev1.ResourceClaim) []string {
	if c.Status.Allocation == nil {
		return nil
	}
	var devices []string
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.AdminAccess == nil || !*r.AdminAccess {
			devices = append(devices, r.Pool+"/"+r.Device)
		}
	}
	return devices
}

func gangText(pg *v1alpha1.PodGang) string {
	return fmt.Sprintf("PodGang %s {%s} %s", pg.Name, describe(pg.Spec), pg.Status.Phase)
}

func nodeOfSlice(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}
