// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

const (
	nicDriver = "dra.net"
	testNode  = "n1"
)

// usualAttributes are the usual attributes.
func usualAttributes() []string { return []string{attributePCIeRoot, attributeNUMANode} }

// part of a machine: a device with its place. NUMA -1 is not published.
type part struct {
	name, root string
	numa       int64
	more       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
}

// machine publishes GPUs and RDMA NICs as their drivers do, in the given order.
func machine(gpus, nics []part) []*resourceapi.ResourceSlice {
	publish := func(driver string, numa resourceapi.QualifiedName, parts []part) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: testNode + "-" + driver},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, NodeName: ptr.To(testNode), Pool: resourceapi.ResourcePool{Name: testNode, Generation: 1, ResourceSliceCount: 1},
			},
		}
		for _, p := range parts {
			d := resourceapi.Device{Name: p.name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
			if p.root != "" {
				d.Attributes[attributePCIeRoot] = resourceapi.DeviceAttribute{StringValue: ptr.To(p.root)}
			}
			if p.numa >= 0 || driver == nicDriver {
				d.Attributes[numa] = resourceapi.DeviceAttribute{IntValue: ptr.To(p.numa)}
			}
			if driver == nicDriver {
				d.Attributes[attributeRDMA] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
			}
			for name, value := range p.more {
				d.Attributes[name] = value
			}
			s.Spec.Devices = append(s.Spec.Devices, d)
		}
		return s
	}
	return []*resourceapi.ResourceSlice{publish(gpuDriver, attributeNUMANode, gpus), publish(nicDriver, attributeDranetNUMA, nics)}
}

// parts makes n devices, named prefix0 and so on.
func parts(prefix string, n int, root func(i int) string, numa func(i int) int64) []part {
	var list []part
	for i := range n {
		list = append(list, part{name: fmt.Sprint(prefix, i), root: root(i), numa: numa(i)})
	}
	return list
}

func rootOf(per int) func(int) string {
	return func(i int) string { return fmt.Sprintf("pci%d", i/per) }
}
func numaOf(per int64) func(int) int64 { return func(i int) int64 { return int64(i) / per } }
func noRoot(int) string                { return "" }
func noNUMA(int) int64                 { return -1 }

// hgxH100 has a GPU and a NIC on each of 8 roots. Only the NICs tell their NUMA node.
func hgxH100() []*resourceapi.ResourceSlice {
	return machine(parts("g", 8, rootOf(1), noNUMA), parts("n", 8, rootOf(1), numaOf(4)))
}

// p5 has four NICs on the root of each of 8 GPUs.
func p5() []*resourceapi.ResourceSlice {
	return machine(parts("g", 8, rootOf(1), noNUMA), parts("n", 32, rootOf(4), numaOf(16)))
}

// p4d has two GPUs and a NIC on each of 4 roots.
func p4d() []*resourceapi.ResourceSlice {
	return machine(parts("g", 8, rootOf(2), noNUMA), parts("n", 4, rootOf(1), numaOf(2)))
}

// gb200 has 4 GPUs and 4 cards of two ports each, none on the root of a GPU.
func gb200() []*resourceapi.ResourceSlice {
	return machine(parts("g", 4, rootOf(1), numaOf(2)), parts("n", 8, func(i int) string { return fmt.Sprintf("pci1%d", i/2) }, numaOf(4)))
}

// azure has NICs without a root.
func azure() []*resourceapi.ResourceSlice {
	return machine(parts("g", 8, rootOf(1), numaOf(4)), parts("n", 8, noRoot, numaOf(4)))
}

// virtual tells nothing of where devices are.
func virtual() []*resourceapi.ResourceSlice {
	return machine(parts("g", 8, noRoot, noNUMA), parts("n", 8, noRoot, noNUMA))
}

// partitioned has 8 GPUs in partitions of the fabric manager, which do not follow the
// order of their names: those of equal parity have NVLinks.
func partitioned() []*resourceapi.ResourceSlice {
	gpus := parts("g", 8, rootOf(1), numaOf(4))
	for i := range gpus {
		id := func(n int) resourceapi.DeviceAttribute {
			return resourceapi.DeviceAttribute{IntValue: ptr.To(int64(n))}
		}
		gpus[i].more = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"gpuModuleID": id(i), "partition1": id(100 + i), "partition8": id(0),
			"partition4": id(1 + i%2), "partition2": id(10 + i%2 + i/4*2),
		}
	}
	return machine(gpus, nil)
}

// ofDevices asks for a number of devices of a driver; with names, for one of these.
func ofDevices(driver string, count int, names ...string) Ask {
	return Ask{Count: count, Meant: func(s *resourceapi.ResourceSlice) []bool {
		meant := make([]bool, len(s.Spec.Devices))
		for i := range meant {
			meant[i] = s.Spec.Driver == driver && (len(names) == 0 || slices.Contains(names, s.Spec.Devices[i].Name))
		}
		return meant
	}}
}

func gpus(n int, names ...string) Ask { return ofDevices(gpuDriver, n, names...) }
func nics(n int, names ...string) Ask { return ofDevices(nicDriver, n, names...) }

func matching(ask Ask, attributes ...string) Ask {
	ask.Match = attributes
	return ask
}

// id names a device of the machine: those of a GPU begin with a g.
func id(name string) structured.DeviceID {
	driver := nicDriver
	if strings.HasPrefix(name, "g") {
		driver = gpuDriver
	}
	return structured.MakeDeviceID(driver, testNode, name)
}

func ids(names string) []structured.DeviceID {
	var list []structured.DeviceID
	for _, name := range strings.Fields(names) {
		list = append(list, id(name))
	}
	return list
}

// firstFit lists what an allocator takes that takes the first that fit.
func firstFit(world []*resourceapi.ResourceSlice, ledger *Ledger, asks []Ask) []string {
	var taken []string
	for _, ask := range asks {
		left := ask.Count
		for _, s := range byName(world) {
			for i, meant := range ask.Meant(s) {
				name := s.Spec.Devices[i].Name
				if meant && left > 0 && !ledger.Taken(deviceIn(s, i)) && !slices.Contains(taken, name) {
					taken = append(taken, name)
					left--
				}
			}
		}
		if left > 0 {
			return nil
		}
	}
	return taken
}

func TestDevicesThatAPodShouldGet(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world []*resourceapi.ResourceSlice
		taken string
		ask   Demand
		want  string
	}{
		{"all that there are", gb200(), "g0 g1", Demand{Asks: []Ask{gpus(2)}}, "g2 g3"},
		{"more than there are", gb200(), "g0 g1", Demand{Asks: []Ask{gpus(3)}}, ""},
		{"nothing tells them apart", virtual(), "g0 n0", Demand{Asks: []Ask{gpus(2), nics(2)}}, "g1 g2 n1 n2"},
		{"a GPU alone on an empty machine", hgxH100(), "", Demand{Asks: []Ask{gpus(1)}}, "g0"},
		{"the NUMA node that holds them", hgxH100(), "g0", Demand{Asks: []Ask{gpus(4)}}, "g4 g5 g6 g7"},
		{"the NUMA node with the fewest that holds them", hgxH100(), "g0 g4 g5", Demand{Asks: []Ask{gpus(2)}}, "g6 g7"},
		{"one that does not break into a whole NUMA node", hgxH100(), "g4", Demand{Asks: []Ask{gpus(1)}}, "g5"},
		{"more than a NUMA node holds", hgxH100(), "g0 g1", Demand{Asks: []Ask{gpus(5)}}, "g2 g3 g4 g5 g6"},
		{"a whole PCIe root", p4d(), "g0 n0 n1 n2 n3", Demand{Asks: []Ask{gpus(2)}}, "g2 g3"},
		{"the half of a PCIe root that is left", p4d(), "g0 n0 n1 n2 n3", Demand{Asks: []Ask{gpus(1)}}, "g1"},
		{"one and a half PCIe roots", p4d(), "g3 g4", Demand{Asks: []Ask{gpus(3)}}, "g0 g1 g2"},
		{"two claims for a GPU are like one for two", p4d(), "g0 n0 n1 n2 n3", Demand{Asks: []Ask{gpus(1), gpus(1)}}, "g2 g3"},
		{"beside what the pod has already", p4d(), "g4 g6", Demand{Asks: []Ask{gpus(1)}, Held: ids("g6")}, "g7"},

		{"a GPU and its NIC", hgxH100(), "n0 n1 g2", Demand{Asks: []Ask{gpus(1), nics(1)}}, "g3 n3"},
		{"the NIC asked for first", hgxH100(), "n0 n1 g2", Demand{Asks: []Ask{nics(1), gpus(1)}}, "n3 g3"},
		{"GPUs with NICs of their own before one NUMA node", hgxH100(), "n0 n1 n2 g7", Demand{Asks: []Ask{gpus(3), nics(3)}}, "g4 g5 g6 n4 n5 n6"},
		{"a NIC of the same NUMA node if it must be", hgxH100(), "n0 n1 n2 n3 g4 g5 g6", Demand{Asks: []Ask{gpus(1), nics(1, "n4", "n5", "n6")}}, "g7 n4"},
		{"the NIC beside a GPU that is given", hgxH100(), "", Demand{Asks: []Ask{gpus(1, "g6"), nics(1)}}, "g6 n6"},
		{"the GPU beside a NIC that is given", hgxH100(), "", Demand{Asks: []Ask{gpus(1), nics(1, "n6")}}, "g6 n6"},
		{"the NIC beside a GPU that the pod has already", hgxH100(), "g5", Demand{Asks: []Ask{nics(1)}, Held: ids("g5")}, "n5"},
		{"the GPU beside a NIC that the pod has already", hgxH100(), "n5", Demand{Asks: []Ask{gpus(1)}, Held: ids("n5")}, "g5"},
		{"all NICs of the root", p5(), "g0", Demand{Asks: []Ask{gpus(1), nics(4)}}, "g1 n4 n5 n6 n7"},
		{"NICs evenly over the GPUs", p5(), "g0 g1", Demand{Asks: []Ask{gpus(2), nics(4)}}, "g2 g3 n8 n9 n12 n13"},
		{"two GPUs that share a NIC", p4d(), "n0 n1", Demand{Asks: []Ask{gpus(2), nics(1)}}, "g4 g5 n2"},
		{"two GPUs with a NIC each", p4d(), "", Demand{Asks: []Ask{gpus(2), nics(2)}}, "g0 g2 n0 n1"},
		{"by NUMA node where roots never match", gb200(), "n0 n1 n2 n3", Demand{Asks: []Ask{gpus(1), nics(1)}}, "g2 n4"},
		{"four GPUs and a NIC each", gb200(), "", Demand{Asks: []Ask{gpus(4), nics(4)}}, "g0 g1 g2 g3 n0 n1 n4 n5"},
		{"by NUMA node where NICs tell no root", azure(), "n0 n1 n2 n3", Demand{Asks: []Ask{gpus(2), nics(2)}}, "g4 g5 n4 n5"},

		{"GPUs alone leave those with a free NIC", hgxH100(), "n4", Demand{Asks: []Ask{gpus(1)}}, "g4"},
		{"also at the level of NUMA nodes", gb200(), "n4 n5 n6 n7", Demand{Asks: []Ask{gpus(1)}}, "g2"},
		{"but stay together", hgxH100(), "n0 n5", Demand{Asks: []Ask{gpus(2)}}, "g0 g1"},
		{"the second GPU of a root, when one is enough for its NIC", p4d(), "g0", Demand{Asks: []Ask{gpus(1)}}, "g2"},
		{"NICs that the kubelet chooses are no reason", hgxH100(), "n4", Demand{Asks: []Ask{gpus(1)}, OtherNICs: true}, "g0"},

		{"a partition of two", partitioned(), "", Demand{Asks: []Ask{gpus(2)}}, "g0 g2"},
		{"a partition of four", partitioned(), "", Demand{Asks: []Ask{gpus(4)}}, "g0 g2 g4 g6"},
		{"the partition of four that is whole", partitioned(), "g4", Demand{Asks: []Ask{gpus(4)}}, "g1 g3 g5 g7"},
		{"the partition of two that spares the one of four", partitioned(), "g1", Demand{Asks: []Ask{gpus(2)}}, "g5 g7"},
		{"the one that spares all partitions", partitioned(), "g1", Demand{Asks: []Ask{gpus(1)}}, "g3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ledger := ledgerWith(ids(tc.taken)...)
			a := NewChooser(usualAttributes(), nil).Arrange(testNode, tc.world, ledger, tc.ask)
			got := firstFit(a.Apply(tc.world), ledger, tc.ask.Asks)
			if want := strings.Fields(tc.want); !slices.Equal(got, want) {
				t.Errorf("first fit takes %v, want %v", got, want)
			}
		})
	}
}

// e3 is a machine with the NICs of four roots taken.
func TestFourPodsWithAndFourWithoutNICs(t *testing.T) {
	world := hgxH100()
	chooser := NewChooser(usualAttributes(), nil)
	plain, beside := Demand{Asks: []Ask{gpus(1)}}, Demand{Asks: []Ask{gpus(1), nics(1)}}
	for _, order := range []string{"ppppbbbb", "bbbbpppp", "pbpbpbpb", "bppbbppb"} {
		ledger := ledgerWith(ids("n1 n3 n4 n6")...)
		for _, kind := range order {
			demand := plain
			if kind == 'b' {
				demand = beside
			}
			got := firstFit(chooser.Arrange(testNode, world, ledger, demand).Apply(world), ledger, demand.Asks)
			if got == nil || len(got) == 2 && got[0][1:] != got[1][1:] {
				t.Fatalf("in order %s one gets %v", order, got)
			}
			ledger.State().AllocatedDevices.Insert(ids(strings.Join(got, " "))...)
		}
	}
}

func TestDevicesAgreeOnWhatTheClaimAndTheArgumentsSay(t *testing.T) {
	complexOf := func(list []part) []part {
		for i := range list {
			list[i].more = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"example.com/complex": {StringValue: ptr.To(fmt.Sprint((i * 3) % 8))},
			}
		}
		return list
	}
	crossed := parts("n", 8, func(i int) string { return fmt.Sprintf("pci%d", 7-i) }, numaOf(4))
	world := machine(complexOf(parts("g", 8, rootOf(1), numaOf(4))), complexOf(crossed))
	for _, tc := range []struct {
		name string
		near []string
		ask  []Ask
		want []string
	}{
		{"by PCIe root", usualAttributes(), []Ask{gpus(1, "g2", "g3"), nics(1, "n3", "n5")}, []string{"g2", "n5"}},
		{"by another attribute", []string{"example.com/complex", attributeNUMANode}, []Ask{gpus(1, "g2", "g3"), nics(1, "n3", "n5")}, []string{"g3", "n3"}},
		{"as published", nil, []Ask{gpus(1, "g2", "g3"), nics(1, "n3", "n5")}, []string{"g2", "n3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := NewChooser(tc.near, nil).Arrange(testNode, world, ledgerWith(), Demand{Asks: tc.ask})
			if got := firstFit(a.Apply(world), ledgerWith(), tc.ask); !slices.Equal(got, tc.want) {
				t.Errorf("first fit takes %v, want %v", got, tc.want)
			}
		})
	}
	odd := parts("g", 4, rootOf(1), numaOf(2))
	for i := range odd {
		odd[i].more = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"odd": {BoolValue: ptr.To(i%2 > 0)}}
	}
	world = machine(odd, nil)
	asks := []Ask{matching(gpus(2), gpuDriver+"/odd")}
	a := NewChooser(usualAttributes(), nil).Arrange(testNode, world, ledgerWith(), Demand{Asks: asks})
	if got, want := firstFit(a.Apply(world), ledgerWith(), asks), []string{"g0", "g2"}; !slices.Equal(got, want) {
		t.Errorf("of devices that have to agree, first fit takes %v, want %v", got, want)
	}
}

// Where devices exclude each other, or serve many, others know better what to take.
func TestNoChoiceIsMadeOfPartsAndOfSharedDevices(t *testing.T) {
	shareable := p4d()
	for i := range shareable[0].Spec.Devices {
		shareable[0].Spec.Devices[i].AllowMultipleAllocations = ptr.To(true)
	}
	halves := p4d()
	halves[0].Spec.SharedCounters = nil
	for i := range halves[0].Spec.Devices {
		halves[0].Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
			CounterSet: fmt.Sprint(i / 2), Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("1")}},
		}}
	}
	for name, world := range map[string][]*resourceapi.ResourceSlice{"shareable": shareable, "halves": halves} {
		a := NewChooser(usualAttributes(), nil).Arrange(testNode, world, ledgerWith(ids("g0")...), Demand{Asks: []Ask{gpus(2)}})
		if a.Rank != nil || a.Hidden != nil {
			t.Errorf("%s: got arrangement %v, want none", name, a)
		}
	}
}

// Whole GPUs that can be cut into parts are chosen like others, without those of which
// a part is taken.
func TestWholeDevicesAreChosenAmongThoseThatAreWhole(t *testing.T) {
	var devices []part
	for i := range 4 {
		devices = append(devices, part{name: fmt.Sprint("g", i), root: "pci0", numa: int64(i / 2)}, part{name: fmt.Sprint("gpart", i), root: "pci0", numa: int64(i / 2)})
	}
	world := machine(devices, nil)[:1]
	for i := range world[0].Spec.Devices {
		d := &world[0].Spec.Devices[i]
		units := "2"
		if strings.HasPrefix(d.Name, "gpart") {
			units = "1"
		}
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
			CounterSet: fmt.Sprint(i / 2), Counters: map[string]resourceapi.Counter{"units": {Value: resource.MustParse(units)}},
		}}
	}
	counters := slice("counters", testNode, 0, onNode(testNode), generation(1))
	for i := range 4 {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{
			Name: fmt.Sprint(i), Counters: map[string]resourceapi.Counter{"units": {Value: resource.MustParse("2")}},
		})
	}
	world = append(world, counters)
	ask := gpus(2, "g0", "g1", "g2", "g3")
	a := NewChooser(usualAttributes(), nil).Arrange(testNode, world, ledgerWith(ids("gpart0")...), Demand{Asks: []Ask{ask}})
	got := shown(a.Apply(world))[:2]
	if want := []string{"g2", "g3"}; !slices.Equal(got, want) {
		t.Errorf("the first shown are %v, want %v", got, want)
	}
}

// A pool may have a slice for each device.
func TestDevicesOfSeveralSlicesAreOrdered(t *testing.T) {
	whole := p4d()[0]
	var world []*resourceapi.ResourceSlice
	for i := range whole.Spec.Devices {
		s := whole.DeepCopy()
		s.Name = fmt.Sprintf("s%d", 7-i)
		s.Spec.Devices = []resourceapi.Device{whole.Spec.Devices[i]}
		world = append(world, s)
	}
	asks := []Ask{gpus(2)}
	a := NewChooser(usualAttributes(), nil).Arrange(testNode, world, ledgerWith(ids("g7")...), Demand{Asks: asks})
	if got, want := firstFit(a.Apply(world), ledgerWith(ids("g7")...), asks), []string{"g5", "g4"}; !slices.Equal(got, want) {
		t.Errorf("first fit takes %v, want %v", got, want)
	}
	if got := firstFit(world, ledgerWith(), asks); !slices.Equal(got, []string{"g7", "g6"}) {
		t.Errorf("the slices given were changed: first fit takes %v", got)
	}
}
