// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/features"
)

// trimCaches keeps managed fields, which nothing in the scheduler reads, out of the caches
// of nodes, claims and slices, as kube-scheduler does for pods: there are many of them, and
// the fields can be as large as the rest. An update without the fields leaves those that
// the API server has as they are. It must be called before the informers start.
func trimCaches(factory informers.SharedInformerFactory) error {
	trimmed := map[string]cache.SharedIndexInformer{"nodes": factory.Core().V1().Nodes().Informer()}
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		trimmed["resourceclaims"] = factory.Resource().V1().ResourceClaims().Informer()
		trimmed["resourceslices"] = factory.Resource().V1().ResourceSlices().Informer()
	}
	for resource, informer := range trimmed {
		if err := informer.SetTransform(withoutManagedFields); err != nil {
			return fmt.Errorf("keep managed fields out of the cache of %s: %w", resource, err)
		}
	}
	return nil
}

func withoutManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil { // not for the tombstone of an object that is gone
		object.SetManagedFields(nil)
	}
	return obj, nil
}
