// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// benchFixture has so many nodes of 8 devices, and 64 pods with a claim for 4 each.
func benchFixture(b *testing.B, nodes int) (*fixture, []*v1.Pod) {
	b.Helper()
	devices := map[string]int{}
	for n := range nodes {
		devices[fmt.Sprintf("n%d", n)] = 8
	}
	objects := cluster(devices)
	var pods []*v1.Pod
	for i := range 64 {
		claim := makeClaim(fmt.Sprintf("c%d", i))
		claim.Spec.Devices.Requests[0].Exactly.Count = 4
		objects = append(objects, runtime.Object(claim))
		pods = append(pods, makePod(fmt.Sprintf("p%d", i), claim.Name))
	}
	return newFixture(b, objects...), pods
}

// The start of a plan: the devices of all nodes are gathered.
func BenchmarkNewSession(b *testing.B) {
	for _, nodes := range []int{50, 500} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			f, _ := benchFixture(b, nodes)
			b.ReportAllocs()
			for b.Loop() {
				f.session()
			}
		})
	}
}

// One member's devices on one node, of a gang of 64; two members share a node.
func BenchmarkSessionAllocate(b *testing.B) {
	for _, nodes := range []int{50, 500} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			f, pods := benchFixture(b, nodes)
			s := f.session()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%len(pods) == 0 {
					b.StopTimer()
					s = f.session()
					b.StartTimer()
				}
				f.allocate(s, pods[i%len(pods)], fmt.Sprintf("n%d", i%len(pods)/2))
			}
		})
	}
}
