// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// drawMachine draws a machine with devices in any order, and which of them are taken.
func drawMachine(t *rapid.T) (world []*resourceapi.ResourceSlice, taken []string) {
	numas := rapid.IntRange(1, 3).Draw(t, "numas")
	roots := rapid.IntRange(1, 3).Draw(t, "roots of a NUMA node")
	told := rapid.Bool().Draw(t, "whether roots are told")
	draw := func(prefix string, n int) []part {
		list := parts(prefix, rapid.IntRange(1, n).Draw(t, "devices "+prefix), noRoot, noNUMA)
		for i := range list {
			at := rapid.IntRange(0, numas*roots-1).Draw(t, list[i].name+" at root")
			list[i].numa = int64(at / roots)
			if told {
				list[i].root = fmt.Sprint("pci", at)
			}
			if prefix == "g" {
				list[i].more = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
				if rapid.Bool().Draw(t, "partitions") {
					list[i].more["partition2"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(i / 2))}
				}
			}
			if rapid.IntRange(0, 3).Draw(t, list[i].name+" taken") == 0 {
				taken = append(taken, list[i].name)
			}
		}
		return rapid.Permutation(list).Draw(t, "order of "+prefix)
	}
	return machine(draw("g", 8), draw("n", 8)), taken
}

// loci are where the named devices are, GPUs and NICs.
func loci(world []*resourceapi.ResourceSlice, names func(string) bool) (gpus, nics []Locus) {
	for _, s := range world {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			switch {
			case !names(d.Name):
			case s.Spec.Driver == gpuDriver:
				gpus = append(gpus, LocusOf(s.Spec.Driver, d, nil))
			default:
				nics = append(nics, LocusOf(s.Spec.Driver, d, nil))
			}
		}
	}
	return gpus, nics
}

func numaNodes(list []Locus) int {
	var seen []int64
	for _, at := range list {
		if !slices.Contains(seen, at.NUMA) {
			seen = append(seen, at.NUMA)
		}
	}
	return len(seen)
}

func TestChoiceIsNeverWorseThanFirstFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world, taken := drawMachine(t)
		ledger := ledgerWith(ids(strings.Join(taken, " "))...)
		var asks []Ask
		wantsNIC, gpuCount := false, 0
		for i := range rapid.IntRange(1, 3).Draw(t, "asks") {
			count := rapid.IntRange(1, 4).Draw(t, fmt.Sprint("count ", i))
			if rapid.Bool().Draw(t, fmt.Sprint("NICs ", i)) {
				asks, wantsNIC = append(asks, nics(count)), true
			} else {
				asks, gpuCount = append(asks, gpus(count)), gpuCount+count
			}
		}
		before := shown(world)
		arranged := NewChooser(usualAttributes(), nil).Arrange(testNode, world, ledger, Demand{Asks: asks}).Apply(world)
		if after := shown(world); !slices.Equal(before, after) {
			t.Fatalf("the world was %v and is now %v", before, after)
		}
		for i := range world {
			was, is := shown(world[i:i+1]), shown(arranged[i:i+1])
			slices.Sort(was)
			slices.Sort(is)
			if !slices.Equal(was, is) {
				t.Fatalf("slice %d had %v, and %v are shown", i, was, is)
			}
		}
		plain, got := firstFit(world, ledger, asks), firstFit(arranged, ledger, asks)
		if len(plain) != len(got) {
			t.Fatalf("as published there is %v, arranged %v", plain, got)
		}
		if plain == nil {
			return
		}
		compare(t, world, plain, got, wantsNIC, gpuCount)
	})
}

// compare fails if the devices got are worse than those that first fit takes.
func compare(t *rapid.T, world []*resourceapi.ResourceSlice, plain, got []string, wantsNIC bool, gpuCount int) {
	allGPUs, allNICs := loci(world, func(string) bool { return true })
	in := func(names []string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	plainGPUs, plainNICs := loci(world, in(plain))
	gotGPUs, gotNICs := loci(world, in(got))
	if gpuCount == 2 && partitions(world, got) > partitions(world, plain) {
		t.Fatalf("%v are of more partitions than %v", got, plain)
	}
	switch {
	case gpuCount == 0 || gpuCount == 2 && partitions(world, got) < partitions(world, plain):
	case wantsNIC:
		factors := Alignment{SameNUMA: 0.95, CrossNUMA: 0.55}
		was, is := factors.Rate(plainGPUs, plainNICs, allGPUs, allNICs), factors.Rate(gotGPUs, gotNICs, allGPUs, allNICs)
		if is < was {
			t.Fatalf("%v is aligned at %v, %v at %v", got, is, plain, was)
		}
	case numaNodes(gotGPUs) > numaNodes(plainGPUs):
		t.Fatalf("%v are of more NUMA nodes than %v", got, plain)
	}
}

// partitions counts the partitions of two that GPUs are of, none counting as one.
func partitions(world []*resourceapi.ResourceSlice, names []string) int {
	var seen []int64
	for i := range world[0].Spec.Devices {
		d := &world[0].Spec.Devices[i]
		id, ok := number(gpuDriver, d, "partition2")
		if !ok {
			id = -1
		}
		if slices.Contains(names, d.Name) && !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	return len(seen)
}

// Whatever is free, the choice is deterministic.
func TestChoiceIsAlwaysTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world, taken := drawMachine(t)
		ledger := ledgerWith(ids(strings.Join(taken, " "))...)
		demand := Demand{Asks: []Ask{gpus(rapid.IntRange(1, 4).Draw(t, "GPUs")), nics(rapid.IntRange(1, 4).Draw(t, "NICs"))}}
		first := NewChooser(usualAttributes(), nil).Arrange(testNode, world, ledger, demand).Apply(world)
		second := NewChooser(usualAttributes(), nil).Arrange(testNode, world, ledger, demand).Apply(world)
		if !slices.Equal(shown(first), shown(second)) {
			t.Fatalf("once %v, once %v", shown(first), shown(second))
		}
	})
}
