// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"pgregory.net/rapid"
)

func adminAccess(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = new(true) }

// share makes the result one share of a device, with what it consumes.
func share(id string, consumed map[string]string) func(*resourceapi.DeviceRequestAllocationResult) {
	return func(r *resourceapi.DeviceRequestAllocationResult) {
		r.ShareID = new(types.UID(id))
		for name, quantity := range consumed {
			if r.ConsumedCapacity == nil {
				r.ConsumedCapacity = make(map[resourceapi.QualifiedName]resource.Quantity)
			}
			r.ConsumedCapacity[resourceapi.QualifiedName(name)] = resource.MustParse(quantity)
		}
	}
}

// contents is an AllocatedState that can be compared. A consumption of zero is
// none.
type contents struct {
	Devices, Shares map[string]bool
	Consumed        map[string]string
}

func contentsOf(state *structured.AllocatedState) contents {
	c := contents{Devices: map[string]bool{}, Shares: map[string]bool{}, Consumed: map[string]string{}}
	for id := range state.AllocatedDevices {
		c.Devices[id.String()] = true
	}
	for id := range state.AllocatedSharedDeviceIDs {
		c.Shares[id.String()] = true
	}
	for id, capacities := range state.AggregatedCapacity {
		for name, quantity := range capacities {
			if !quantity.IsZero() {
				c.Consumed[fmt.Sprintf("%s %s", id, name)] = quantity.String()
			}
		}
	}
	return c
}

func TestLedger(t *testing.T) {
	const dev, dev1 = gpuDriver + "/p/dev-0", gpuDriver + "/p/dev-1"
	memory := func(q string) map[string]string { return map[string]string{"memory": q} }
	for _, tc := range []struct {
		name    string
		sharing bool
		take    []*resourceapi.AllocationResult
		release []*resourceapi.AllocationResult
		want    contents
		taken   bool
	}{
		{name: "nothing", take: []*resourceapi.AllocationResult{nil, allocation()}},
		{
			name: "whole devices",
			take: []*resourceapi.AllocationResult{allocation(result("p", "dev-0"), result("p", "dev-1"))},
			want: contents{Devices: map[string]bool{dev: true, dev1: true}}, taken: true,
		},
		{
			name:    "of two allocations one is released",
			take:    []*resourceapi.AllocationResult{allocation(result("p", "dev-0")), allocation(result("p", "dev-1"))},
			release: []*resourceapi.AllocationResult{allocation(result("p", "dev-1"))},
			want:    contents{Devices: map[string]bool{dev: true}}, taken: true,
		},
		{
			name: "admin access takes nothing",
			take: []*resourceapi.AllocationResult{allocation(result("p", "dev-0", adminAccess), result("p", "dev-1"))},
			want: contents{Devices: map[string]bool{dev1: true}},
		},
		{
			name:    "admin access releases nothing",
			take:    []*resourceapi.AllocationResult{allocation(result("p", "dev-0"))},
			release: []*resourceapi.AllocationResult{allocation(result("p", "dev-0", adminAccess))},
			want:    contents{Devices: map[string]bool{dev: true}}, taken: true,
		},
		{
			name: "without sharing, a share takes the whole device",
			take: []*resourceapi.AllocationResult{allocation(result("p", "dev-0", share("s1", memory("1Gi"))))},
			want: contents{Devices: map[string]bool{dev: true}}, taken: true,
		},
		{
			name: "shares of one device add up", sharing: true,
			take: []*resourceapi.AllocationResult{
				allocation(result("p", "dev-0", share("s1", memory("1Gi")))),
				allocation(result("p", "dev-0", share("s2", memory("2Gi")))),
			},
			want: contents{
				Shares:   map[string]bool{dev + "/s1": true, dev + "/s2": true},
				Consumed: map[string]string{dev + " memory": "3Gi"},
			},
			taken: true,
		},
		{
			name: "one share of two is released", sharing: true,
			take: []*resourceapi.AllocationResult{
				allocation(result("p", "dev-0", share("s1", memory("1Gi")))),
				allocation(result("p", "dev-0", share("s2", memory("2Gi")))),
			},
			release: []*resourceapi.AllocationResult{allocation(result("p", "dev-0", share("s1", memory("1Gi"))))},
			want: contents{
				Shares:   map[string]bool{dev + "/s2": true},
				Consumed: map[string]string{dev + " memory": "2Gi"},
			},
			taken: true,
		},
		{
			name: "the last share leaves nothing", sharing: true,
			take:    []*resourceapi.AllocationResult{allocation(result("p", "dev-0", share("s1", memory("1Gi"))))},
			release: []*resourceapi.AllocationResult{allocation(result("p", "dev-0", share("s1", memory("1Gi"))))},
		},
		{
			name: "a share that takes no capacity", sharing: true,
			take: []*resourceapi.AllocationResult{
				allocation(result("p", "dev-0", share("s1", nil))),
				allocation(result("p", "dev-0", share("s2", nil))),
			},
			release: []*resourceapi.AllocationResult{allocation(result("p", "dev-0", share("s1", nil)))},
			want:    contents{Shares: map[string]bool{dev + "/s2": true}}, taken: true,
		},
		{
			name: "with sharing, a device without share is taken whole", sharing: true,
			take: []*resourceapi.AllocationResult{allocation(result("p", "dev-0"))},
			want: contents{Devices: map[string]bool{dev: true}}, taken: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			state := emptyState()
			ledger := NewLedger(tc.sharing)
			ledger.Start(state)
			for _, a := range tc.take {
				ledger.Take(a)
			}
			for _, a := range tc.release {
				ledger.Release(a)
			}
			want := contentsOf(emptyState())
			for into, from := range map[*map[string]bool]map[string]bool{&want.Devices: tc.want.Devices, &want.Shares: tc.want.Shares} {
				for id := range from {
					(*into)[id] = true
				}
			}
			for id, quantity := range tc.want.Consumed {
				want.Consumed[id] = quantity
			}
			if diff := cmp.Diff(want, contentsOf(ledger.State())); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			other := NewLedger(tc.sharing)
			other.Take(allocation(result("q", "dev-0"), result("q", "dev-1", share("s9", map[string]string{"memory": "1Gi"}))))
			other.Start(ledger.State())
			if diff := cmp.Diff(want, contentsOf(other.State())); diff != "" {
				t.Errorf("state of a ledger that starts anew from it (-want +got):\n%s", diff)
			}
			if other.Taken(deviceID("q", "dev-0")) || other.Taken(deviceID("q", "dev-1")) {
				t.Error("a ledger that starts anew still has what the plan before has taken")
			}
			for what, l := range map[string]*Ledger{"the ledger": ledger, "one that starts from its state": other} {
				if got := l.Taken(deviceID("p", "dev-0")); got != tc.taken {
					t.Errorf("%s says that dev-0 is taken: got %v, want %v", what, got, tc.taken)
				}
			}
		})
	}
}

// Whatever a plan takes and withdraws, the ledger is then what it was.
func TestReleaseUndoesTakeExactly(t *testing.T) {
	quantities := rapid.SampledFrom([]string{"1", "250m", "1Gi", "3"})
	rapid.Check(t, func(t *rapid.T) {
		serial := 0
		results := rapid.Custom(func(t *rapid.T) *resourceapi.AllocationResult {
			var drawn []resourceapi.DeviceRequestAllocationResult
			for range rapid.IntRange(0, 3).Draw(t, "results") {
				serial++
				switch kind := rapid.SampledFrom([]string{"whole", "admin", "share"}).Draw(t, "kind"); kind {
				case "whole":
					drawn = append(drawn, result("whole", fmt.Sprintf("dev-%d", serial)))
				case "admin":
					drawn = append(drawn, result("shared", "dev-0", adminAccess))
				case "share":
					consumed := map[string]string{"memory": quantities.Draw(t, "memory")}
					if rapid.Bool().Draw(t, "two capacities") {
						consumed["bandwidth"] = quantities.Draw(t, "bandwidth")
					}
					device := fmt.Sprintf("dev-%d", rapid.IntRange(0, 2).Draw(t, "device"))
					drawn = append(drawn, result("shared", device, share(fmt.Sprintf("s%d", serial), consumed)))
				}
			}
			return allocation(drawn...)
		})
		ledger := NewLedger(true)
		for range rapid.IntRange(0, 2).Draw(t, "allocations before the plan") {
			ledger.Take(results.Draw(t, "before"))
		}
		var taken []*resourceapi.AllocationResult
		states := []contents{contentsOf(ledger.State())}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				a := results.Draw(t, "allocation")
				ledger.Take(a)
				taken = append(taken, a)
				states = append(states, contentsOf(ledger.State()))
			},
			"release": func(t *rapid.T) {
				if len(taken) == 0 {
					t.Skip("nothing is taken")
				}
				ledger.Release(taken[len(taken)-1])
				taken, states = taken[:len(taken)-1], states[:len(states)-1]
			},
			"": func(t *rapid.T) {
				if diff := cmp.Diff(states[len(states)-1], contentsOf(ledger.State())); diff != "" {
					t.Fatalf("state after what was withdrawn (-want +got):\n%s", diff)
				}
			},
		})
	})
}
