// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/report"
)

// podGangs is the resource that is watched.
var podGangs = v1alpha1.PodGangResource

// watch feeds the index with pods and PodGangs and starts the reporter. Where the
// CRD is installed, it returns when all PodGangs are known: a pod without label
// could otherwise be taken for one in no gang.
func (pl *Plugin) watch(ctx context.Context) error {
	client, err := dynamic.NewForConfig(pl.handle.KubeConfig())
	if err != nil {
		return fmt.Errorf("build a client for PodGangs: %w", err)
	}
	pl.reports = report.New(pl.handle.ProfileName(), pl.index, pl.handle.ClientSet(), client, pl.args.StatusPolicy)
	// Not waited for: without its rules, what follows would wait for ever.
	go reportMissingAccess(ctx, pl.handle.ClientSet())
	if err := pl.watchPods(ctx); err != nil {
		return err
	}
	pl.watchBindings(ctx, client)
	gangs := pl.customPodGangs(ctx)
	var served bool
	err = wait.PollUntilContextCancel(ctx, crdPollInterval, true, func(context.Context) (bool, error) {
		served, err = gangs.served(pl.handle.ClientSet().Discovery())
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot tell whether PodGangs are served, trying again")
		}
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	if served {
		return gangs.watch(ctx, client)
	}
	klog.FromContext(ctx).Info("The API server does not serve PodGangs: gangs wait until their CRD is installed", "resource", podGangs.String())
	go gangs.await(ctx, pl.handle.ClientSet().Discovery(), client)
	return nil
}

// customPodGangs feeds the index with PodGangs.
func (pl *Plugin) customPodGangs(ctx context.Context) *custom {
	return &custom{resource: podGangs, transform: transform, handler: cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { pl.setPodGang(ctx, obj) },
		UpdateFunc: func(_, obj any) { pl.setPodGang(ctx, obj) },
		DeleteFunc: func(obj any) {
			switch pg := final(obj).(type) {
			case *v1alpha1.PodGang:
				pl.deletePodGang(ctx, pg)
			case *unstructured.Unstructured:
				pl.deletePodGang(ctx, unreadable(pg))
			}
		},
	}}
}

func (pl *Plugin) setPodGang(ctx context.Context, obj any) {
	switch pg := obj.(type) {
	case *v1alpha1.PodGang:
		pl.apply(ctx, pl.index.SetGang(pg))
	case *unstructured.Unstructured:
		_, err := decodePodGang(pg)
		pl.apply(ctx, pl.index.SetUnreadable(unreadable(pg), fmt.Sprintf("it cannot be read: %v", err)))
	}
}

func (pl *Plugin) deletePodGang(ctx context.Context, pg *v1alpha1.PodGang) {
	pl.apply(ctx, pl.index.DeleteGang(pg))
}

// transform turns what the dynamic client delivers into a PodGang. An object that
// does not decode, such as one of a later version of the API, is kept as it is,
// so that it does not stop the watch for all others.
func transform(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	pg, err := decodePodGang(u)
	if err != nil {
		return u, nil //nolint:nilerr // setPodGang reports it on the object
	}
	return pg, nil
}

func decodePodGang(u *unstructured.Unstructured) (*v1alpha1.PodGang, error) {
	pg := &v1alpha1.PodGang{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pg); err != nil {
		return nil, err
	}
	pg.ManagedFields = nil
	return pg, nil
}

// unreadable stands for a PodGang that cannot be decoded.
func unreadable(u *unstructured.Unstructured) *v1alpha1.PodGang {
	return &v1alpha1.PodGang{
		TypeMeta: metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(),
			ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp(),
		},
	}
}

// watchPods feeds the index with the pods of the scheduler's own informer.
func (pl *Plugin) watchPods(ctx context.Context) error {
	registration, err := pl.handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { pl.setPod(ctx, obj) },
		UpdateFunc: func(_, obj any) { pl.setPod(ctx, obj) },
		DeleteFunc: func(obj any) {
			if pod, ok := final(obj).(*v1.Pod); ok {
				pl.bystanders.remove(pod)
				pl.turns.yielded.remove(pod)
				pl.reclaims.begins(pod.UID)
				pl.extras.proceed(pod.UID)
				pl.joins.clear(gang.Key{Namespace: pod.Namespace, Name: pod.Name})
				pl.apply(ctx, pl.index.DeletePod(pod))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	go func() {
		// The informers of a scheduler that waits for the lease start when it leads
		// (delayCacheUntilActive), and so does the reporter.
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) && !pl.idle.Load() {
			pl.apply(ctx, pl.index.Resync())
			go pl.reclaims.run(ctx)
			pl.reports.Run(ctx)
		}
	}()
	return nil
}

func (pl *Plugin) setPod(ctx context.Context, obj any) {
	if pod, ok := obj.(*v1.Pod); ok {
		pl.apply(ctx, pl.index.SetPod(pod))
	}
}

// final returns the object of a delete event.
func final(obj any) any {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return obj
}
