// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// crdPollInterval is how often the API server is asked for a resource until it
	// serves it.
	crdPollInterval = 2 * time.Second
	// syncTimeout bounds the first list of a resource.
	syncTimeout = 30 * time.Second
)

// custom is a resource whose CRD may be missing, and may be installed later.
type custom struct {
	resource  schema.GroupVersionResource
	transform cache.TransformFunc
	handler   cache.ResourceEventHandler
}

// served asks the API server whether it serves the resource.
func (c *custom) served(client discovery.DiscoveryInterface) (bool, error) {
	resources, err := client.ServerResourcesForGroupVersion(c.resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask the API server for %s: %w", c.resource.GroupVersion(), err)
	}
	for i := range resources.APIResources {
		if resources.APIResources[i].Name == c.resource.Resource {
			return true, nil
		}
	}
	return false, nil
}

// await starts to watch the resource as soon as it is served, and returns then, or
// when the context ends.
func (c *custom) await(ctx context.Context, discover discovery.DiscoveryInterface, client dynamic.Interface) {
	logger := klog.FromContext(ctx).WithValues("resource", c.resource.String())
	err := wait.PollUntilContextCancel(ctx, crdPollInterval, false, func(context.Context) (bool, error) {
		served, err := c.served(discover)
		if err != nil {
			logger.V(4).Info("Cannot tell whether a resource is served", "err", err)
			return false, nil
		}
		if !served {
			return false, nil
		}
		if err := c.watch(ctx, client); err != nil {
			logger.Error(err, "A resource is served and cannot be watched yet")
			return false, nil
		}
		return true, nil
	})
	if err == nil {
		logger.Info("Watching a resource")
	}
}

// watch calls the handler for every object of the resource, and returns when it has
// been called for those that exist.
func (c *custom) watch(ctx context.Context, client dynamic.Interface) error {
	watchCtx, stop := context.WithCancel(ctx)
	informer := dynamicinformer.NewFilteredDynamicInformer(client, c.resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	if err := informer.SetTransform(c.transform); err != nil {
		stop()
		return fmt.Errorf("watch %s: %w", c.resource.GroupResource(), err)
	}
	registration, err := informer.AddEventHandler(c.handler)
	if err != nil {
		stop()
		return fmt.Errorf("watch %s: %w", c.resource.GroupResource(), err)
	}
	go informer.Run(watchCtx.Done())
	syncCtx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(syncCtx.Done(), registration.HasSynced) {
		stop()
		return fmt.Errorf("%s could not be listed within %v: is the scheduler allowed to get, list and watch it?", c.resource.GroupResource(), syncTimeout)
	}
	// The informer runs as long as the scheduler does.
	context.AfterFunc(ctx, stop)
	return nil
}
