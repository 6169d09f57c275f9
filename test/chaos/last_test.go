// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// Gangs after the faults. x001 and x002 fit alone and not together; x003 needs every GPU
// there is, so that nothing can have been forgotten.
var lastGangs = []string{"x001", "x002", "x003"}

// finale empties the cluster and lets the last gangs have it.
func (r *run) finale(ctx context.Context) []finding {
	r.journal.note("", "FINALE: everything is deleted")
	if found := r.empty(ctx); len(found) > 0 {
		return found
	}
	nodes := len(r.shape.Nodes)
	r.createLast(ctx, nodes/2+1, lastGangs[0], lastGangs[1])
	r.must(createPod(podOptions{name: "p999", gpus: 1, cpu: "1"})(ctx, r))
	found := r.calm(ctx, func() []finding { return r.expect("one gang and the pod are bound", "p999", 1, lastGangs[:2]) })
	if len(found) > 0 {
		return found
	}
	for _, gang := range lastGangs[:2] {
		if r.boundOf(gang) > 0 {
			r.must(deleteGang(gang)(ctx, r))
			r.deletePods(ctx, gang)
			break
		}
	}
	r.must(deletePod("p999")(ctx, r))
	found = r.calm(ctx, func() []finding { return r.expect("the gang that is left is bound", "", 1, lastGangs[:2]) })
	if len(found) > 0 {
		return found
	}
	if found := r.empty(ctx); len(found) > 0 {
		return found
	}
	r.createLast(ctx, nodes, lastGangs[2])
	return r.calm(ctx, func() []finding { return r.expect("the gang that needs all GPUs is bound", "", 1, lastGangs[2:]) })
}

// createLast creates gangs of whole nodes, their pods in turn.
func (r *run) createLast(ctx context.Context, floor int, gangs ...string) {
	name := func(gang string, i int) string { return fmt.Sprintf("%s-a-%d", gang, i) }
	for _, gang := range gangs {
		group := v1alpha1.PodGroup{Name: "a", MinReplicas: int32(floor)}
		for i := range floor {
			group.PodReferences = append(group.PodReferences, v1alpha1.NamespacedName{Namespace: namespace, Name: name(gang, i)})
		}
		r.must(putGang(gang, v1alpha1.PodGangSpec{PodGroups: []v1alpha1.PodGroup{group}})(ctx, r))
	}
	for i := range floor {
		for _, gang := range gangs {
			r.must(createPod(podOptions{name: name(gang, i), gang: gang, gpus: 8, cpu: "1"})(ctx, r))
		}
	}
}

func (r *run) must(err error) {
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err)
	}
}

// boundOf counts the bound pods of a gang.
func (r *run) boundOf(gang string) int {
	n := 0
	for _, pod := range list[*corev1.Pod](r.recorder) {
		if subjectOf(pod.Name) == gang && pod.Spec.NodeName != "" && observe.Live(pod) {
			n++
		}
	}
	return n
}

// expect says what is not so: that many of the gangs are bound, and the pod, if any. That
// they are bound whole is checked for all gangs.
func (r *run) expect(what, pod string, want int, gangs []string) []finding {
	var bound []string
	for _, gang := range gangs {
		if n := r.boundOf(gang); n > 0 {
			bound = append(bound, fmt.Sprintf("%s: %d pods", gang, n))
		}
	}
	if len(bound) == want && (pod == "" || r.boundOf(pod) == 1) {
		return nil
	}
	return []finding{{at: time.Now(), subject: gangs[0], text: fmt.Sprintf("at the end: expected that %s; bound are: %s", what, strings.Join(bound, ", "))}}
}

// deletePods deletes the pods of a gang, all for "".
func (r *run) deletePods(ctx context.Context, gang string) {
	for _, pod := range list[*corev1.Pod](r.recorder) {
		if gang == "" || subjectOf(pod.Name) == gang {
			r.must(deletePod(pod.Name)(ctx, r))
		}
	}
}

// empty deletes all pods, PodGangs and claims, and waits until they are gone.
func (r *run) empty(ctx context.Context) []finding {
	r.deletePods(ctx, "")
	for _, pg := range list[*v1alpha1.PodGang](r.recorder) {
		r.must(deleteGang(pg.Name)(ctx, r))
	}
	r.must(persist(ctx, func(ctx context.Context) error {
		return r.client.ResourceV1().ResourceClaims(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}))
	return r.calm(ctx, func() []finding {
		pods, claims := len(list[*corev1.Pod](r.recorder)), len(list[*resourcev1.ResourceClaim](r.recorder))
		if pods+claims == 0 {
			return nil
		}
		return []finding{{at: time.Now(), text: fmt.Sprintf("%d pods and %d claims are left when all were deleted", pods, claims)}}
	})
}
