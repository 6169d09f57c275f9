// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"

	"github.com/podgang/podgang-scheduler/test/observe"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// WatchCondition takes the condition with status False, on the objects of a resource,
// for the word to the gang of that name. The watch ends with ctx.
func (j *Journal) WatchCondition(ctx context.Context, config *rest.Config, resource schema.GroupVersionResource, condition string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, workload.Namespace, nil)
	informer := factory.ForResource(resource).Informer()
	err = observe.Follow(ctx, func(c observe.Change) {
		at := time.Now()
		if obj, ok := c.Object.(*unstructured.Unstructured); ok && isFalse(obj, condition) {
			j.Tell(obj.GetName(), at)
		}
	}, informer)
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", resource.Resource, err)
	}
	return nil
}

func isFalse(obj *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == condition {
			return c["status"] == "False"
		}
	}
	return false
}
