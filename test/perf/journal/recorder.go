// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podgang/podgang-scheduler/test/observe"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// Recorder fills a journal and a ledger from watches. A watch hands over to a queue
// without bound, so that a slow handler holds up nobody.
type Recorder struct {
	*Journal
	// Ledger covers the devices of claims, of all namespaces, and the GPUs that pods have
	// by device plugin, by node.
	Ledger *Ledger
}

// Record starts the watches; they end with ctx. capacity is as for NewLedger.
func Record(ctx context.Context, client kubernetes.Interface, capacity map[string]int) (*Recorder, error) {
	r := &Recorder{Journal: New(), Ledger: NewLedger(capacity)}
	factory := informers.NewSharedInformerFactory(client, 0)
	watches := []struct {
		informer cache.SharedIndexInformer
		handle   func(observe.Change)
	}{
		{factory.Core().V1().Pods().Informer(), r.pod},
		{factory.Resource().V1().ResourceClaims().Informer(), r.claim},
		{factory.Events().V1().Events().Informer(), r.event},
	}
	for _, w := range watches {
		if err := w.informer.SetTransform(strip); err != nil {
			return nil, fmt.Errorf("cannot watch: %w", err)
		}
		if err := observe.Follow(ctx, w.handle, w.informer); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// strip drops what the recorder does not read, so that the store stays small.
func strip(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

func (r *Recorder) pod(c observe.Change) {
	at := time.Now()
	pod, ok := c.Object.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.Spec.NodeName != "" {
		r.Ledger.Set("pod "+pod.Namespace+"/"+pod.Name, pluginGPUs(pod, c.Deleted))
	}
	if pod.Namespace != workload.Namespace {
		return
	}
	r.Observe(State{
		Pod: pod.Name, Gang: pod.Labels[workload.GangLabel], Node: pod.Spec.NodeName,
		Refused: refused(pod), Claims: claimsExist(pod), Deleted: c.Deleted,
	}, at)
}

// pluginGPUs is what a bound pod takes from its node's device plugin.
func pluginGPUs(pod *corev1.Pod, gone bool) map[string]int {
	if gone {
		return nil
	}
	n := 0
	for i := range pod.Spec.Containers {
		quantity := pod.Spec.Containers[i].Resources.Requests[workload.GPUResource]
		n += int(quantity.Value())
	}
	if n == 0 {
		return nil
	}
	return map[string]int{NodeGPUs(pod.Spec.NodeName): n}
}

// NodeGPUs is the ledger's name for the GPUs of a node's device plugin.
func NodeGPUs(node string) string { return "GPUs of " + node }

func refused(pod *corev1.Pod) bool {
	c := observe.Scheduled(pod)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// claimsExist reports whether every claim of the pod has been made from its template.
func claimsExist(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 && len(pod.Status.ResourceClaimStatuses) == len(pod.Spec.ResourceClaims)
}

func (r *Recorder) claim(c observe.Change) {
	claim, ok := c.Object.(*resourcev1.ResourceClaim)
	if !ok {
		return
	}
	var devices map[string]int
	if allocation := claim.Status.Allocation; allocation != nil && !c.Deleted {
		devices = map[string]int{}
		for _, d := range allocation.Devices.Results {
			devices[d.Driver+"/"+d.Pool+"/"+d.Device]++
		}
	}
	r.Ledger.Set("claim "+claim.Namespace+"/"+claim.Name, devices)
}

// event takes a warning about an object that is not a pod for the word to its gang.
func (r *Recorder) event(c observe.Change) {
	at := time.Now()
	e, ok := c.Object.(*eventsv1.Event)
	if ok && !c.Deleted && e.Type == corev1.EventTypeWarning && e.Regarding.Kind != "Pod" && e.Regarding.Namespace == workload.Namespace {
		r.Tell(e.Regarding.Name, at)
	}
}

// WaitFor waits until the counts satisfy done; it fails when ctx ends.
func (j *Journal) WaitFor(ctx context.Context, done func(Counts) bool) error {
	for {
		counts, changed := j.Counts()
		if done(counts) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
