// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
)

const (
	namespace = "default"
	driver    = "gpu.example.com"
	gpuClass  = "gpu.example.com"
)

// fixture is the plugin on a fake API server, with the scheduler's own DRA
// manager.
type fixture struct {
	t      testing.TB
	ctx    context.Context
	client *fake.Clientset
	plugin *Plugin
}

// newFixture starts the plugin with the given objects.
func newFixture(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	metrics.Register()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	t.Cleanup(cancel)
	client := fake.NewClientset(objects...)
	bumpResourceVersions(client)

	factory := informers.NewSharedInformerFactory(client, 0)
	tracker, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{
		SliceInformer: factory.Resource().V1().ResourceSlices(),
		KubeClient:    client,
	})
	noError(t, err)
	claims := assumecache.NewAssumeCache(logger, factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, tracker, factory)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
		frameworkruntime.WithSharedDRAManager(manager))
	noError(t, err)
	plugin, err := New(ctx, &config.PodGangResourcesArgs{}, handle)
	noError(t, err)
	factory.Core().V1().Nodes().Informer()

	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), claims.AddEventHandler(cache.ResourceEventHandlerFuncs{}).HasSynced)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		frameworkruntime.WaitForShutdown(handle)
	})
	return &fixture{t: t, ctx: ctx, client: client, plugin: plugin}
}

// bumpResourceVersions gives each written object a new resource version, as an
// API server does; the assume cache compares them.
func bumpResourceVersions(client *fake.Clientset) {
	var version atomic.Int64
	version.Store(100)
	client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if object, ok := action.(clienttesting.UpdateAction).GetObject().(metav1.Object); ok {
			object.SetResourceVersion(fmt.Sprint(version.Add(1)))
		}
		return false, nil, nil
	})
}

// session starts planning.
func (f *fixture) session() *Session {
	f.t.Helper()
	s, err := f.plugin.NewSession(f.ctx)
	noError(f.t, err)
	return s
}

// allocate expects the pod to fit on the node.
func (f *fixture) allocate(s *Session, pod *v1.Pod, node string) *Allocation {
	f.t.Helper()
	a, status := s.Allocate(f.ctx, pod, nodeInfo(node))
	if !status.IsSuccess() {
		f.t.Fatalf("allocate %s on %s: %v", pod.Name, node, status)
	}
	return a
}

// refuse expects the pod not to fit on the node.
func (f *fixture) refuse(s *Session, pod *v1.Pod, node string) *fwk.Status {
	f.t.Helper()
	_, status := s.Allocate(f.ctx, pod, nodeInfo(node))
	if status.IsSuccess() {
		f.t.Fatalf("%s was allocated on %s, want a refusal", pod.Name, node)
	}
	return status
}

// cycle runs a pod's own scheduling cycle up to Reserve, on node n1.
func (f *fixture) cycle(pod *v1.Pod) fwk.CycleState {
	f.t.Helper()
	const node = "n1"
	state := framework.NewCycleState()
	if _, status := f.plugin.PreFilter(f.ctx, state, pod, nil); !status.IsSuccess() && !status.IsSkip() {
		f.t.Fatalf("PreFilter of %s: %v", pod.Name, status)
	}
	if status := f.plugin.Filter(f.ctx, state, pod, nodeInfo(node)); !status.IsSuccess() {
		f.t.Fatalf("Filter of %s: %v", pod.Name, status)
	}
	if status := f.plugin.Reserve(f.ctx, state, pod, node); !status.IsSuccess() {
		f.t.Fatalf("Reserve of %s: %v", pod.Name, status)
	}
	return state
}

// claim reads a claim from the API.
func (f *fixture) claim(name string) *resourceapi.ResourceClaim {
	f.t.Helper()
	claim, err := f.client.ResourceV1().ResourceClaims(namespace).Get(f.ctx, name, metav1.GetOptions{})
	noError(f.t, err)
	return claim
}

// pendingClaims counts the claims with an allocation that only the scheduler
// knows of.
func (f *fixture) pendingClaims(names ...string) int {
	f.t.Helper()
	pending := 0
	for _, name := range names {
		claim, err := f.plugin.manager.ResourceClaims().Get(namespace, name)
		noError(f.t, err)
		if f.plugin.manager.ResourceClaims().GetPendingAllocation(claim.UID) != nil {
			pending++
		}
	}
	return pending
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster returns a device class and nodes with the given number of devices.
func cluster(devices map[string]int) []runtime.Object {
	objects := []runtime.Object{&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: gpuClass, UID: "class"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: `device.driver == "` + driver + `"`,
		}}}},
	}}
	for node, count := range devices {
		slice := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node + "-slice", UID: types.UID(node + "-slice")},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, NodeName: ptr.To(node),
				Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			},
		}
		for i := range count {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		objects = append(objects, slice, makeNode(node))
	}
	return objects
}

func makeNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

func nodeInfo(name string) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(makeNode(name))
	return info
}

// makeClaim returns a claim for one device.
func makeClaim(name string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu",
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: gpuClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
}

// makePod returns a pod that uses the named claims.
func makePod(name string, claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
	}
	return pod
}
