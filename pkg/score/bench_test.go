// SPDX-License-Identifier: Apache-2.0

package score

import (
	"fmt"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// benchRoom is nodes of 8 GPUs in 64 racks, 8 racks a block, every other node partly
// used.
func benchRoom(nodes int, kinds []Kind) *Room {
	const racks, racksPerBlock = 64, 8
	block, rack := &topology.Level{}, &topology.Level{}
	for i := range racks {
		rack.Values = append(rack.Values, fmt.Sprint(i))
	}
	for i := range racks / racksPerBlock {
		block.Values = append(block.Values, fmt.Sprint(i))
	}
	room := &Room{Levels: []*topology.Level{block, rack}}
	for i := range nodes {
		in := int32(i * racks / nodes)
		rack.Of, block.Of = append(rack.Of, in), append(block.Of, in/racksPerBlock)
		free := []int64{192_000, 2 << 40, 110, 8, 8}
		if i%2 == 1 {
			free = []int64{96_000, 1 << 40, 80, int64(i % 8), 8}
		}
		room.Nodes, room.Free = append(room.Nodes, i), append(room.Free, free)
	}
	room.Facts = FactsOf(nodes, nil, []*topology.Level{rack, block})
	room.Limit = func(kind, _ int) int { return kinds[kind].Count }
	return room
}

// benchGangs are gangs of 512 pods: all alike, in 64 units, and in two kinds.
func benchGangs() map[string][]Kind {
	one := func(count int, unit int32, g float64) Kind {
		return Kind{
			Count: count, G: g, Unit: unit, Domain: topology.None, RDMA: true,
			Requests: []int64{16_000, 64 << 30, 1, int64(g), 1},
		}
	}
	gangs := map[string][]Kind{
		"alike":     {one(512, 0, 4)},
		"two-kinds": {one(64, 0, 8), one(448, 1, 4)},
	}
	for unit := range int32(64) {
		gangs["64-units"] = append(gangs["64-units"], one(8, unit, 4))
	}
	return gangs
}

func BenchmarkPack(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for name, kinds := range benchGangs() {
			b.Run(fmt.Sprintf("pods=512/nodes=%d/%s", nodes, name), func(b *testing.B) {
				m := DefaultModel()
				room := benchRoom(nodes, kinds)
				b.ReportAllocs()
				var t Result
				for b.Loop() {
					var ok bool
					if _, t, ok = m.Pack(kinds, nil, room); !ok {
						b.Fatal("no packing was found")
					}
				}
				b.ReportMetric(t.Time*1e3, "ms/GB")
			})
		}
	}
}

func BenchmarkTime(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for name, kinds := range benchGangs() {
			b.Run(fmt.Sprintf("pods=512/nodes=%d/%s", nodes, name), func(b *testing.B) {
				m := DefaultModel()
				room := benchRoom(nodes, kinds)
				seats, _, ok := m.Pack(kinds, nil, room)
				if !ok {
					b.Fatal("no packing was found")
				}
				members := withSeats(kinds, nil, seats)
				b.ReportAllocs()
				for b.Loop() {
					m.Time(members, room.Facts)
				}
			})
		}
	}
}
