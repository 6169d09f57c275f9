// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// Grove's objects that tell the order of topology levels. The older kind has a single
// object, legacyBinding.
var (
	topologyBindings  = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "clustertopologybindings"}
	clusterTopologies = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "clustertopologies"}
	bindingKinds      = []schema.GroupVersionResource{topologyBindings, clusterTopologies}
)

const legacyBinding = "grove-topology"

// bindingBook knows the order of topology levels that each binding tells.
type bindingBook struct {
	// levels are those of the arguments.
	levels topology.Order
	// mu guards orders, by kind and name, and is a leaf.
	mu     sync.Mutex
	orders map[bindingKey]topology.Order
}

type bindingKey struct {
	resource, name string
}

func newBindingBook(levels []string) *bindingBook {
	return &bindingBook{levels: levels, orders: make(map[bindingKey]topology.Order)}
}

// order returns the order of levels for a gang: that of the binding that it names,
// else that of the arguments.
func (b *bindingBook) order(pg *v1alpha1.PodGang) topology.Order {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name := pg.Annotations[v1alpha1.AnnotationTopologyName]; name != "" {
		for _, kind := range bindingKinds {
			if order, ok := b.orders[bindingKey{kind.Resource, name}]; ok {
				return order
			}
		}
		return b.levels
	}
	if order, ok := b.orders[bindingKey{clusterTopologies.Resource, legacyBinding}]; ok {
		return order
	}
	return b.levels
}

// set records a binding, and reports whether it is news.
func (b *bindingBook) set(key bindingKey, order topology.Order) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.orders[key]; ok && slices.Equal(known, order) {
		return false
	}
	b.orders[key] = order
	return true
}

func (b *bindingBook) remove(key bindingKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.orders, key)
}

// watchBindings feeds the book. It returns when the bindings that exist are known,
// or cannot be: gangs can do without.
func (pl *Plugin) watchBindings(ctx context.Context, client dynamic.Interface) {
	for _, kind := range bindingKinds {
		c := &custom{resource: kind, transform: levelsOnly, handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { pl.setBinding(ctx, kind, obj) },
			UpdateFunc: func(_, obj any) { pl.setBinding(ctx, kind, obj) },
			DeleteFunc: func(obj any) {
				if u, ok := final(obj).(*unstructured.Unstructured); ok {
					pl.bindings.remove(bindingKey{kind.Resource, u.GetName()})
					pl.apply(ctx, pl.index.Resync())
				}
			},
		}}
		discovery := pl.handle.ClientSet().Discovery()
		served, err := c.served(discovery)
		if err == nil && served {
			if err = c.watch(ctx, client); err == nil {
				continue
			}
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Topology bindings cannot be watched, trying again; until then gangs have the levels of the arguments", "resource", kind.String())
		}
		go c.await(ctx, discovery, client)
	}
}

// setBinding records a binding, and has gangs tried again that wait.
func (pl *Plugin) setBinding(ctx context.Context, kind schema.GroupVersionResource, obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	if pl.bindings.set(bindingKey{kind.Resource, u.GetName()}, levelsOf(u)) {
		pl.apply(ctx, pl.index.Resync())
	}
}

// levelsOf returns the label keys of a binding, broad to narrow.
func levelsOf(u *unstructured.Unstructured) topology.Order {
	levels, _, _ := unstructured.NestedSlice(u.Object, "spec", "levels")
	var order topology.Order
	for _, level := range levels {
		fields, _ := level.(map[string]any)
		if key, _ := fields["key"].(string); key != "" {
			order = append(order, key)
		}
	}
	return order
}

// levelsOnly drops what is of no use here.
func levelsOnly(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	slim := &unstructured.Unstructured{Object: map[string]any{}}
	slim.SetAPIVersion(u.GetAPIVersion())
	slim.SetKind(u.GetKind())
	slim.SetName(u.GetName())
	slim.SetUID(u.GetUID())
	slim.SetResourceVersion(u.GetResourceVersion())
	if levels, found, err := unstructured.NestedSlice(u.Object, "spec", "levels"); found && err == nil {
		if err := unstructured.SetNestedSlice(slim.Object, levels, "spec", "levels"); err != nil {
			return nil, err
		}
	}
	return slim, nil
}
