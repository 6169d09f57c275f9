// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func pod(namespace, name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version}}
}

func names(pods []*corev1.Pod) []string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Namespace+"/"+p.Name)
	}
	return list
}

// The state is what the changes leave, by kind, namespace and name.
func TestState(t *testing.T) {
	s := NewState()
	for _, object := range []metav1.Object{
		pod("a", "two", "1"), pod("a", "one", "2"), pod("b", "one", "3"), pod("a", "two", "4"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
	} {
		s.Apply(Change{Object: object})
	}
	s.Apply(Change{Object: pod("b", "one", "5"), Deleted: true})
	if got, want := names(List[*corev1.Pod](s, "")), []string{"a/one", "a/two"}; !slices.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if got := List[*corev1.Pod](s, "b"); len(got) != 0 {
		t.Errorf("namespace b has %v", names(got))
	}
	if got := Get[*corev1.Pod](s, "a", "two"); got == nil || got.ResourceVersion != "4" {
		t.Errorf("the newest version is not %v", got)
	}
	if got := Get[*corev1.Pod](s, "b", "one"); got != nil {
		t.Errorf("%v was deleted", got)
	}
	if got := len(s.All()); got != 3 {
		t.Errorf("there are %d objects, want 3", got)
	}
}

// Who waits is woken when the condition holds, and told when it does not come to hold.
func TestWait(t *testing.T) {
	s := NewState()
	exists := func() bool { return Get[*corev1.Pod](s, "a", "one") != nil }
	if err := s.Wait(t.Context(), time.Millisecond, exists); err == nil {
		t.Error("waited for what did not happen, without an error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, time.Hour, exists); !errors.Is(err, context.Canceled) {
		t.Errorf("the context was canceled, and the error is %v", err)
	}
	looked := make(chan struct{})
	go func() {
		<-looked
		s.Apply(Change{Object: pod("a", "one", "1")})
	}()
	first := true
	err := s.Wait(t.Context(), time.Minute, func() bool {
		if first {
			first = false
			close(looked)
			return false
		}
		return exists()
	})
	if err != nil {
		t.Error(err)
	}
}

// Follow has handled what exists when it returns, and goes on.
func TestFollow(t *testing.T) {
	client := fake.NewClientset(pod("a", "one", "1"), pod("a", "two", "1"))
	factory := informers.NewSharedInformerFactory(client, 0)
	s := NewState()
	if err := Follow(t.Context(), s.Apply, factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()); err != nil {
		t.Fatal(err)
	}
	if got := len(List[*corev1.Pod](s, "a")); got != 2 {
		t.Errorf("%d pods are known, want 2", got)
	}
	if err := client.CoreV1().Pods("a").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), time.Minute, func() bool { return len(List[*corev1.Pod](s, "a")) == 1 }); err != nil {
		t.Errorf("the deletion was not delivered: %v", err)
	}
}
