// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"
)

// Every data file can be read, and its cluster generated, small.
func TestAllWorkloadsCanBeRead(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			w, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			cluster, err := w.Cluster(0.02)
			if err != nil {
				t.Fatal(err)
			}
			if len(cluster.Nodes) == 0 {
				t.Error("the cluster has no nodes")
			}
			if w.Description == "" {
				t.Error("there is no description")
			}
		})
	}
}

// The sizes that the comparison names, taken from the data files.
func TestWorkloadsHaveTheirSizes(t *testing.T) {
	for name, want := range map[string]struct {
		parameter         string
		size, gangs, pods int
	}{
		"dra-500":        {"nodes", 500, 14, 896},
		"dra-5000":       {"nodes", 5000, 14, 896},
		"dp-500":         {"nodes", 500, 14, 896},
		"dra-fill-empty": {"nodes", 500, 500, 4000},
		"dra-fill-half":  {"nodes", 500, 250, 2000},
		"gang-1000x3":    {"nodes", 5000, 1000, 3000},
		"gang-3x1000":    {"nodes", 5000, 3, 3000},
		"tas-750x4":      {"nodes", 5000, 750, 3000},
		"tas-3x1000":     {"nodes", 5000, 3, 3000},
		"topology-512":   {"nodes", 512, 1, 512},
		"nvl72":          {"racks", 16, 16, 288},
		"plain":          {"nodes", 500, 0, 3000},
	} {
		w, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		set := Expand(w.Load, 1)
		if w.Scaled[want.parameter] != want.size || len(set.Gangs) != want.gangs || len(set.Pods()) != want.pods {
			t.Errorf("%s: %v, %d gangs, %d pods; want %v", name, w.Scaled, len(set.Gangs), len(set.Pods()), want)
		}
	}
}

func TestScale(t *testing.T) {
	set := Expand([]Batch{
		{Name: "g", Gangs: 14, Size: 64}, {Name: "big", Gangs: 3, Size: 1000, ScaleSize: true},
		{Name: "w", Gangs: 1, Size: 2, Waits: true}, {Name: "s", Pods: 30},
	}, 0.1)
	if got := len(set.Gangs); got != 1+3+1 {
		t.Errorf("%d gangs, want 5", got)
	}
	if got := len(set.Gangs[1].Pods); got != 100 {
		t.Errorf("a gang of 1,000 pods is scaled to %d, want 100", got)
	}
	if all, bind := len(set.Pods()), set.ToBind(); all != 64+300+2+3 || bind != 64+300+3 {
		t.Errorf("%d pods of which %d are to be bound, want 369 and 367", all, bind)
	}
}

func TestBadWorkloadsAreRefused(t *testing.T) {
	const head = "shape: gpu8\ntimeout: 1s\n"
	for content, want := range map[string]string{
		"timeout: 1s\nload: [{name: a, pods: 1}]": "shape",
		"shape: gpu8\nload: [{name: a, pods: 1}]": "timeout",
		head:                          "load is needed",
		head + "loads: []":            "unknown field",
		head + "load: [{pods: 1}]":    "name is needed",
		head + "load: [{name: a}]":    `batch "a"`,
		head + "kind: race\nload: []": `unknown kind "race"`,
		head + "kind: churn":          "churn is to be given",
		head + "load: [{name: a, pods: 1, gpus: 1}]":   "by is to be",
		head + "load: [{name: a, pods: 1, cpu: many}]": "many",
		head + "load: [{name: a, pods: 1, gangs: 1}]":  "either pods",
	} {
		_, err := parse("test", []byte(content))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", content, err, want)
		}
	}
}

func TestPodAsksForItsGPUs(t *testing.T) {
	byClaim := Pod{Name: "a", Gang: "g", Needs: Needs{GPUs: 4, By: ByClaim, CPU: "1"}}
	pod := byClaim.Object()
	if got := *pod.Spec.ResourceClaims[0].ResourceClaimTemplateName; got != "gpu-4" || pod.Labels[GangLabel] != "g" {
		t.Errorf("got template %s, labels %v", got, pod.Labels)
	}
	if got := Template(4).Spec.Spec.Devices.Requests[0].Exactly.Count; got != 4 {
		t.Errorf("the template asks for %d", got)
	}
	byPlugin := Pod{Name: "a", Needs: Needs{GPUs: 4, By: ByPlugin}}
	pod = byPlugin.Object()
	if got := pod.Spec.Containers[0].Resources.Limits[GPUResource]; got.Value() != 4 || len(pod.Spec.ResourceClaims) > 0 {
		t.Errorf("got %s and claims %v", got.String(), pod.Spec.ResourceClaims)
	}
}
