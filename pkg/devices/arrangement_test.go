// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

func quantities(of map[string]int64) map[string]resourceapi.Counter {
	counters := make(map[string]resourceapi.Counter)
	for name, n := range of {
		counters[name] = resourceapi.Counter{Value: *resource.NewQuantity(n, resource.DecimalSI)}
	}
	return counters
}

// withSet adds the counter set gpu to a slice.
func withSet(counters map[string]int64) func(*resourceapi.ResourceSlice) {
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{Name: "gpu", Counters: quantities(counters)})
	}
}

// withPart adds a device that consumes counters of that set to a slice.
func withPart(name string, counters map[string]int64) func(*resourceapi.ResourceSlice) {
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{
			{CounterSet: "gpu", Counters: quantities(counters)},
		}})
	}
}

// migWorld is a node with a GPU that can be had whole, as a half or as quarters,
// and with a device that shares nothing.
func migWorld() []*resourceapi.ResourceSlice {
	return []*resourceapi.ResourceSlice{
		slice("counters", "n1", 0, onNode("n1"), withSet(map[string]int64{"memory": 8, "cores": 4})),
		slice("devices", "n1", 1, onNode("n1"),
			withPart("whole", map[string]int64{"memory": 8, "cores": 4}),
			withPart("half", map[string]int64{"memory": 4, "cores": 2}),
			withPart("quarter-0", map[string]int64{"memory": 2, "cores": 1}),
			withPart("quarter-1", map[string]int64{"memory": 2, "cores": 1})),
	}
}

// shown lists the devices of a world in the order in which they are shown.
func shown(world []*resourceapi.ResourceSlice) []string {
	names := []string{}
	for _, slice := range world {
		for i := range slice.Spec.Devices {
			names = append(names, slice.Spec.Devices[i].Name)
		}
	}
	return names
}

func ledgerWith(taken ...structured.DeviceID) *Ledger {
	state := emptyState()
	state.AllocatedDevices.Insert(taken...)
	ledger := NewLedger(false)
	ledger.Start(state)
	return ledger
}

func TestArrangementsGoFromWhatIsPublishedToWhatConsumesLeast(t *testing.T) {
	for _, tc := range []struct {
		name   string
		world  []*resourceapi.ResourceSlice
		ledger *Ledger
		want   [][]string
	}{
		{
			name: "devices that share nothing", world: []*resourceapi.ResourceSlice{slice("a", "n1", 2, onNode("n1"))}, ledger: ledgerWith(),
			want: [][]string{{"dev-0", "dev-1"}},
		},
		{
			name: "devices of three sizes", world: migWorld(), ledger: ledgerWith(),
			want: [][]string{
				{"dev-0", "whole", "half", "quarter-0", "quarter-1"},
				{"dev-0", "quarter-0", "quarter-1", "half", "whole"},
				{"dev-0", "quarter-0", "quarter-1", "half"},
				{"dev-0", "quarter-0", "quarter-1"},
			},
		},
		{
			name: "what is taken stays in sight", world: migWorld(), ledger: ledgerWith(deviceID("n1", "half")),
			want: [][]string{
				{"dev-0", "whole", "half", "quarter-0", "quarter-1"},
				{"dev-0", "quarter-0", "quarter-1", "half", "whole"},
				{"dev-0", "quarter-0", "quarter-1", "half"},
				{"dev-0", "quarter-0", "quarter-1", "half"},
			},
		},
		{
			name: "an old generation has no counters",
			world: []*resourceapi.ResourceSlice{
				slice("old", "n1", 0, onNode("n1"), withSet(map[string]int64{"memory": 1})),
				slice("new", "n1", 0, onNode("n1"), generation(3), withSet(map[string]int64{"memory": 8}),
					withPart("big", map[string]int64{"memory": 4}), withPart("small", map[string]int64{"memory": 2})),
			},
			ledger: ledgerWith(),
			want:   [][]string{{"big", "small"}, {"small", "big"}, {"small"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := shown(tc.world)
			var got [][]string
			for _, arrangement := range Arrangements(tc.world, tc.ledger) {
				got = append(got, shown(arrangement.Apply(tc.world)))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("arrangements (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, shown(tc.world)); diff != "" {
				t.Errorf("the slices themselves were changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestExactlyLeavesTheChosenAndTheTaken(t *testing.T) {
	world := migWorld()
	arrangement := Exactly(world, ledgerWith(deviceID("n1", "dev-0")), sets.New(deviceID("n1", "quarter-1"), deviceID("n2", "whole")))
	if diff := cmp.Diff([]string{"dev-0", "quarter-1"}, shown(arrangement.Apply(world))); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

func TestUsable(t *testing.T) {
	world := []*resourceapi.ResourceSlice{slice("a", "n1", 4, onNode("n1")), slice("b", "shared", 2, onAllNodes)}
	ledger := ledgerWith(deviceID("n1", "dev-1"), deviceID("shared", "dev-0"))
	if got := Usable(world, ledger, 10, all); got != 4 {
		t.Errorf("%d devices are usable, want 4 of 6", got)
	}
	if got := Usable(world, ledger, 2, all); got != 2 {
		t.Errorf("counted to %d, want a stop at 2", got)
	}
	world[0].Spec.Devices[3].AllowMultipleAllocations = new(true)
	if got := Usable(world, ledger, 10, all); got != 10 {
		t.Errorf("%d devices are usable, want enough: one of them serves many claims", got)
	}
}
