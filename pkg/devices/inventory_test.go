// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
)

func TestWorld(t *testing.T) {
	for _, tc := range []struct {
		name   string
		slices []*resourceapi.ResourceSlice
		want   map[string][]string
	}{
		{
			name:   "no slices",
			slices: nil,
			want:   map[string][]string{"n1": {}},
		},
		{
			name: "a node sees its own pools and not those of others",
			slices: []*resourceapi.ResourceSlice{
				slice("a", "n1", 8, onNode("n1")), slice("b", "n2", 8, onNode("n2")),
				slice("c", "n1", 2, onNode("n1"), ofDriver("nic.example.com")),
			},
			want: map[string][]string{"n1": {"a", "c"}, "n2": {"b"}, "n3": {}},
		},
		{
			name: "pools not tied to a node by name are seen by all, after the node's own",
			slices: []*resourceapi.ResourceSlice{
				slice("everywhere", "shared", 1, onAllNodes), slice("a", "n1", 8, onNode("n1")),
				slice("some", "rack", 1, func(s *resourceapi.ResourceSlice) { s.Spec.PerDeviceNodeSelection = new(true) }),
			},
			want: map[string][]string{"n1": {"a", "everywhere", "some"}, "n2": {"everywhere", "some"}},
		},
		{
			name: "a pool comes whole, once, with the slices that serve others",
			slices: []*resourceapi.ResourceSlice{
				slice("a1", "pool", 1, onNode("n1")), slice("a2", "pool", 1, onNode("n1")),
				slice("a3", "pool", 1, onNode("n2")), slice("a4", "pool", 1, onAllNodes),
				slice("b", "n2", 1, onNode("n2")),
			},
			want: map[string][]string{
				"n1": {"a1", "a2", "a3", "a4"},
				"n2": {"a1", "a2", "a3", "a4", "b"},
				"n3": {"a1", "a2", "a3", "a4"},
			},
		},
		{
			name: "pools of one name and different drivers are told apart",
			slices: []*resourceapi.ResourceSlice{
				slice("a", "pool", 1, onNode("n1")), slice("b", "pool", 1, onNode("n2"), ofDriver("nic.example.com")),
			},
			want: map[string][]string{"n1": {"a"}, "n2": {"b"}},
		},
		{
			name: "old generations are left to the allocator",
			slices: []*resourceapi.ResourceSlice{
				slice("old", "n1", 1, onNode("n1")), slice("new", "n1", 1, onNode("n1"), generation(2)),
			},
			want: map[string][]string{"n1": {"old", "new"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inventory := NewInventory(tc.slices)
			for node, want := range tc.want {
				got := []string{}
				for _, s := range inventory.World(node) {
					got = append(got, s.Name)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("world of %s (-want +got):\n%s", node, diff)
				}
			}
		})
	}
}

// all selects every device.
func all(s *resourceapi.ResourceSlice) []bool {
	selected := make([]bool, len(s.Spec.Devices))
	for i := range selected {
		selected[i] = true
	}
	return selected
}

func TestCount(t *testing.T) {
	state := emptyState()
	state.AllocatedDevices.Insert(deviceID("n1", "dev-1"), deviceID("n1", "quarter-0"), deviceID("n2", "dev-0"), deviceID("elsewhere", "dev-2"))
	for _, tc := range []struct {
		name        string
		slices      []*resourceapi.ResourceSlice
		meant       Selector
		total, free int
	}{
		{"no slices", nil, all, 0, 0},
		{"held devices are not free", []*resourceapi.ResourceSlice{slice("a", "n1", 4, onNode("n1"))}, all, 4, 3},
		{
			"devices of other nodes and of shared pools do not count",
			[]*resourceapi.ResourceSlice{slice("a", "n1", 4, onNode("n1")), slice("b", "n2", 4, onNode("n2")), slice("c", "shared", 4, onAllNodes)},
			all, 4, 3,
		},
		{
			"in a pool that spans nodes, those of the node count",
			[]*resourceapi.ResourceSlice{slice("a", "n1", 2, onNode("n1")), slice("b", "n1", 5, onNode("n2")), slice("c", "n1", 5, onAllNodes)},
			all, 2, 1,
		},
		{
			"all slices of the newest generation count, older ones do not",
			[]*resourceapi.ResourceSlice{
				slice("old", "n1", 9, onNode("n1")),
				slice("new1", "n1", 2, onNode("n1"), generation(2)),
				slice("new2", "n1", 1, onNode("n1"), generation(2), func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].Name = "other" }),
			},
			all, 3, 2,
		},
		{
			"devices that are not meant do not count",
			[]*resourceapi.ResourceSlice{slice("a", "n1", 4, onNode("n1"))},
			func(s *resourceapi.ResourceSlice) []bool { return []bool{false, true, true, false} },
			2, 1,
		},
		{
			"a device of another driver with the same name is another device",
			[]*resourceapi.ResourceSlice{slice("a", "n1", 2, onNode("n1"), ofDriver("nic.example.com"))},
			all, 2, 2,
		},
		{
			"a device for which the counters do not suffice is not free",
			migWorld(), all, 5, 3, // the whole is not, and quarter-0 is taken
		},
		{
			"of devices that exclude each other all are free until one is taken",
			func() []*resourceapi.ResourceSlice {
				world := migWorld()
				world[1].Spec.Devices = slices.DeleteFunc(world[1].Spec.Devices, func(d resourceapi.Device) bool { return d.Name == "quarter-0" })
				return world
			}(),
			all, 4, 4,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ledger := NewLedger(false)
			ledger.Start(state)
			total, free := NewInventory(tc.slices).Count("n1", ledger, tc.meant)
			if total != tc.total || free != tc.free {
				t.Errorf("got %d of %d devices free, want %d of %d", free, total, tc.free, tc.total)
			}
		})
	}
}

func TestPublishes(t *testing.T) {
	inventory := NewInventory([]*resourceapi.ResourceSlice{slice("a", "n1", 1, onNode("n1")), slice("b", "shared", 1, onAllNodes)})
	for node, want := range map[string]bool{"n1": true, "n2": false, "": false} {
		if got := inventory.Publishes(node); got != want {
			t.Errorf("node %q publishes devices by name: got %v, want %v", node, got, want)
		}
	}
}

// Whoever remembers a count with the version of the node has the right one, whatever
// plans take, withdraw and start from.
func TestCountsStayTheSameWhileTheVersionDoes(t *testing.T) {
	published := []*resourceapi.ResourceSlice{
		slice("a", "p1", 3, onNode("n1")), slice("b", "p2", 3, onNode("n1")), slice("c", "p3", 3, onNode("n2")),
	}
	all := func(s *resourceapi.ResourceSlice) []bool { return slices.Repeat([]bool{true}, len(s.Spec.Devices)) }
	rapid.Check(t, func(t *rapid.T) {
		serial := 0
		allocations := rapid.Custom(func(t *rapid.T) *resourceapi.AllocationResult {
			serial++
			pool, device := rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(t, "pool"), rapid.SampledFrom([]string{"dev-0", "dev-1", "dev-2"}).Draw(t, "device")
			if rapid.Bool().Draw(t, "share") {
				return allocation(result(pool, device, share(fmt.Sprintf("s%d", serial), map[string]string{"memory": "1Gi"})))
			}
			return allocation(result(pool, device))
		})
		inventory, ledger := NewInventory(published), NewLedger(true)
		var taken []*resourceapi.AllocationResult
		type known struct {
			version Version
			free    int
		}
		remembered := make(map[string]known)
		latest := inventory.Latest(ledger)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"start", "take", "release", "publish"}).Draw(t, "what") {
			case "publish":
				// Some slices are gone, others come again as other objects.
				var now []*resourceapi.ResourceSlice
				for _, s := range published {
					switch rapid.SampledFrom([]string{"same", "gone", "other"}).Draw(t, s.Name) {
					case "same":
						now = append(now, s)
					case "other":
						now = append(now, slice(s.Name, s.Spec.Pool.Name, rapid.IntRange(1, 3).Draw(t, "devices"), onNode(*s.Spec.NodeName)))
					}
				}
				inventory = inventory.With(now)
			case "start":
				before := NewLedger(true)
				for range rapid.IntRange(0, 3).Draw(t, "allocated") {
					before.Take(allocations.Draw(t, "before"))
				}
				ledger.Start(before.State())
				taken = nil
			case "take":
				taken = append(taken, allocations.Draw(t, "taken"))
				ledger.Take(taken[len(taken)-1])
			case "release":
				if len(taken) > 0 {
					ledger.Release(taken[len(taken)-1])
					taken = taken[:len(taken)-1]
				}
			}
			for _, node := range []string{"n1", "n2"} {
				version := inventory.Version(node, ledger)
				_, free := inventory.Count(node, ledger, all)
				if k, ok := remembered[node]; ok && k.version == version && k.free != free {
					t.Fatalf("%d devices of %s are free, and %d were at the same version", free, node, k.free)
				}
				if k, ok := remembered[node]; ok && k.version != version && inventory.Latest(ledger) == latest {
					t.Fatalf("the version of %s has changed, and the latest of all has not", node)
				}
				remembered[node] = known{version, free}
			}
			latest = inventory.Latest(ledger)
		}
	})
}

// An index that was made of another says the same as one made anew.
func TestIndexOfOtherSlices(t *testing.T) {
	all := func(s *resourceapi.ResourceSlice) []bool { return slices.Repeat([]bool{true}, len(s.Spec.Devices)) }
	byName := func(world []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
		return slices.SortedFunc(slices.Values(world), func(a, b *resourceapi.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	}
	nodes := []string{"n1", "n2", "n3"}
	rapid.Check(t, func(t *rapid.T) {
		publish := func(name string) *resourceapi.ResourceSlice {
			reach := onAllNodes
			if node := rapid.SampledFrom([]string{"n1", "n2", ""}).Draw(t, "node"); node != "" {
				reach = onNode(node)
			}
			return slice(name, rapid.SampledFrom([]string{"p1", "p2"}).Draw(t, "pool"), rapid.IntRange(0, 2).Draw(t, "devices"), reach, generation(rapid.Int64Range(1, 2).Draw(t, "generation")))
		}
		published := make(map[string]*resourceapi.ResourceSlice)
		ledger := NewLedger(true)
		var index *Inventory
		for step := range rapid.IntRange(1, 8).Draw(t, "steps") {
			for _, name := range []string{"a", "b", "c", "d"} {
				old := published[name]
				switch what := rapid.SampledFrom([]string{"leave", "leave", "again", "other", "gone"}).Draw(t, name); {
				case what == "gone":
					delete(published, name)
				case what == "other":
					published[name] = publish(name)
				case what == "again" && old != nil:
					published[name] = old.DeepCopy()
				}
			}
			list := slices.Collect(maps.Values(published))
			before := index
			if step == 0 {
				index = NewInventory(list)
			} else {
				index = index.With(list)
			}
			anew := NewInventory(list)
			for _, node := range nodes {
				if got, want := byName(index.World(node)), byName(anew.World(node)); !slices.Equal(got, want) {
					t.Fatalf("the world of %s has %d slices that are not the %d published", node, len(got), len(want))
				}
				got, _ := index.Count(node, ledger, all)
				if want, _ := anew.Count(node, ledger, all); got != want {
					t.Fatalf("%d devices of %s are counted, want %d", got, node, want)
				}
				if before != nil && before.Version(node, ledger) == index.Version(node, ledger) && !slices.Equal(byName(ofPools(before, node)), byName(ofPools(index, node))) {
					t.Fatalf("the slices of %s have changed, and the version has not", node)
				}
			}
			if got, want := index.Shared(all), anew.Shared(all); got != want {
				t.Fatalf("%d devices are shared, want %d", got, want)
			}
		}
	})
}

// ofPools are the slices of all pools that a node has by name.
func ofPools(inventory *Inventory, node string) []*resourceapi.ResourceSlice {
	var of []*resourceapi.ResourceSlice
	for _, pool := range inventory.poolsOf(node) {
		of = append(of, inventory.pools[pool]...)
	}
	return of
}
