// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// workers make writes at the same time; more of them are no faster on 2 cores.
const workers = 32

// Job is a placement with all that is needed to write it.
type Job struct {
	client kubernetes.Interface
	tasks  []task
}

type task struct {
	place Place
	pod   *corev1.Pod
	claim *resourcev1.ResourceClaim // nil without one
}

// Prepare reads the pods and claims of the placement; nothing is read after it. The
// limits are those of the client.
func Prepare(ctx context.Context, config *rest.Config, qps float32, burst int, places []Place) (*Job, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.ContentType = qps, burst, runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	pods, err := client.CoreV1().Pods(workload.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the pods: %w", err)
	}
	claims, err := client.ResourceV1().ResourceClaims(workload.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the claims: %w", err)
	}
	podByName, claimByName := map[string]*corev1.Pod{}, map[string]*resourcev1.ResourceClaim{}
	for i := range pods.Items {
		podByName[pods.Items[i].Name] = &pods.Items[i]
	}
	for i := range claims.Items {
		claimByName[claims.Items[i].Name] = &claims.Items[i]
	}
	job := &Job{client: client}
	for _, p := range places {
		t := task{place: p, pod: podByName[p.Pod.Name]}
		if t.pod == nil {
			return nil, fmt.Errorf("pod %s does not exist", p.Pod.Name)
		}
		if p.Pod.Claims() {
			if t.claim = claimByName[claimName(t.pod)]; t.claim == nil {
				return nil, fmt.Errorf("pod %s has no claim", p.Pod.Name)
			}
		}
		job.tasks = append(job.tasks, t)
	}
	return job, nil
}

func claimName(pod *corev1.Pod) string {
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == workload.ClaimEntry && s.ResourceClaimName != nil {
			return *s.ResourceClaimName
		}
	}
	return ""
}

// Write makes all writes.
func (j *Job) Write(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i := range j.tasks {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return j.write(ctx, &j.tasks[i])
		})
	}
	return g.Wait()
}

// write makes the writes of kube-scheduler for a pod with a claim from a template: the
// claim's finalizer, its status, the binding.
func (j *Job) write(ctx context.Context, t *task) error {
	if t.claim != nil {
		claims := j.client.ResourceV1().ResourceClaims(workload.Namespace)
		claim := t.claim.DeepCopy()
		claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
		claim, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("cannot add the finalizer to claim %s: %w", t.claim.Name, err)
		}
		claim.Status.Allocation = t.place.allocation()
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: t.pod.Name, UID: t.pod.UID}}
		if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("cannot allocate claim %s: %w", claim.Name, err)
		}
	}
	err := j.client.CoreV1().Pods(workload.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: workload.Namespace, Name: t.pod.Name, UID: t.pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: t.place.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot bind pod %s: %w", t.pod.Name, err)
	}
	return nil
}

func (p *Place) allocation() *resourcev1.AllocationResult {
	result := &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{p.Node}}},
	}}}}
	for _, d := range p.Devices {
		result.Devices.Results = append(result.Devices.Results, resourcev1.DeviceRequestAllocationResult{
			Request: workload.GPURequest, Driver: GPUDriver, Pool: p.Node, Device: d,
		})
	}
	return result
}
