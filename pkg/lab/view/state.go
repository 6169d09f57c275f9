// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	schedulerv1alpha1 "github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Reader reads the objects that the tables show.
type Reader struct {
	kube  kubernetes.Interface
	gangs dynamic.NamespaceableResourceInterface
}

// NewReader makes a Reader for a cluster.
func NewReader(config *rest.Config) (*Reader, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	return &Reader{kube: kube, gangs: dyn.Resource(schedulerv1alpha1.PodGangResource)}, nil
}

// State is what the tables show, at one moment.
type State struct {
	Pods   []corev1.Pod
	Gangs  []schedulerv1alpha1.PodGang
	Claims []resourcev1.ResourceClaim
}

// Read lists pods, gangs and claims of the namespaces.
func (r *Reader) Read(ctx context.Context, namespaces ...string) (*State, error) {
	s := &State{}
	for _, ns := range namespaces {
		pods, err := r.kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("cannot list the pods of %s: %w", ns, err)
		}
		claims, err := r.kube.ResourceV1().ResourceClaims(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("cannot list the claims of %s: %w", ns, err)
		}
		gangs, err := r.listGangs(ctx, ns)
		if err != nil {
			return nil, err
		}
		s.Pods = append(s.Pods, pods.Items...)
		s.Claims = append(s.Claims, claims.Items...)
		s.Gangs = append(s.Gangs, gangs...)
	}
	return s, nil
}

func (r *Reader) listGangs(ctx context.Context, namespace string) ([]schedulerv1alpha1.PodGang, error) {
	list, err := r.gangs.Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // no such kind here
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the PodGangs of %s: %w", namespace, err)
	}
	gangs := make([]schedulerv1alpha1.PodGang, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &gangs[i]); err != nil {
			return nil, fmt.Errorf("cannot read PodGang %s/%s: %w", namespace, list.Items[i].GetName(), err)
		}
	}
	return gangs, nil
}

// Pod returns the pod, or nil.
func (s *State) Pod(namespace, name string) *corev1.Pod {
	for i := range s.Pods {
		if s.Pods[i].Namespace == namespace && s.Pods[i].Name == name {
			return &s.Pods[i]
		}
	}
	return nil
}

// Members counts pods of one group: how many there are, are bound, and run. Pods that
// are being deleted or have ended are not counted.
type Members struct {
	Exist, Bound, Running int
}

// Members counts the pods of a group of a gang.
func (s *State) Members(gang *schedulerv1alpha1.PodGang, group int) Members {
	var m Members
	for _, ref := range gang.Spec.PodGroups[group].PodReferences {
		pod := s.Pod(gang.Namespace, ref.Name)
		if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		m.Exist++
		if pod.Spec.NodeName != "" {
			m.Bound++
		}
		if pod.Status.Phase == corev1.PodRunning {
			m.Running++
		}
	}
	return m
}

// FloorsRun reports whether every group of the gang has its floor running.
func (s *State) FloorsRun(gang *schedulerv1alpha1.PodGang) bool {
	for i := range gang.Spec.PodGroups {
		if s.Members(gang, i).Running < int(gang.Spec.PodGroups[i].MinReplicas) {
			return false
		}
	}
	return true
}

// Refusal is the pod's PodScheduled condition when it says that the pod cannot be
// scheduled, else nil.
func Refusal(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c
		}
	}
	return nil
}
