// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// delivered is a PodGang as the dynamic client delivers it.
func delivered(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduler.grove.io/v1alpha1",
		"kind":       "PodGang",
		"metadata": map[string]any{
			"namespace": "ns", "name": "g", "uid": "uid-g", "resourceVersion": "7",
			"creationTimestamp": "2026-01-01T00:00:00Z",
			"managedFields":     []any{map[string]any{"manager": "grove"}},
		},
		"spec": spec,
	}}
}

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "g", UID: types.UID("uid-g"), ResourceVersion: "7",
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
}

var kind = metav1.TypeMeta{APIVersion: "scheduler.grove.io/v1alpha1", Kind: "PodGang"}

func TestTransformDecodesPodGangs(t *testing.T) {
	got, err := transform(delivered(map[string]any{
		"podgroups": []any{map[string]any{
			"name": "w", "minReplicas": int64(2),
			"podReferences": []any{map[string]any{"namespace": "ns", "name": "p"}},
			"unknownField":  "is ignored",
		}},
		"priorityClassName": "urgent",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.PodGang{TypeMeta: kind, ObjectMeta: meta(), Spec: v1alpha1.PodGangSpec{
		PodGroups: []v1alpha1.PodGroup{{
			Name: "w", MinReplicas: 2, PodReferences: []v1alpha1.NamespacedName{{Namespace: "ns", Name: "p"}},
		}},
		PriorityClassName: "urgent",
	}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("PodGang (-want +got):\n%s", diff)
	}
}

func TestTransformKeepsWhatItCannotRead(t *testing.T) {
	for _, tc := range []struct {
		name string
		obj  any
	}{
		{"a number that is a text", delivered(map[string]any{"podgroups": []any{map[string]any{"minReplicas": "two"}}})},
		{"a list that is an object", delivered(map[string]any{"podgroups": map[string]any{}})},
		{"something else", cache.DeletedFinalStateUnknown{Key: "ns/g"}},
		{"a PodGang", &v1alpha1.PodGang{ObjectMeta: meta()}},
	} {
		got, err := transform(tc.obj)
		if err != nil {
			t.Errorf("%s: %v, which stops the watch for all", tc.name, err)
		}
		if diff := cmp.Diff(tc.obj, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestUnreadablePodGangStandsForItself(t *testing.T) {
	u := delivered(map[string]any{"podgroups": map[string]any{}})
	if _, err := decodePodGang(u); err == nil || !strings.Contains(err.Error(), "podgroups") && !strings.Contains(err.Error(), "slice") {
		t.Errorf("got error %v, want one that says what cannot be read", err)
	}
	if diff := cmp.Diff(&v1alpha1.PodGang{TypeMeta: kind, ObjectMeta: meta()}, unreadable(u)); diff != "" {
		t.Errorf("PodGang (-want +got):\n%s", diff)
	}
}

func TestFinalStateOfADeletedObject(t *testing.T) {
	pg := &v1alpha1.PodGang{ObjectMeta: meta()}
	for _, obj := range []any{pg, cache.DeletedFinalStateUnknown{Key: "ns/g", Obj: pg}} {
		if got := final(obj); got != any(pg) {
			t.Errorf("final state of %T: got %v", obj, got)
		}
	}
}
