// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"cmp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Locus is where a device is attached to its machine.
type Locus struct {
	// Root is the PCIe root, "" if it is not known.
	Root string
	// NUMA is the NUMA node, -1 if it is not known.
	NUMA int64
}

// Hint tells the NUMA node of devices whose driver does not publish it.
type Hint struct {
	// Product is a part of the attribute productName. NUMA has the node by PCI domain,
	// the first four digits of the PCI address, in small letters.
	Product string
	NUMA    map[string]int64
}

// Hints are consulted in their order; the first that has an answer counts.
type Hints []Hint

func (h Hints) numa(driver string, device *resourceapi.Device) int64 {
	domain, _, found := strings.Cut(Text(driver, device, attributePCIBusID), ":")
	if !found {
		return -1
	}
	product := Text(driver, device, attributeProduct)
	for i := range h {
		if numa, ok := h[i].NUMA[strings.ToLower(domain)]; ok && strings.Contains(product, h[i].Product) {
			return numa
		}
	}
	return -1
}

// LocusOf returns where a device is, as its attributes tell, and hints where they do
// not tell the NUMA node.
func LocusOf(driver string, device *resourceapi.Device, hints Hints) Locus {
	at := Locus{Root: Text(driver, device, attributePCIeRoot), NUMA: -1}
	for _, name := range []string{attributeNUMANode, attributeDranetNUMA, "numaNode"} {
		if n, ok := number(driver, device, name); ok && n >= 0 {
			at.NUMA = n
			break
		}
	}
	if at.NUMA < 0 {
		at.NUMA = hints.numa(driver, device)
	}
	return at
}

// Distance is how far an accelerator is from the NIC that serves it.
type Distance int

const (
	// DistanceUnknown: attributes do not tell.
	DistanceUnknown Distance = iota
	// DistanceRoot: both are under one PCIe root.
	DistanceRoot
	// DistanceNUMA: both are at one NUMA node.
	DistanceNUMA
	// DistanceCross: the way leads across NUMA nodes.
	DistanceCross
)

// Alignment rates how near the accelerators of a pod are to its NICs: Near where
// they are as near as the pod's request allows on such a machine, SameNUMA or
// CrossNUMA where they could be nearer.
type Alignment struct {
	SameNUMA, CrossNUMA float64
}

// Rate returns the alignment of chosen accelerators and NICs on a machine that has
// all those given last, the chosen ones among them. It is 1 where it is not known,
// and where there is nothing to align.
func (a Alignment) Rate(accelerators, nics, allAccelerators, allNICs []Locus) float64 {
	numaOf := numaByRoot(allAccelerators, allNICs)
	actual := farthest(numaOf.fill(accelerators), numaOf.fill(nics))
	if actual == DistanceUnknown {
		return 1
	}
	best := nearest(len(accelerators), len(nics), numaOf.fill(allAccelerators), numaOf.fill(allNICs))
	switch {
	case actual <= best:
		return 1
	case actual == DistanceNUMA:
		return a.SameNUMA
	}
	return a.CrossNUMA
}

// rootNUMA knows the NUMA node of each PCIe root of a machine: drivers of GPUs often
// tell the root alone, and those of NICs both.
type rootNUMA map[string]int64

func numaByRoot(devices ...[]Locus) rootNUMA {
	known := make(rootNUMA)
	for _, list := range devices {
		for _, at := range list {
			if at.Root != "" && at.NUMA >= 0 {
				known[at.Root] = at.NUMA
			}
		}
	}
	return known
}

// fill returns the places with the NUMA node of their root where it is not known.
func (r rootNUMA) fill(list []Locus) []Locus {
	filled := slices.Clone(list)
	for i, at := range filled {
		if numa, known := r[at.Root]; known && at.NUMA < 0 {
			filled[i].NUMA = numa
		}
	}
	return filled
}

// farthest matches each accelerator with a NIC, under one root if possible, else at
// one NUMA node, and returns the distance of the farthest pair. A NIC serves no more
// accelerators than it has to if all serve as many.
func farthest(accelerators, nics []Locus) Distance {
	if len(accelerators) == 0 || len(nics) == 0 {
		return DistanceUnknown
	}
	share := (len(accelerators) + len(nics) - 1) / len(nics)
	room := make([]int, len(nics))
	for i := range room {
		room[i] = share
	}
	left := match(accelerators, nics, room, func(p, q Locus) bool { return p.Root != "" && p.Root == q.Root })
	if len(left) == 0 {
		return DistanceRoot
	}
	left = match(left, nics, room, func(p, q Locus) bool { return p.NUMA >= 0 && p.NUMA == q.NUMA })
	if len(left) == 0 {
		return DistanceNUMA
	}
	unknown := func(at Locus) bool { return at.NUMA < 0 }
	if slices.ContainsFunc(left, unknown) || slices.ContainsFunc(nics, unknown) {
		return DistanceUnknown
	}
	return DistanceCross
}

// match gives accelerators to NICs with room that are near, and returns those that
// are left.
func match(accelerators, nics []Locus, room []int, near func(p, q Locus) bool) []Locus {
	var left []Locus
	for _, accelerator := range accelerators {
		nic := slices.IndexFunc(nics, func(nic Locus) bool { return near(accelerator, nic) })
		for nic >= 0 && nic < len(nics) && (room[nic] == 0 || !near(accelerator, nics[nic])) {
			nic++
		}
		if nic < 0 || nic == len(nics) {
			left = append(left, accelerator)
			continue
		}
		room[nic]--
	}
	return left
}

// nearest returns the distance at which a number of accelerators can be served by a
// number of NICs on an empty machine.
func nearest(accelerators, nics int, allAccelerators, allNICs []Locus) Distance {
	share := (accelerators + nics - 1) / nics
	root := func(at Locus) (string, bool) { return at.Root, at.Root != "" }
	numa := func(at Locus) (int64, bool) { return at.NUMA, at.NUMA >= 0 }
	switch {
	case served(nics, share, allAccelerators, allNICs, root) >= accelerators:
		return DistanceRoot
	case served(nics, share, allAccelerators, allNICs, numa) >= accelerators:
		return DistanceNUMA
	}
	return DistanceCross
}

// served returns how many accelerators a number of NICs can serve at most that each
// serve up to share accelerators of their own place.
func served[P cmp.Ordered](nics, share int, allAccelerators, allNICs []Locus, placeOf func(Locus) (P, bool)) int {
	here := make(map[P]int)
	for _, at := range allAccelerators {
		if place, known := placeOf(at); known {
			here[place]++
		}
	}
	var serves []int
	for _, at := range allNICs {
		place, known := placeOf(at)
		if !known {
			continue
		}
		n := min(share, here[place])
		here[place] -= n
		serves = append(serves, n)
	}
	slices.SortFunc(serves, func(a, b int) int { return cmp.Compare(b, a) })
	total := 0
	for _, n := range serves[:min(nics, len(serves))] {
		total += n
	}
	return total
}
