// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// Place is where a pod goes.
type Place struct {
	Pod     workload.Pod
	Node    string
	Devices []string // of GPUDriver on that node
}

// GPUDriver is the driver of the devices that the oracle gives away.
const GPUDriver = "gpu.nvidia.com"

// node is what a node has left.
type node struct {
	name             string
	labels           map[string]string
	devices          []string
	gpus             int64 // by device plugin
	cpu, memory, pod int64
}

// Placement puts the pods of the set that are to be bound on the first nodes that have
// room, each gang that asks for it within one domain.
func Placement(set *workload.Set, cluster *shape.Shape) ([]Place, error) {
	nodes := inventory(cluster)
	var places []Place
	for i := range set.Gangs {
		g := &set.Gangs[i]
		if g.Waits {
			continue
		}
		placed, err := placeGang(g, nodes)
		if err != nil {
			return nil, err
		}
		places = append(places, placed...)
	}
	placed, ok := fill(set.Singles, nodes)
	if !ok {
		return nil, fmt.Errorf("the pods outside gangs do not fit: %d of %d do", len(placed), len(set.Singles))
	}
	return append(places, placed...), nil
}

func inventory(cluster *shape.Shape) []*node {
	byName := map[string]*node{}
	nodes := make([]*node, 0, len(cluster.Nodes))
	for _, n := range cluster.Nodes {
		free := n.Status.Allocatable
		entry := &node{
			name: n.Name, labels: n.Labels,
			cpu: free.Cpu().MilliValue(), memory: free.Memory().Value(), pod: free.Pods().Value(),
		}
		gpus := free[corev1.ResourceName(workload.GPUResource)]
		entry.gpus = gpus.Value()
		byName[n.Name] = entry
		nodes = append(nodes, entry)
	}
	taken := map[string]bool{}
	for _, t := range cluster.Taken {
		byName[t.Node].pod--
		for _, d := range t.Devices {
			taken[t.Node+"/"+d] = t.Driver == GPUDriver || taken[t.Node+"/"+d]
		}
	}
	for _, slice := range cluster.Slices {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if slice.Spec.Driver == GPUDriver && shape.IsGPU(GPUDriver, d) && !taken[*slice.Spec.NodeName+"/"+d.Name] {
				n := byName[*slice.Spec.NodeName]
				n.devices = append(n.devices, d.Name)
			}
		}
	}
	return nodes
}

func placeGang(g *workload.Gang, nodes []*node) ([]Place, error) {
	domains := [][]*node{nodes}
	if g.Required != "" {
		domains = split(nodes, g.Required)
	}
	best := 0
	for _, domain := range domains {
		placed, ok := fill(g.Pods, domain)
		if ok {
			return placed, nil
		}
		best = max(best, len(placed))
		undo(placed, domain)
	}
	return nil, fmt.Errorf("gang %s does not fit: %d of %d pods do", g.Name, best, len(g.Pods))
}

// split groups the nodes by the label, in the order of their first nodes.
func split(nodes []*node, key string) [][]*node {
	index := map[string]int{}
	var domains [][]*node
	for _, n := range nodes {
		value, labelled := n.labels[key]
		if !labelled {
			continue
		}
		i, seen := index[value]
		if !seen {
			i = len(domains)
			index[value] = i
			domains = append(domains, nil)
		}
		domains[i] = append(domains[i], n)
	}
	return domains
}

// fill places pods on the first nodes with room; false if one finds none.
func fill(pods []workload.Pod, nodes []*node) ([]Place, bool) {
	var placed []Place
	next := 0 // equal pods: no node before it has room
	for i, pod := range pods {
		if i > 0 && pod.Needs != pods[i-1].Needs {
			next = 0
		}
		for next < len(nodes) && !nodes[next].fits(pod.Needs) {
			next++
		}
		if next == len(nodes) {
			return placed, false
		}
		placed = append(placed, Place{Pod: pod, Node: nodes[next].name, Devices: nodes[next].take(pod.Needs)})
	}
	return placed, true
}

func undo(placed []Place, nodes []*node) {
	byName := map[string]*node{}
	for _, n := range nodes {
		byName[n.name] = n
	}
	for i := range placed {
		p := &placed[i]
		n := byName[p.Node]
		cpu, memory, gpus := amounts(p.Pod.Needs)
		n.cpu, n.memory, n.gpus, n.pod = n.cpu+cpu, n.memory+memory, n.gpus+gpus, n.pod+1
		n.devices = append(n.devices, p.Devices...)
	}
}

// amounts are the CPU in thousandths, the memory in bytes and the GPUs by device plugin.
func amounts(needs workload.Needs) (cpu, memory, gpus int64) {
	if needs.CPU != "" {
		q := resource.MustParse(needs.CPU)
		cpu = q.MilliValue()
	}
	if needs.Memory != "" {
		q := resource.MustParse(needs.Memory)
		memory = q.Value()
	}
	if needs.By == workload.ByPlugin {
		gpus = int64(needs.GPUs)
	}
	return cpu, memory, gpus
}

func devicesOf(needs workload.Needs) int {
	if needs.By == workload.ByClaim {
		return needs.GPUs
	}
	return 0
}

func (n *node) fits(needs workload.Needs) bool {
	cpu, memory, gpus := amounts(needs)
	return n.pod > 0 && n.cpu >= cpu && n.memory >= memory && n.gpus >= gpus && len(n.devices) >= devicesOf(needs)
}

func (n *node) take(needs workload.Needs) []string {
	cpu, memory, gpus := amounts(needs)
	n.cpu, n.memory, n.gpus, n.pod = n.cpu-cpu, n.memory-memory, n.gpus-gpus, n.pod-1
	count := devicesOf(needs)
	devices := n.devices[:count:count]
	n.devices = n.devices[count:]
	return devices
}
