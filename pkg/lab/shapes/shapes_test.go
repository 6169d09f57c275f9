// SPDX-License-Identifier: Apache-2.0

package shapes

import (
	"slices"
	"testing"
)

// counts of a shape: nodes, slices, whole GPUs, and devices by driver.
type counts struct {
	nodes, slices, gpus int
	devices             map[string]int
}

func TestShapesHaveTheHardwareOfTheirTable(t *testing.T) {
	const gpu, nic, cd = "gpu.nvidia.com", "dra.net", "compute-domain.nvidia.com"
	rack := func(n int) counts {
		return counts{18 * n, 54 * n, 72 * n, map[string]int{gpu: 72 * n, nic: 144 * n, cd: 36 * n}}
	}
	want := map[string]counts{
		"a":          {2, 4, 2, map[string]int{gpu: 2, cd: 4}},
		"b":          {4, 12, 32, map[string]int{gpu: 32, nic: 32, cd: 8}},
		"b2":         {4, 12, 32, map[string]int{gpu: 32, nic: 128, cd: 8}},
		"b3":         {4, 12, 32, map[string]int{gpu: 32, nic: 16, cd: 8}},
		"b4":         {4, 12, 32, map[string]int{gpu: 32, nic: 32, cd: 8}},
		"c":          rack(1),
		"c-1":        rack(1),
		"c-2":        rack(2),
		"c-4":        rack(4),
		"c-12":       rack(12),
		"c-split":    rack(2),
		"c-cordoned": rack(2),
		"c-busy":     rack(2),
		"c-noclique": rack(2),
		"c-sameid":   rack(2),
		"c-fabric":   {16, 48, 64, map[string]int{gpu: 64, nic: 128, cd: 32}},
		"d":          {1000, 2588, 5360, map[string]int{gpu: 5360, nic: 5152, cd: 1800}},
		"e1":         {1, 2, 0, map[string]int{"gpu.example.com": 3}},
		"e2":         {1, 9, 8, map[string]int{gpu: 8 * 26}},
		"e3":         {1, 3, 8, map[string]int{gpu: 8, nic: 8, cd: 2}},
	}
	for _, name := range Names() {
		if _, ok := want[name]; !ok {
			t.Errorf("shape %s is in no table", name)
		}
	}
	for name, w := range want {
		t.Run(name, func(t *testing.T) {
			s, err := Load(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if s.Description == "" {
				t.Error("no description")
			}
			if len(s.Nodes) != w.nodes || len(s.Slices) != w.slices || s.GPUs() != w.gpus {
				t.Errorf("%d nodes, %d slices, %d GPUs; want %d, %d, %d", len(s.Nodes), len(s.Slices), s.GPUs(), w.nodes, w.slices, w.gpus)
			}
			got := s.DevicesByDriver()
			for driver, n := range w.devices {
				if got[driver] != n {
					t.Errorf("%d devices of %s, want %d", got[driver], driver, n)
				}
			}
			if len(got) != len(w.devices) {
				t.Errorf("devices %v, want %v", got, w.devices)
			}
		})
	}
}

func TestSliceNamesAreUnique(t *testing.T) {
	s, err := Load("d", nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, slice := range s.Slices {
		names = append(names, slice.Name)
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != len(s.Slices) {
		t.Errorf("%d names for %d slices", n, len(s.Slices))
	}
}
