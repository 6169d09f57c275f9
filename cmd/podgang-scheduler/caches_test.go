// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func TestCachesHaveNoManagedFields(t *testing.T) {
	described := metav1.ObjectMeta{
		Name: "x", Labels: map[string]string{"rack": "r1"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1("{}")}},
	}
	client := fake.NewSimpleClientset(
		&v1.Node{ObjectMeta: described}, &resourceapi.ResourceClaim{ObjectMeta: described}, &resourceapi.ResourceSlice{ObjectMeta: described})
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := trimCaches(factory); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	for resource, informer := range map[string]cache.SharedIndexInformer{
		"nodes":          factory.Core().V1().Nodes().Informer(),
		"resourceclaims": factory.Resource().V1().ResourceClaims().Informer(),
		"resourceslices": factory.Resource().V1().ResourceSlices().Informer(),
	} {
		objects := informer.GetStore().List()
		if len(objects) != 1 {
			t.Errorf("%s: %d are cached, want 1", resource, len(objects))
			continue
		}
		object, err := meta.Accessor(objects[0])
		if err != nil {
			t.Fatal(err)
		}
		if len(object.GetManagedFields()) > 0 || object.GetLabels()["rack"] != "r1" {
			t.Errorf("%s: cached as %v, want all but managed fields", resource, object)
		}
	}
}
