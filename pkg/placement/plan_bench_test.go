// SPDX-License-Identifier: Apache-2.0

//go:build unix

package placement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/podgang/podgang-scheduler/pkg/devices"
	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// The cluster of the benchmarks: racks of nodes in rack groups.
const (
	benchGPUs        = 4
	benchGPUsPerNode = 8
	benchRack        = 20
	benchGroup       = 25 * benchRack
	benchDriver      = "gpu.nvidia.com"
)

// deviceCluster is a Cluster whose pods each have a claim for GPUs, allocated by
// the allocator of Kubernetes among the slices of the node.
type deviceCluster struct {
	tb        testing.TB
	nodes     []*v1.Node
	inventory *devices.Inventory
	ledger    *devices.Ledger
	classes   classLister
	cache     *cel.Cache
	claim     *resourceapi.ResourceClaim
	// used is the set of devices of each node that are taken, as bits. counts is how
	// many pods nodes with the same devices taken can hold.
	used   []uint8
	counts map[uint8]int
	placed []func()
}

type classLister struct{ class *resourceapi.DeviceClass }

func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{l.class}, nil
}

func (l classLister) Get(string) (*resourceapi.DeviceClass, error) { return l.class, nil }

func newDeviceCluster(tb testing.TB, nodes int) *deviceCluster {
	random := rand.New(rand.NewPCG(1, 1))
	c := &deviceCluster{tb: tb, cache: cel.NewCache(10, cel.Features{}), counts: make(map[uint8]int)}
	c.classes.class = &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + benchDriver + `"`},
		}}},
	}
	c.claim = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", UID: "claim"}}
	c.claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: benchGPUs,
	}}}
	state := &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	var slices []*resourceapi.ResourceSlice
	for n := range nodes {
		name := fmt.Sprintf("node-%04d", n)
		c.nodes = append(c.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		slice := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: benchDriver, NodeName: &name,
				Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
			},
		}
		var used uint8
		if n%2 == 1 {
			used = uint8(1 + random.IntN(255))
		}
		for d := range benchGPUsPerNode {
			device := fmt.Sprintf("gpu-%d", d)
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: device})
			if used>>d&1 != 0 {
				state.AllocatedDevices.Insert(structured.MakeDeviceID(benchDriver, name, device))
			}
		}
		slices, c.used = append(slices, slice), append(c.used, used)
	}
	c.inventory, c.ledger = devices.NewInventory(slices), devices.NewLedger(false)
	c.ledger.Start(state)
	return c
}

// allocate allocates the claim of one more pod on the node.
func (c *deviceCluster) allocate(node int) (*resourceapi.AllocationResult, bool) {
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx,
		structured.Features{PrioritizedList: true, AdminAccess: true, PartitionableDevices: true, DeviceTaints: true},
		*c.ledger.State(), c.classes, c.inventory.World(c.nodes[node].Name), c.cache)
	if err != nil {
		c.tb.Fatal(err)
	}
	results, err := allocator.Allocate(ctx, c.nodes[node], []*resourceapi.ResourceClaim{c.claim})
	if err != nil {
		c.tb.Fatal(err)
	}
	if len(results) == 0 {
		return nil, false
	}
	return &results[0], true
}

func (c *deviceCluster) Count(_, node int) int {
	count, known := c.counts[c.used[node]]
	if known {
		return count
	}
	var taken []*resourceapi.AllocationResult
	for {
		result, fits := c.allocate(node)
		if !fits {
			break
		}
		c.ledger.Take(result)
		taken = append(taken, result)
	}
	for _, result := range taken {
		c.ledger.Release(result)
	}
	c.counts[c.used[node]] = len(taken)
	return len(taken)
}

func (c *deviceCluster) Place(_, node int, _ bool) (func(), bool) {
	result, fits := c.allocate(node)
	if !fits {
		return nil, false
	}
	c.ledger.Take(result)
	undo := func() {
		c.ledger.Release(result)
		c.placed = c.placed[:len(c.placed)-1]
	}
	c.placed = append(c.placed, undo)
	return undo, true
}

func (c *deviceCluster) Align(int) float64 { return 1 }

// reset takes everything off and forgets what has been counted.
func (c *deviceCluster) reset() {
	for len(c.placed) > 0 {
		c.placed[len(c.placed)-1]()
	}
	clear(c.counts)
}

// benchLevel divides nodes into domains of a size.
func benchLevel(key string, nodes, size int) *topology.Level {
	level := &topology.Level{Key: key, Of: make([]int32, nodes)}
	for n := range nodes {
		if n%size == 0 {
			level.Values = append(level.Values, fmt.Sprintf("%s-%03d", key, n/size))
		}
		level.Of[n] = int32(n / size)
	}
	return level
}

// benchProblem is a gang that requires a rack group and prefers a rack.
func benchProblem(c *deviceCluster, pods, group int) *Problem {
	nodes := len(c.nodes)
	rack, rackGroup := benchLevel("rack", nodes, benchRack), benchLevel("group", nodes, group)
	model := score.DefaultModel()
	p := &Problem{
		Model: &model, Split: []*topology.Level{rackGroup, rack}, Budget: 10000,
		Scopes: []Scope{{Name: "gang", Required: rackGroup, Preferred: []*topology.Level{rack}}},
		Pods:   make([]int, pods),
	}
	class := Class{
		Weight: 1, Requests: []int64{benchGPUs, 1}, Scopes: []int{0}, G: benchGPUs, RDMA: true,
		Domain: topology.None, Channel: topology.None, Nodes: make([]int, nodes),
	}
	p.Facts = score.FactsOf(nodes, nil, []*topology.Level{rack, rackGroup})
	for n := range nodes {
		free := int64(benchGPUsPerNode)
		for d := range benchGPUsPerNode {
			free -= int64(c.used[n] >> d & 1)
		}
		p.Nodes = append(p.Nodes, Node{Free: []int64{free, 110}, Total: []int64{benchGPUsPerNode, 110}})
		class.Nodes[n] = n
	}
	p.Classes = []Class{class}
	return p
}

// BenchmarkPlan plans a gang of pods of 4 GPUs each, by DRA claim, which requires a
// rack group and prefers a rack, on nodes of 8 GPUs of which half are partly used.
// It finds room in rack groups of 500 nodes, and none for 512 pods in those of 250.
func BenchmarkPlan(b *testing.B) {
	for _, row := range []struct {
		name               string
		pods, nodes, group int
		fits               bool
	}{
		{name: "place", pods: 256, nodes: 1000, group: benchGroup, fits: true},
		{name: "place", pods: 512, nodes: 1000, group: benchGroup, fits: true},
		{name: "place", pods: 512, nodes: 5000, group: benchGroup, fits: true},
		{name: "refuse", pods: 512, nodes: 1000, group: benchGroup / 2},
		{name: "refuse", pods: 512, nodes: 5000, group: benchGroup / 2},
	} {
		b.Run(fmt.Sprintf("%s/%d-pods/%d-nodes", row.name, row.pods, row.nodes), func(b *testing.B) {
			c := newDeviceCluster(b, row.nodes)
			p := benchProblem(c, row.pods, row.group)
			measure(b, row.nodes+row.pods, c.reset, func() {
				if _, shortage := Search(p, c); (shortage == nil) != row.fits {
					b.Fatalf("got shortage %+v", shortage)
				}
			})
		})
	}
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("best/512-pods/%d-nodes", nodes), func(b *testing.B) {
			c := newDeviceCluster(b, nodes)
			p := benchProblem(c, 512, benchGroup)
			measure(b, nodes+512, c.reset, func() {
				if best := Best(p); best.Infeasible {
					b.Fatal("there is no best place")
				}
			})
		})
	}
}

// measure runs a benchmark. Besides what the testing package reports, it reports
// the allocations for each node and pod, and the CPU time of a plan, which other
// programs on the machine do not add to.
func measure(b *testing.B, size int, reset, plan func()) {
	b.ReportAllocs()
	var before, after runtime.MemStats
	var allocations uint64
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		reset()
		runtime.ReadMemStats(&before)
		start := cpuTime(b)
		b.StartTimer()
		plan()
		b.StopTimer()
		spent += cpuTime(b) - start
		runtime.ReadMemStats(&after)
		allocations += after.Mallocs - before.Mallocs
		b.StartTimer()
	}
	b.ReportMetric(float64(allocations)/float64(b.N)/float64(size), "allocs/(node+pod)")
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// cpuTime is the CPU time that the process has used.
func cpuTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
