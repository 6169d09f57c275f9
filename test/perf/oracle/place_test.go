// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"strings"
	"testing"

	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

const twoRacks = `
deviceSets:
  gpus:
    driver: gpu.nvidia.com
    deviceClasses: [gpu.nvidia.com]
    devices:
    - {name: "gpu-${i}", for: {i: 4}, attributes: {type: gpu}}
deviceClasses: {gpu.nvidia.com: {selectors: ["device.driver == 'gpu.nvidia.com'"]}}
nodeGroups:
- name: n${n}
  for: {n: 4}
  labels: {rack: "r${n / 2}"}
  allocatable: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 2}
  devices: [gpus]
  taken:
  - {when: "${n == 0}", deviceClass: gpu.nvidia.com, driver: gpu.nvidia.com, devices: [gpu-0, gpu-1, gpu-2]}
`

func place(t *testing.T, batches ...workload.Batch) ([]Place, error) {
	t.Helper()
	cluster, err := shapes.Parse("two-racks", []byte(twoRacks), nil)
	if err != nil {
		t.Fatal(err)
	}
	set := workload.Expand(batches, 1)
	return Placement(&set, cluster)
}

func TestPlacementGivesEachDeviceOnce(t *testing.T) {
	places, err := place(t, workload.Batch{Name: "g", Gangs: 13, Size: 1, GPUs: 1, By: workload.ByClaim}, workload.Batch{Name: "s", Pods: 8, CPU: "2"})
	if err != nil {
		t.Fatal(err)
	}
	ledger := journal.NewLedger(nil)
	for _, p := range places {
		for _, d := range p.Devices {
			ledger.Set(p.Pod.Name, map[string]int{p.Node + "/" + d: 1})
			if p.Node == "n0" && d != "gpu-3" {
				t.Errorf("%s has %s of n0, which is taken", p.Pod.Name, d)
			}
		}
	}
	if len(places) != 21 || ledger.Doubly() != 0 {
		t.Errorf("%d pods are placed, %v given away twice", len(places), ledger.Contested())
	}
}

func TestPlacementKeepsAGangInItsDomain(t *testing.T) {
	// 8 devices are free in rack 1 alone.
	places, err := place(t, workload.Batch{Name: "g", Gangs: 1, Size: 4, GPUs: 2, By: workload.ByClaim, Required: "rack"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if p.Node != "n2" && p.Node != "n3" {
			t.Errorf("%s is on %s, want rack r1", p.Pod.Name, p.Node)
		}
	}
	if len(places) != 4 {
		t.Errorf("%d pods are placed", len(places))
	}
}

func TestPlacementTriesTheNextDomainWithTheFirstGivenBack(t *testing.T) {
	// The first gang finds 5 of 6 in rack 0 and takes rack 1; the second gets rack 0 whole.
	places, err := place(t,
		workload.Batch{Name: "big", Gangs: 1, Size: 6, GPUs: 1, By: workload.ByClaim, Required: "rack"},
		workload.Batch{Name: "rest", Gangs: 1, Size: 5, GPUs: 1, By: workload.ByClaim, Required: "rack"})
	if err != nil || len(places) != 11 {
		t.Errorf("%d pods are placed, %v", len(places), err)
	}
}

func TestWhatDoesNotFitIsSaid(t *testing.T) {
	for want, batch := range map[string]workload.Batch{
		"gang g-0 does not fit: 13 of 14": {Name: "g", Gangs: 1, Size: 14, GPUs: 1, By: workload.ByClaim},
		"gang g-0 does not fit: 4 of 5":   {Name: "g", Gangs: 1, Size: 5, GPUs: 2, By: workload.ByPlugin},
		"8 of 9 do":                       {Name: "s", Pods: 9, CPU: "3"},
	} {
		if _, err := place(t, batch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	waits := workload.Batch{Name: "w", Gangs: 1, Size: 99, GPUs: 8, By: workload.ByClaim, Waits: true}
	if places, err := place(t, waits); err != nil || len(places) != 0 {
		t.Errorf("a gang that waits is placed: %v, %v", places, err)
	}
}
