// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/test/observe"
)

const (
	namespace     = "chaos"
	schedulerName = "podgang-scheduler"
	deviceClass   = "gpu.nvidia.com"
)

// doFunc is what a step does.
type doFunc = func(ctx context.Context, r *run) error

// persistence is how long a write is tried that the API server does not answer.
const persistence = 60 * time.Second

// persist repeats a write until the API server has answered it, which it does not while
// it is being restarted. What is there already, or gone already, is as good.
func persist(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, persistence)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(ctx, 10*time.Second)
		err := write(attempt)
		done()
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
			return nil
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			return err
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("given up: %w", err)
		}
	}
}

// podOptions say what a pod is like.
type podOptions struct {
	name  string
	gang  string // the label, "" for none
	gpus  int64  // by a claim of its own; 0 for none
	cpu   string
	claim string // a claim by name
	grace int64
	gated bool
}

// templateFor names the ResourceClaimTemplate for a number of GPUs.
func templateFor(gpus int64) string { return fmt.Sprintf("gpus-%d", gpus) }

// templateSizes are the numbers of GPUs for which there are templates.
var templateSizes = []int64{1, 2, 4, 8, 9}

func newPod(o podOptions) *corev1.Pod {
	main := corev1.Container{Name: "main", Image: "pause"}
	main.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(o.cpu)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: o.name, Namespace: namespace, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName:                 schedulerName,
			TerminationGracePeriodSeconds: &o.grace,
			AutomountServiceAccountToken:  ptr.To(false),
		},
	}
	if o.gang != "" {
		pod.Labels[v1alpha1.LabelPodGang] = o.gang
	}
	if o.gated {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGatePodGangPending}}
	}
	add := func(c corev1.PodResourceClaim) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, c)
		main.Resources.Claims = append(main.Resources.Claims, corev1.ResourceClaim{Name: c.Name})
	}
	if o.gpus > 0 {
		add(corev1.PodResourceClaim{Name: "own", ResourceClaimTemplateName: ptr.To(templateFor(o.gpus))})
	}
	if o.claim != "" {
		add(corev1.PodResourceClaim{Name: "shared", ResourceClaimName: &o.claim})
	}
	pod.Spec.Containers = []corev1.Container{main}
	return pod
}

func createPod(o podOptions) doFunc {
	return func(ctx context.Context, r *run) error {
		return persist(ctx, func(ctx context.Context) error {
			_, err := r.client.CoreV1().Pods(namespace).Create(ctx, newPod(o), metav1.CreateOptions{})
			return err
		})
	}
}

func deletePod(name string) doFunc {
	return func(ctx context.Context, r *run) error {
		return persist(ctx, func(ctx context.Context) error {
			return r.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
	}
}

// ungate takes the scheduling gates off a pod.
func ungate(name string) doFunc {
	return func(ctx context.Context, r *run) error {
		patch := []byte(`{"spec":{"schedulingGates":null}}`)
		return persist(ctx, func(ctx context.Context) error {
			_, err := r.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
}

// finishPod writes the phase of a pod that runs, as its kubelet would. A pod that does
// not run is left alone.
func finishPod(name string, phase corev1.PodPhase) doFunc {
	return func(ctx context.Context, r *run) error {
		pods := r.client.CoreV1().Pods(namespace)
		return persist(ctx, func(ctx context.Context) error {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil || pod.Status.Phase != corev1.PodRunning {
				return err
			}
			pod.Status.Phase = phase
			_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return err
		})
	}
}

// putGang creates the PodGang, or gives it another spec.
func putGang(name string, spec v1alpha1.PodGangSpec) doFunc {
	return func(ctx context.Context, r *run) error {
		gangs := r.dynamic.Resource(v1alpha1.PodGangResource).Namespace(namespace)
		pg := &v1alpha1.PodGang{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGang"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec:       spec,
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pg)
		if err != nil {
			return err
		}
		return persist(ctx, func(ctx context.Context) error {
			existing, err := gangs.Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				existing, err = gangs.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
			case err == nil:
				existing.Object["spec"] = object["spec"]
				existing, err = gangs.Update(ctx, existing, metav1.UpdateOptions{})
			}
			if err != nil {
				return err
			}
			// The watch may miss it when the API server is restarted.
			decoded, err := observe.DecodePodGang(existing)
			if err != nil {
				return err
			}
			r.recorder.add(observe.Change{Object: decoded})
			return nil
		})
	}
}

func deleteGang(name string) doFunc {
	return func(ctx context.Context, r *run) error {
		err := persist(ctx, func(ctx context.Context) error {
			return r.dynamic.Resource(v1alpha1.PodGangResource).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
		if err == nil {
			r.recorder.gone(name) // the watch may miss it when the API server is restarted
		}
		return err
	}
}

func claimSpec(gpus int64) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: deviceClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: gpus,
		},
	}}}}
}

func createClaim(name string, gpus int64) doFunc {
	return func(ctx context.Context, r *run) error {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(gpus)}
		return persist(ctx, func(ctx context.Context) error {
			_, err := r.client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
			return err
		})
	}
}

func deleteClaim(name string) doFunc {
	return func(ctx context.Context, r *run) error {
		return persist(ctx, func(ctx context.Context) error {
			return r.client.ResourceV1().ResourceClaims(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
	}
}

func cordonNode(name string, unschedulable bool) doFunc {
	return func(ctx context.Context, r *run) error {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable)
		if unschedulable {
			r.journal.fault("cordon " + name)
		}
		return persist(ctx, func(ctx context.Context) error {
			_, err := r.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
}

// deleteNode deletes a node, and the pods on it if they die with it.
func deleteNode(name string, withPods bool) doFunc {
	return func(ctx context.Context, r *run) error {
		r.journal.fault("delete " + name)
		err := persist(ctx, func(ctx context.Context) error {
			return r.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		})
		if err != nil || !withPods {
			return err
		}
		for _, pod := range list[*corev1.Pod](r.recorder) {
			if pod.Spec.NodeName != name {
				continue
			}
			err := persist(ctx, func(ctx context.Context) error {
				return r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// deleteSlices removes what the drivers of a node have published.
func deleteSlices(node string) doFunc {
	return func(ctx context.Context, r *run) error {
		r.journal.fault("remove the ResourceSlices of " + node)
		return persist(ctx, func(ctx context.Context) error {
			return r.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		})
	}
}

// applyNode brings a node and its devices to what the shape says.
func applyNode(name string) doFunc {
	return func(ctx context.Context, r *run) error {
		part := &shape.Shape{Name: name}
		for _, n := range r.shape.Nodes {
			if n.Name == name {
				part.Nodes = append(part.Nodes, n)
			}
		}
		for _, s := range r.shape.Slices {
			if nodeOfSlice(s) == name {
				part.Slices = append(part.Slices, s)
			}
		}
		return persist(ctx, func(ctx context.Context) error { return r.lab.ApplyShape(ctx, part) })
	}
}

// damaged says what of the shape is missing; the nodes by name.
func (r *run) damaged() []string {
	whole := map[string]bool{}
	for _, n := range list[*corev1.Node](r.recorder) {
		whole[n.Name] = !n.Spec.Unschedulable && n.DeletionTimestamp == nil
	}
	published := map[string]int{}
	for _, s := range list[*resourcev1.ResourceSlice](r.recorder) {
		owners := slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return r.nodeUID(o.Name) == o.UID })
		if owners && s.DeletionTimestamp == nil {
			published[nodeOfSlice(s)] += len(s.Spec.Devices)
		}
	}
	devices := map[string]int{}
	for _, s := range r.shape.Slices {
		devices[nodeOfSlice(s)] += len(s.Spec.Devices)
	}
	var damaged []string
	for _, n := range r.shape.Nodes {
		if !whole[n.Name] || published[n.Name] != devices[n.Name] {
			damaged = append(damaged, n.Name)
		}
	}
	return damaged
}

func (r *run) nodeUID(name string) types.UID {
	if n := observe.Get[*corev1.Node](r.recorder.state, "", name); n != nil {
		return n.UID
	}
	return ""
}

// repair brings all nodes back, and returns when the recorder has seen them.
func (r *run) repair(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*persistence)
	defer cancel()
	for {
		damaged := r.damaged()
		if len(damaged) == 0 {
			return nil
		}
		for _, node := range damaged {
			if err := applyNode(node)(ctx, r); err != nil {
				return err
			}
			if err := cordonNode(node, false)(ctx, r); err != nil {
				return err
			}
		}
		if !pause(ctx, 500*time.Millisecond) {
			return fmt.Errorf("nodes are not as they were: %s", strings.Join(r.damaged(), ", "))
		}
	}
}
