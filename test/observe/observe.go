// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Change is a change of an object, as a watch has delivered it.
type Change struct {
	// Object is the new state; the last known one if deleted.
	Object  metav1.Object
	Deleted bool
	// Missed is set if the watch has not seen the deletion itself, so that Object may
	// be older than it.
	Missed bool
}

// PodGangs returns an informer of the PodGangs of a namespace (metav1.NamespaceAll for
// all) that holds *v1alpha1.PodGang.
func PodGangs(client dynamic.Interface, namespace string, tweak dynamicinformer.TweakListOptionsFunc) (cache.SharedIndexInformer, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, v1alpha1.PodGangResource, namespace, 0, cache.Indexers{}, tweak).Informer()
	return informer, informer.SetTransform(func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil
		}
		return DecodePodGang(u)
	})
}

// DecodePodGang returns the typed PodGang.
func DecodePodGang(u *unstructured.Unstructured) (*v1alpha1.PodGang, error) {
	pg := &v1alpha1.PodGang{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pg)
	return pg, err
}

// changes calls handle with every change that the informer delivers, one at a time.
func changes(informer cache.SharedIndexInformer, handle func(Change)) (cache.ResourceEventHandlerRegistration, error) {
	deliver := func(obj any, deleted bool) {
		tombstone, missed := obj.(cache.DeletedFinalStateUnknown)
		if missed {
			obj = tombstone.Obj
		}
		if object, ok := obj.(metav1.Object); ok {
			handle(Change{Object: object, Deleted: deleted, Missed: missed})
		}
	}
	return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { deliver(obj, false) },
		UpdateFunc: func(_, obj any) { deliver(obj, false) },
		DeleteFunc: func(obj any) { deliver(obj, true) },
	})
}

// Follow delivers the changes of the informers to handle, from several goroutines, until
// ctx ends. It returns when all that exists has been handled.
func Follow(ctx context.Context, handle func(Change), informers ...cache.SharedIndexInformer) error {
	var handled []cache.InformerSynced
	for _, informer := range informers {
		registration, err := changes(informer, handle)
		if err != nil {
			return err
		}
		handled = append(handled, registration.HasSynced)
		go informer.Run(ctx.Done())
	}
	if !cache.WaitForCacheSync(ctx.Done(), handled...) {
		return fmt.Errorf("the watches do not deliver what exists: %w", context.Cause(ctx))
	}
	return nil
}

// Revision orders the versions of objects of all kinds: the API server writes etcd's
// revisions.
func Revision(object metav1.Object) uint64 {
	revision, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64) // the API server writes no other
	return revision
}
