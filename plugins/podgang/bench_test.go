// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/report"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

const benchClass = "gpu.example.com"

// benchLoad is a cluster and one gang.
type benchLoad struct {
	nodes, devices int // devices of each node
	taken          int // of each node, by claims that are allocated
	pods, each     int // devices that each pod asks for, by claim
	cpu            string
	there          []*v1.Pod // bound already
}

func (l benchLoad) objects() (nodes []*v1.Node, pods []*v1.Pod, rest []runtime.Object) {
	rest = append(rest, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: benchClass}})
	for n := range l.nodes {
		name := fmt.Sprintf("n%d", n)
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
		node.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"), v1.ResourcePods: resource.MustParse("110"),
		}
		nodes = append(nodes, node)
		if l.devices == 0 {
			continue
		}
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: benchClass, NodeName: &node.Name, Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		}}
		for d := range l.devices {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", d)})
		}
		rest = append(rest, slice)
		if l.taken > 0 {
			rest = append(rest, takenClaim(node.Name, l.taken))
		}
	}
	for i := range l.pods {
		pod := testPod(fmt.Sprintf("p%d", i), forScheduler, requesting(0, map[v1.ResourceName]string{v1.ResourceCPU: l.cpu}))
		if l.each > 0 {
			pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpus")}}
			pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To(pod.Name)}}
			claim := benchClaim(pod.Name, l.each)
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
			rest = append(rest, claim)
		}
		pods = append(pods, pod)
	}
	return nodes, pods, rest
}

func benchClaim(name string, count int) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: benchClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(count),
			},
		}}}},
	}
}

// takenClaim holds the first devices of a node.
func takenClaim(node string, count int) *resourceapi.ResourceClaim {
	claim := benchClaim("taken-"+node, count)
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for d := range count {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: benchClass, Pool: node, Device: fmt.Sprintf("gpu-%d", d),
		})
	}
	return claim
}

// benchPlanner is a plugin that can plan, with the in-tree filters of the default
// profile, and the gang to plan.
func benchPlanner(b testing.TB, load benchLoad) (context.Context, *Plugin, gang.Snapshot) {
	b.Helper()
	metrics.Register()
	ctx, cancel := context.WithCancel(klog.NewContext(b.Context(), ktesting.NewLogger(b, ktesting.NewConfig(ktesting.Verbosity(0)))))
	b.Cleanup(cancel)
	nodes, pods, rest := load.objects()
	client := fake.NewClientset(rest...)
	factory := informers.NewSharedInformerFactory(client, 0)
	tracker, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices(), KubeClient: client})
	must(b, err)
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	defaults, err := latest.Default()
	must(b, err)
	profile := defaults.Profiles[0]
	enabled := profile.Plugins.MultiPoint.Enabled[:0:0]
	for _, p := range profile.Plugins.MultiPoint.Enabled {
		if p.Name != dynamicresources.Name {
			enabled = append(enabled, p)
		}
	}
	profile.Plugins.MultiPoint.Enabled = enabled
	handle, err := frameworkruntime.NewFramework(ctx, inTree.NewInTreeRegistry(), &profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, tracker, factory)),
		frameworkruntime.WithSnapshotSharedLister(internalcache.NewSnapshot(load.there, nodes)),
		frameworkruntime.WithPodNominator(internalqueue.NewSchedulingQueue((&queuesort.PrioritySort{}).Less, factory)))
	must(b, err)
	resources, err := gangresources.New(ctx, &config.PodGangResourcesArgs{}, handle)
	must(b, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), claims.AddEventHandler(cache.ResourceEventHandlerFuncs{}).HasSynced)
	b.Cleanup(func() { cancel(); factory.Shutdown() })

	pl := sorter(b, []*v1alpha1.PodGang{testGang("g", 0, "", int32(len(pods)), pods...)}, pods...)
	pl.args, pl.handle, pl.resources = &config.PodGangArgs{SearchBudget: 10000}, handle, resources
	pl.bindings, pl.landscape, pl.bests, pl.keeps = newBindingBook(nil), newLandscape(pl.args), newBests(), newKeepBook(0)
	pl.screens, pl.keys = newScreenBook(), newKeyBook()
	pl.screens.configure(handle.ListPlugins())
	pl.reports = report.New(testScheduler, pl.index, client, nil, config.StatusPolicyFull) // and it does not run
	snapshot, ready := pl.index.Snapshot(gang.Key{Namespace: "ns", Name: "g"}, pods[0].UID)
	if !ready {
		b.Fatal("the gang is not ready")
	}
	return ctx, pl, snapshot
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// A plan of a whole gang, in the scheduling cycle of its leader.
func BenchmarkPlan(b *testing.B) {
	for _, load := range []benchLoad{
		{nodes: 500, devices: 8, pods: 64, each: 4, cpu: "1"},
		{nodes: 5000, pods: 3, cpu: "100m"},
		{nodes: 500, pods: 1000, cpu: "100m"},
	} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d/devices=%d", load.nodes, load.pods, load.each), func(b *testing.B) {
			ctx, pl, snapshot := benchPlanner(b, load)
			b.ReportAllocs()
			for b.Loop() {
				plan, refusal, err := pl.plan(ctx, snapshot)
				must(b, err)
				if refusal != nil || len(plan.placements) != load.pods {
					b.Fatalf("the gang was refused: %v", refusal)
				}
			}
		})
	}
}

// An attempt for a gang that does not fit: every node lacks devices, one or all.
func BenchmarkPlanRefused(b *testing.B) {
	for _, taken := range []int{1, 8} {
		b.Run(fmt.Sprintf("nodes=500/pods=10/taken=%d", taken), func(b *testing.B) {
			ctx, pl, snapshot := benchPlanner(b, benchLoad{nodes: 500, devices: 8, taken: taken, pods: 10, each: 8, cpu: "1"})
			b.ReportAllocs()
			for b.Loop() {
				_, refusal, err := pl.plan(ctx, snapshot)
				must(b, err)
				if refusal == nil {
					b.Fatal("the gang has a plan")
				}
			}
		})
	}
}

// One comparison of the queue, with 3,000 members in it.
func BenchmarkLess(b *testing.B) {
	var gangs []*v1alpha1.PodGang
	var pods []*v1.Pod
	for g := range 1000 {
		var members []*v1.Pod
		for i := range 3 {
			members = append(members, testPod(fmt.Sprintf("g%d-%d", g, i), forScheduler))
		}
		gangs = append(gangs, testGang(fmt.Sprintf("g%d", g), time.Duration(g)*time.Second, "", 3, members...))
		pods = append(pods, members...)
	}
	pl := sorter(b, gangs, pods...)
	queued := make([]*framework.QueuedPodInfo, 0, len(pods))
	for i, p := range pods {
		queued = append(queued, queuedAt(b, p, time.Duration(i)*time.Second).(*framework.QueuedPodInfo))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pl.Less(queued[i%len(queued)], queued[i*7919%len(queued)])
	}
}
