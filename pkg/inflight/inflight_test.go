// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
)

// fakeHandle is a handle with a client for a server.
type fakeHandle struct {
	fwk.Handle
	config *rest.Config
	client kubernetes.Interface
}

func (h fakeHandle) KubeConfig() *rest.Config        { return h.config }
func (h fakeHandle) ClientSet() kubernetes.Interface { return h.client }

// server answers each request when it is let go, and tells of each that has arrived.
type server struct {
	arrived chan string
	letGo   chan struct{}
}

func serve(t *testing.T, limit int) (*server, kubernetes.Interface, *traffic) {
	t.Helper()
	s := &server{arrived: make(chan string, 100), letGo: make(chan struct{})}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.arrived <- r.Method
		select {
		case <-s.letGo:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	}))
	t.Cleanup(h.Close)
	config := &rest.Config{Host: h.URL, QPS: -1}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	writes := newTraffic()
	handle, err := bound(fakeHandle{config: config, client: client}, make(chan struct{}, limit), writes)
	if err != nil {
		t.Fatal(err)
	}
	if config.WrapTransport != nil || config.RateLimiter != nil || config.UserAgent != "" {
		t.Errorf("the configuration that others use is changed: %v", config)
	}
	return s, handle.ClientSet(), writes
}

func bind(ctx context.Context, client kubernetes.Interface) error {
	return client.CoreV1().Pods("ns").Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
}

func TestWritesBeyondTheLimitWaitAndReadsDoNot(t *testing.T) {
	s, client, _ := serve(t, 2)
	var writes sync.WaitGroup
	for range 5 {
		writes.Go(func() {
			if err := bind(t.Context(), client); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		<-s.arrived
	}
	var read sync.WaitGroup
	read.Go(func() { _, _ = client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{}) })
	if method := <-s.arrived; method != http.MethodGet {
		t.Errorf("a third %s is under way beside two", method)
	}
	close(s.letGo)
	writes.Wait()
	read.Wait()
	if got := len(s.arrived); got != 3 {
		t.Errorf("%d more writes have arrived, want the 3 that waited", got)
	}
}

func TestWriteThatWaitsEndsWithItsContext(t *testing.T) {
	s, client, _ := serve(t, 1)
	var first sync.WaitGroup
	first.Go(func() { _ = bind(t.Context(), client) })
	<-s.arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := bind(ctx, client); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
	close(s.letGo)
	first.Wait()
	if err := bind(t.Context(), client); err != nil {
		t.Errorf("a place was lost: %v", err)
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestCalmIsWhenNoWriteIsUnderWayOrWaits(t *testing.T) {
	s, client, writes := serve(t, 1)
	if !isClosed(writes.calmed()) {
		t.Error("it is not calm before the first write")
	}
	var first, second sync.WaitGroup
	first.Go(func() { _ = bind(t.Context(), client) })
	<-s.arrived
	calm := writes.calmed()
	second.Go(func() { _ = bind(t.Context(), client) })
	for writes.count() < 2 {
		runtime.Gosched() // until the second waits for its turn
	}
	s.letGo <- struct{}{}
	first.Wait()
	<-s.arrived // the second has the place of the first
	if isClosed(calm) {
		t.Error("it is calm while a write is under way that waited")
	}
	close(s.letGo)
	second.Wait()
	<-calm // or the test times out
	if !isClosed(writes.calmed()) {
		t.Error("it is not calm after the last write")
	}
}

func TestReadsDoNotDisturbTheCalm(t *testing.T) {
	s, client, writes := serve(t, 1)
	var read sync.WaitGroup
	read.Go(func() { _, _ = client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{}) })
	<-s.arrived
	if !isClosed(writes.calmed()) {
		t.Error("it is not calm while an object is read")
	}
	close(s.letGo)
	read.Wait()
}

func TestHandleWithoutAConfigurationStaysAsItIs(t *testing.T) {
	handle := fakeHandle{}
	if got, err := Bound(handle); err != nil || got != fwk.Handle(handle) {
		t.Errorf("got %v and error %v", got, err)
	}
}

func TestEasyIsWhenFewerWritesAreOpenThanTheBacklog(t *testing.T) {
	writes := newTraffic()
	for range Backlog - 1 {
		writes.begin()
	}
	if !isClosed(writes.eased()) {
		t.Errorf("%d writes are too many", Backlog-1)
	}
	writes.begin()
	shut := writes.eased()
	if isClosed(shut) {
		t.Errorf("%d writes are not too many", Backlog)
	}
	writes.begin()
	writes.end()
	if isClosed(shut) {
		t.Errorf("%d writes are not too many, after there were more", Backlog)
	}
	writes.end()
	if !isClosed(shut) || !isClosed(writes.eased()) {
		t.Error("it does not become easy")
	}
	if isClosed(writes.calmed()) {
		t.Error("it is calm with writes under way")
	}
}
