// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/view"
)

func TestInPartNamesWhatTheGangHolds(t *testing.T) {
	pod := func(name, node string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gangNamespace, Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	claim := func(namespace string, allocated bool) resourcev1.ResourceClaim {
		c := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
		if allocated {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}
		return c
	}
	for _, tc := range []struct {
		name  string
		state view.State
		want  string
	}{
		{"nothing", view.State{Pods: []corev1.Pod{pod("a", ""), pod("b", "")}, Claims: []resourcev1.ResourceClaim{claim(gangNamespace, false)}}, ""},
		{"the claim of another pod", view.State{Claims: []resourcev1.ResourceClaim{claim(soloNamespace, true)}}, ""},
		{"a pod", view.State{Pods: []corev1.Pod{pod("a", ""), pod("b", "n")}}, "1 of 2 pods are bound: b"},
		{"a claim", view.State{Claims: []resourcev1.ResourceClaim{claim(gangNamespace, true)}}, "1 of its claims are allocated: c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &demo{members: []string{"a", "b"}}
			if got := d.inPart(&tc.state); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSoloPodAndExampleAreWhatTheDemoExpects(t *testing.T) {
	objs, err := lab.Decode("solo", []byte(solo))
	if err != nil {
		t.Fatal(err)
	}
	if len(objs) != 2 || lab.Describe(objs[1]) != "Pod "+soloNamespace+"/"+soloName {
		t.Errorf("%d objects, the last %s", len(objs), lab.Describe(objs[len(objs)-1]))
	}
	d, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(d.members) != 3 {
		t.Errorf("the example has pods %v, want 3", d.members)
	}
	for _, obj := range d.gang {
		if obj.GetKind() != "Namespace" && obj.GetNamespace() != gangNamespace {
			t.Errorf("%s is not in namespace %s", lab.Describe(obj), gangNamespace)
		}
	}
}
