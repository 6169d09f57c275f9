// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// oneSet is a valid file around a device set, for tests of devices.
const oneSet = `deviceClasses:
  c: {}
deviceSets:
  s:
    driver: gpu.example.com
    deviceClasses: [c]
%s
nodeGroups:
- name: n-${i}
  for: {i: 2}
  devices: [s]
`

func load(text string, opts LoadOptions) (*Shape, error) {
	return Load("test", Document{Name: "test.yaml", Content: []byte(text)}, opts)
}

func mustLoad(t *testing.T, text string, opts LoadOptions) *Shape {
	t.Helper()
	s, err := load(text, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFaultsAreReportedWithFileLineAndField(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
	}{
		{"not YAML", "nodeGroups:\n- name: a: b\n", "test.yaml:2: mapping values are not allowed"},
		{"empty", "", "test.yaml:1: the file is empty"},
		{"unknown field", "nodeGroups:\n- name: a\n  lables: {}\n", "test.yaml:3: nodeGroups[0].lables: unknown field"},
		{"unknown field at the top", "nodes: []\n", "test.yaml:1: nodes: unknown field"},
		{"wrong kind", "nodeGroups: 3\n", `test.yaml:1: nodeGroups: expected a list, found "3"`},
		{"key twice", "nodeGroups:\n- name: a\n  labels:\n    x: 1\n    x: 2\n", "test.yaml:5: nodeGroups[0].labels.x: the key is given twice"},
		{"no name", "nodeGroups:\n- for: {n: 1}\n", "test.yaml:2: nodeGroups[0]: a name is needed"},
		{"bad node name", "nodeGroups:\n- name: A_b\n", `test.yaml:2: nodeGroups[0].name: "A_b" cannot be a node's name`},
		{"node twice", "nodeGroups:\n- name: a\n- name: a\n", `test.yaml:3: nodeGroups[1].name: a node named "a" exists already (from line 2)`},
		{"bad label key", "nodeGroups:\n- name: a\n  labels:\n    a/b/c: x\n", `test.yaml:4: nodeGroups[0].labels["a/b/c"]: "a/b/c" is not a valid key`},
		{"bad label value", "nodeGroups:\n- name: a\n  labels:\n    rack: a b\n", `test.yaml:4: nodeGroups[0].labels.rack: "a b" is not a valid value`},
		{"bad quantity", "nodeGroups:\n- name: a\n  allocatable:\n    cpu: many\n", `test.yaml:4: nodeGroups[0].allocatable.cpu: "many" is not a quantity`},
		{"negative quantity", "nodeGroups:\n- name: a\n  allocatable: {cpu: -1}\n", `test.yaml:3: nodeGroups[0].allocatable.cpu: "-1" is negative`},
		{"bad taint", "nodeGroups:\n- name: a\n  taints:\n  - {key: k, effect: Never}\n", `test.yaml:4: nodeGroups[0].taints[0]: effect "Never" is not one of`},
		{"bad count", "nodeGroups:\n- name: a-${n}\n  for: {n: many}\n", "test.yaml:3: nodeGroups[0].for.n: expected a count or a list, found many"},
		{"negative count", "nodeGroups:\n- name: a-${n}\n  for: {n: -1}\n", "test.yaml:3: nodeGroups[0].for.n: -1 is not a count"},
		{"bad expression", "nodeGroups:\n- name: a-${n +}\n", "test.yaml:2: nodeGroups[0].name: ${n +} is not a valid expression"},
		{"open expression", "nodeGroups:\n- name: a-${n\n", "test.yaml:2: nodeGroups[0].name: no closing }"},
		{"unknown name", "nodeGroups:\n- name: a-${m}\n  for: {n: 1}\n", "test.yaml:2: nodeGroups[0].name: ${m}: nothing is named m here"},
		{"division by zero", "nodeGroups:\n- name: a-${n / 0}\n  for: {n: 1}\n", "test.yaml:2: nodeGroups[0].name: ${n / 0}: "},
		{"fraction", "nodeGroups:\n- name: a\n  allocatable: {cpu: 1.5}\n", `test.yaml:3: nodeGroups[0].allocatable.cpu: "1.5" would be read as float`},
		{"unknown machine", "nodeGroups:\n- name: a\n  machine: dgx\n", `test.yaml:3: nodeGroups[0].machine: no machine is named "dgx"`},
		{"unknown device set", "nodeGroups:\n- name: a\n  devices: [x]\n", `test.yaml:3: nodeGroups[0].devices[0]: no device set is named "x"`},
		{"unknown class", "deviceSets:\n  s: {driver: d, deviceClasses: [c], devices: [{name: x}]}\nnodeGroups:\n- {name: a, devices: [s]}\n", `test.yaml:2: deviceSets.s: no DeviceClass is named "c"`},
		{"no driver", "deviceSets:\n  s: {devices: [{name: x}]}\n", "test.yaml:2: deviceSets.s: driver is needed"},
		{"no devices", "deviceSets:\n  s: {driver: d}\n", "test.yaml:2: deviceSets.s: devices or slices are needed"},
		{"bad order", "deviceSets:\n  s: {driver: d, order: up, devices: [{name: x}]}\n", `test.yaml:2: deviceSets.s.order: "up" is not one of listed, name, random`},
		{"device twice", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu\n      for: {i: 2}"), `test.yaml:8: deviceSets.s.devices[0].name: the pool has a device "gpu" already`},
		{"bad device name", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu.0"), `test.yaml:8: deviceSets.s.devices[0].name: "gpu.0" cannot be a device's name`},
		{"too many devices", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu-${i}\n      for: {i: 129}"), "test.yaml:4: deviceSets.s: the slice of node n-0 would have 129 devices; the API allows 128"},
		{"too many devices with taints", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu-${i}\n      for: {i: 65}\n      taints: [{key: k, effect: None}]"), "the slice of node n-0 would have 65 devices; the API allows 64"},
		{"bad attribute name", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu\n      attributes:\n        a-b: 1"), `test.yaml:10: deviceSets.s.devices[0].attributes.a-b: "a-b" is not an attribute name`},
		{"bad version", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu\n      attributes:\n        v: {version: v1}"), `test.yaml:10: deviceSets.s.devices[0].attributes.v: "v1" is not a semantic version`},
		{"long attribute", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu\n      attributes:\n        v: "+strings.Repeat("x", 65)), "is longer than 64 characters"},
		{"mixed list", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu\n      attributes:\n        v: [1, a]"), "a list attribute needs values, all of one type"},
		{"too many attributes", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu\n      attributes:\n"+manyAttributes(33)), "device gpu has 33 attributes and capacities; the API allows 32"},
		{"unknown counter set", fmt.Sprintf(oneSet, "    devices:\n    - name: gpu\n      consumesCounters: [{counterSet: c}]"), `test.yaml:9: deviceSets.s.devices[0].consumesCounters[0].counterSet: no counter set "c"`},
		{"unknown counter", fmt.Sprintf(oneSet, "    slices:\n    - sharedCounters: [{name: c, counters: {a: 1}}]\n    - devices:\n      - name: gpu\n        consumesCounters: [{counterSet: c, counters: {b: 1}}]"), `counter set c has no counter "b"; it has a`},
		{"counters and devices in one slice", fmt.Sprintf(oneSet, "    slices:\n    - sharedCounters: [{name: c, counters: {a: 1}}]\n      devices: [{name: gpu}]"), "a slice holds either sharedCounters or devices"},
		{"override of nothing", "nodeGroups:\n- name: a\noverrides:\n- nodes: b\n", `test.yaml:4: overrides[0].nodes: "b" matches no node`},
		{"extends nothing", "extends: zz\n", "test.yaml:1: extends: no shape can be extended here"},
		{"taken of no driver", "nodeGroups:\n- name: a\n  taken:\n  - {deviceClass: c, driver: d, devices: [x]}\n", `test.yaml:4: nodeGroups[0].taken[0]: node a has no devices of driver "d"`},
		{"not a condition", "nodeGroups:\n- name: a\n  unschedulable: maybe\n", "test.yaml:3: nodeGroups[0].unschedulable: expected true or false, found maybe"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(tc.text, LoadOptions{})
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			var fault *Error
			if !errors.As(err, &fault) {
				t.Errorf("%T is not an *Error", err)
			}
		})
	}
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "        a%d: 1\n", i)
	}
	return strings.TrimRight(b.String(), "\n")
}

func TestAllFaultsOfAFileAreReportedTogether(t *testing.T) {
	_, err := load("nodeGroups:\n- name: A\n- name: B\n", LoadOptions{})
	if err == nil || !strings.Contains(err.Error(), "test.yaml:2:") || !strings.Contains(err.Error(), "test.yaml:3:") {
		t.Errorf("got %v, want a fault for line 2 and one for line 3", err)
	}
}

func TestLoopsRunFirstVariableOutermostAndLaterCountsMayUseIt(t *testing.T) {
	s := mustLoad(t, "nodeGroups:\n- name: ${r}-${n}\n  for: {r: [a, b], n: \"${r == 'a' ? 2 : 1}\"}\n", LoadOptions{})
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	if diff := cmp.Diff([]string{"a-0", "a-1", "b-0"}, names); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
}

func TestNodeHasMachineThenGroupThenOverride(t *testing.T) {
	s := mustLoad(t, `
machines:
  m:
    arch: arm64
    allocatable: {cpu: 8, nvidia.com/gpu: 4}
    labels: {a: machine, b: machine, c: machine}
    taints: [{key: t1, effect: NoSchedule}]
nodeGroups:
- name: n
  machine: m
  allocatable: {cpu: 6}
  labels: {b: group, c: group, d: "${node}-${1 + 1}", e: "${null}"}
  taints: [{key: t2, effect: NoExecute}, {key: t3, effect: NoExecute, when: "${1 > 2}"}]
overrides:
- nodes: n
  labels: {c: override, a: null}
  unschedulable: true
`, LoadOptions{})
	n := s.Nodes[0]
	wantLabels := map[string]string{
		corev1.LabelHostname: "n", corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "linux",
		"b": "group", "c": "override", "d": "n-2",
	}
	if diff := cmp.Diff(wantLabels, n.Labels); diff != "" {
		t.Errorf("labels (-want, +got)\n%s", diff)
	}
	if n.Status.Allocatable.Cpu().String() != "6" || n.Status.Allocatable.Pods().Value() != 110 || n.Status.Allocatable["nvidia.com/gpu"] != n.Status.Capacity["nvidia.com/gpu"] {
		t.Errorf("allocatable %v", n.Status.Allocatable)
	}
	wantTaints := []corev1.Taint{{Key: "t1", Effect: corev1.TaintEffectNoSchedule}, {Key: "t2", Effect: corev1.TaintEffectNoExecute}}
	if diff := cmp.Diff(wantTaints, n.Spec.Taints); diff != "" {
		t.Errorf("taints (-want, +got)\n%s", diff)
	}
	if !n.Spec.Unschedulable || n.Status.NodeInfo.Architecture != "arm64" {
		t.Errorf("unschedulable %t, architecture %s", n.Spec.Unschedulable, n.Status.NodeInfo.Architecture)
	}
}

func TestAttributeTypesFollowTheValue(t *testing.T) {
	s := mustLoad(t, fmt.Sprintf(oneSet, `    devices:
    - name: gpu
      attributes:
        text: abc
        mixed: n${i}
        number: 7
        quoted: "7"
        computed: ${3 + 4}
        flag: true
        version: {version: 1.2.3}
        example.com/list: [1, 2]
        gone: ${null}
      capacity: {memory: 80Gi, gone: "${null}"}`), LoadOptions{})
	str := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
	num := func(n int64) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{IntValue: &n} }
	yes, version := true, "1.2.3"
	want := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"text": str("abc"), "mixed": str("n0"), "number": num(7), "quoted": str("7"), "computed": num(7),
		"flag": {BoolValue: &yes}, "version": {VersionValue: &version}, "example.com/list": {IntValues: []int64{1, 2}},
	}
	device := s.Slices[0].Spec.Devices[0]
	if diff := cmp.Diff(want, device.Attributes); diff != "" {
		t.Errorf("attributes (-want, +got)\n%s", diff)
	}
	memory := device.Capacity["memory"].Value
	if len(device.Capacity) != 1 || memory.String() != "80Gi" {
		t.Errorf("capacity %v", device.Capacity)
	}
}

func TestOnePoolForEachDriverOfANode(t *testing.T) {
	s := mustLoad(t, `
deviceSets:
  one: {driver: a.example.com, devices: [{name: x}]}
  two: {driver: a.example.com, slices: [{devices: [{name: y}]}, {devices: [{name: z}]}]}
  other: {driver: b.example.com, devices: [{name: x}]}
nodeGroups:
- {name: n, devices: [one, two, other, "${1 > 2 ? 'one' : ''}"]}
`, LoadOptions{})
	if len(s.Slices) != 4 {
		t.Fatalf("%d slices, want 4", len(s.Slices))
	}
	for i, want := range []struct {
		driver string
		count  int64
	}{{"a.example.com", 3}, {"a.example.com", 3}, {"a.example.com", 3}, {"b.example.com", 1}} {
		spec := s.Slices[i].Spec
		if spec.Driver != want.driver || spec.Pool.ResourceSliceCount != want.count || spec.Pool.Name != "n" || *spec.NodeName != "n" {
			t.Errorf("slice %d: driver %s, pool %+v, node %s", i, spec.Driver, spec.Pool, *spec.NodeName)
		}
	}
}

func TestRandomOrderDependsOnSeedAndNodeOnly(t *testing.T) {
	text := func(seed int) string {
		return fmt.Sprintf("seed: %d\n", seed) + fmt.Sprintf(oneSet, "    order: random\n    devices:\n    - name: gpu-${i}\n      for: {i: 8}")
	}
	order := func(s *Shape, slice int) (names string) {
		for _, d := range s.Slices[slice].Spec.Devices {
			names += d.Name[len("gpu-"):]
		}
		return names
	}
	a, again, b := mustLoad(t, text(1), LoadOptions{}), mustLoad(t, text(1), LoadOptions{}), mustLoad(t, text(2), LoadOptions{})
	if order(a, 0) != order(again, 0) {
		t.Errorf("%s, then %s, from the same file", order(a, 0), order(again, 0))
	}
	if order(a, 0) == order(b, 0) {
		t.Errorf("two seeds, one order %s", order(a, 0))
	}
	if order(a, 0) == order(a, 1) {
		t.Errorf("two nodes, one order %s", order(a, 0))
	}
	if order(a, 0) == "01234567" {
		t.Error("not shuffled")
	}
}

func TestParameters(t *testing.T) {
	const text = "parameters: {count: 2, kind: x, on: false}\nnodeGroups:\n- name: ${kind}-${n}\n  for: {n: \"${count}\"}\n  when: ${!on}\n"
	for _, tc := range []struct {
		name  string
		given map[string]string
		nodes int
		err   string
	}{
		{"defaults", nil, 2, ""},
		{"a number", map[string]string{"count": "5"}, 5, ""},
		{"a string", map[string]string{"kind": "y"}, 2, ""},
		{"a condition", map[string]string{"on": "true"}, 0, ""},
		{"not a number", map[string]string{"count": "x"}, 0, `test.yaml:1: parameters.count: cannot be set to "x": the default is 2`},
		{"unknown", map[string]string{"racks": "1"}, 0, `the shape has no parameter "racks"; it has count, kind, on`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := load(text, LoadOptions{Parameters: tc.given})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Nodes) != tc.nodes {
				t.Errorf("%d nodes, want %d", len(s.Nodes), tc.nodes)
			}
		})
	}
}

func TestExtendsAddsToItsBase(t *testing.T) {
	base := func(name string) (Document, error) {
		if name != "base" {
			return Document{}, errors.New("no such shape")
		}
		return Document{Name: "base.yaml", Content: []byte("description: base\nparameters: {n: 1, m: 1}\nnodeGroups:\n- name: a-${i}\n  for: {i: \"${n}\"}\n")}, nil
	}
	s := mustLoad(t, "extends: base\nparameters: {n: 2}\nnodeGroups:\n- name: b\noverrides:\n- {nodes: a-0, unschedulable: true}\n", LoadOptions{Base: base})
	if len(s.Nodes) != 3 || !s.Nodes[0].Spec.Unschedulable || s.Nodes[1].Spec.Unschedulable || s.Description != "base" {
		t.Errorf("%d nodes, %q", len(s.Nodes), s.Description)
	}
	_, err := load("extends: base\nparameters: {n: 0}\noverrides:\n- nodes: a-0\n", LoadOptions{Base: base})
	if err == nil || !strings.HasPrefix(err.Error(), "test.yaml:4: overrides[0].nodes") {
		t.Errorf("got %v, want a fault in line 4 of test.yaml", err)
	}
	loop := func(string) (Document, error) { return Document{Name: "l.yaml", Content: []byte("extends: l\n")}, nil }
	if _, err := load("extends: l\n", LoadOptions{Base: loop}); err == nil || !strings.Contains(err.Error(), "extend each other") {
		t.Errorf("got %v for a shape that extends itself", err)
	}
}

func TestTakenNamesDevicesThatExist(t *testing.T) {
	text := fmt.Sprintf(oneSet, "    devices:\n    - name: gpu-${i}\n      for: {i: 2}") +
		"  taken:\n  - {deviceClass: c, driver: gpu.example.com, devices: [gpu-1], when: \"${i == 1}\"}\n"
	s := mustLoad(t, text, LoadOptions{})
	want := []Taken{{Name: "n-1-taken-0", Node: "n-1", DeviceClass: "c", Driver: "gpu.example.com", Devices: []string{"gpu-1"}}}
	if diff := cmp.Diff(want, s.Taken); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
	_, err := load(strings.Replace(text, "[gpu-1]", "[gpu-2]", 1), LoadOptions{})
	if err == nil || !strings.Contains(err.Error(), `node n-1 has no device "gpu-2"`) {
		t.Errorf("got %v", err)
	}
}
