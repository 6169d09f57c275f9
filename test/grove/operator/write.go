// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// writer is what writes go through.
type writer struct {
	pods  podWriter
	gangs dynamic.ResourceInterface
}

// podWriter is the part of the client for pods that is used.
type podWriter interface {
	Create(ctx context.Context, pod *corev1.Pod, opts metav1.CreateOptions) (*corev1.Pod, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Pod, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

func newWriter(client kubernetes.Interface, gangs dynamic.Interface, namespace string) *writer {
	return &writer{pods: client.CoreV1().Pods(namespace), gangs: gangs.Resource(v1alpha1.PodGangResource).Namespace(namespace)}
}

// write makes one change. It returns what the informers must show before the next pass,
// which would otherwise make the change again.
type write func(context.Context, *writer) (shown func(*store) bool, err error)

// inOrder makes one write of several.
func inOrder(writes ...write) write {
	return func(ctx context.Context, w *writer) (func(*store) bool, error) {
		var last func(*store) bool
		for _, do := range writes {
			shown, err := do(ctx, w)
			if err != nil {
				return nil, err
			}
			last = shown
		}
		return last, nil // later versions of one object: the last is enough
	}
}

func createGang(pg *v1alpha1.PodGang) write {
	return func(ctx context.Context, w *writer) (func(*store) bool, error) {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pg)
		if err != nil {
			return nil, err
		}
		created, err := w.gangs.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return shows(created), nil
	}
}

func patchGang(name string, change map[string]any, subresources ...string) write {
	return func(ctx context.Context, w *writer) (func(*store) bool, error) {
		patch, err := json.Marshal(change)
		if err != nil {
			return nil, err
		}
		patched, err := w.gangs.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
		if err != nil {
			return nil, err
		}
		return shows(patched), nil
	}
}

func patchStatus(name string, status map[string]any) write {
	return patchGang(name, map[string]any{"status": status}, "status")
}

func deleteGang(name string) write {
	return func(ctx context.Context, w *writer) (func(*store) bool, error) {
		err := w.gangs.Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		return func(s *store) bool {
			pg := s.gang(name)
			return pg == nil || pg.DeletionTimestamp != nil
		}, nil
	}
}

func createPod(pod *corev1.Pod) write {
	return func(ctx context.Context, w *writer) (func(*store) bool, error) {
		created, err := w.pods.Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return shows(created), nil
	}
}

func deletePod(pod *corev1.Pod) write {
	return func(ctx context.Context, w *writer) (func(*store) bool, error) {
		err := w.pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		return func(s *store) bool {
			now := s.pod(pod.Name)
			return now == nil || now.UID != pod.UID || now.DeletionTimestamp != nil
		}, nil
	}
}

// liftGate takes Grove's gate off a pod, and no other.
func liftGate(pod *corev1.Pod) write {
	return func(ctx context.Context, w *writer) (func(*store) bool, error) {
		rest := slices.DeleteFunc(slices.Clone(pod.Spec.SchedulingGates), func(g corev1.PodSchedulingGate) bool {
			return g.Name == v1alpha1.SchedulingGatePodGangPending
		})
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"schedulingGates": rest}})
		if err != nil {
			return nil, err
		}
		patched, err := w.pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return func(s *store) bool { return s.pod(pod.Name) == nil }, nil
		case err != nil:
			return nil, err
		}
		return shows(patched), nil
	}
}
