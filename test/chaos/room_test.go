// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/test/observe"
)

// room is what the nodes have left, as the API server has it.
type room struct {
	nodes []nodeRoom
	// pinned is the node of a claim by name that is allocated.
	pinned map[string]int
	// unallocated is how many GPUs a claim by name needs that has none yet.
	unallocated map[string]int64
}

type nodeRoom struct{ gpus, cpu, pods int64 }

// need is what a pod needs.
type need struct {
	gpus, cpu int64
	// claim by name, "" for none.
	claim string
	// hopeless: a claim of the pod does not exist, or is being deleted.
	hopeless bool
}

// freeRoom counts what is left.
func (j *judge) freeRoom() *room {
	r := &room{pinned: map[string]int{}, unallocated: map[string]int64{}}
	index := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(j.nodes)) {
		node := j.nodes[name]
		if node.Spec.Unschedulable || node.DeletionTimestamp != nil {
			continue
		}
		index[name] = len(r.nodes)
		r.nodes = append(r.nodes, nodeRoom{gpus: 0, cpu: node.Status.Allocatable.Cpu().MilliValue(), pods: node.Status.Allocatable.Pods().Value()})
	}
	for _, slice := range j.slices {
		n, ok := index[nodeOfSlice(slice)]
		if !ok {
			continue
		}
		for i := range slice.Spec.Devices {
			if len(j.holders[slice.Spec.Pool.Name+"/"+slice.Spec.Devices[i].Name]) == 0 {
				r.nodes[n].gpus++
			}
		}
	}
	for _, pod := range j.pods {
		n, ok := index[pod.Spec.NodeName]
		if ok && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			r.nodes[n].cpu -= cpuOf(pod)
			r.nodes[n].pods--
		}
	}
	for name, claim := range j.claims {
		devices := devicesOf(claim)
		if len(devices) == 0 {
			r.unallocated[name] = claim.Spec.Devices.Requests[0].Exactly.Count
			continue
		}
		pool, _, _ := strings.Cut(devices[0], "/")
		if n, ok := index[pool]; ok {
			r.pinned[name] = n
		}
	}
	return r
}

func (r *room) gpus() int64 {
	sum := int64(0)
	for _, n := range r.nodes {
		sum += n.gpus
	}
	return sum
}

func cpuOf(pod *corev1.Pod) int64 {
	sum := int64(0)
	for i := range pod.Spec.Containers {
		sum += pod.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return sum
}

// needOf is what a pod needs that has nothing yet.
func (j *judge) needOf(pod *corev1.Pod) need {
	n := need{cpu: cpuOf(pod)}
	names := observe.ClaimNames(pod)
	n.hopeless = len(names) < len(pod.Spec.ResourceClaims)
	for _, entry := range pod.Spec.ResourceClaims {
		if entry.ResourceClaimName != nil {
			n.claim = *entry.ResourceClaimName
		}
	}
	for _, name := range names {
		claim := j.claims[name]
		if claim == nil || claim.DeletionTimestamp != nil {
			n.hopeless = true
		} else if name != n.claim {
			n.gpus += claim.Spec.Devices.Requests[0].Exactly.Count
		}
	}
	return n
}

// searchLimit bounds the search of fits; what it does not find then counts as not
// fitting.
const searchLimit = 100000

// fits reports whether there is room for all at the same time.
func (r *room) fits(needs []need) bool {
	needs = slices.Clone(needs)
	slices.SortStableFunc(needs, func(a, b need) int { return cmp.Or(cmp.Compare(b.gpus, a.gpus), cmp.Compare(b.cpu, a.cpu)) })
	// Nodes with the same room are alike, unless a claim ties pods to one of them.
	alike := !slices.ContainsFunc(needs, func(n need) bool { return n.claim != "" })
	tries := 0
	pinned := maps.Clone(r.pinned)
	var place func(rest []need) bool
	place = func(rest []need) bool {
		if len(rest) == 0 {
			return true
		}
		first := rest[0]
		if first.hopeless {
			return false
		}
		pin, isPinned := pinned[first.claim]
		isPinned = isPinned && first.claim != ""
		for n := range r.nodes {
			gpus := first.gpus
			if isPinned && n != pin {
				continue
			}
			if first.claim != "" && !isPinned {
				gpus += r.unallocated[first.claim]
			}
			node := &r.nodes[n]
			if alike && slices.Contains(r.nodes[:n], *node) || node.gpus < gpus || node.cpu < first.cpu || node.pods < 1 {
				continue
			}
			if tries++; tries > searchLimit {
				return false
			}
			node.gpus, node.cpu, node.pods = node.gpus-gpus, node.cpu-first.cpu, node.pods-1
			if first.claim != "" && !isPinned {
				pinned[first.claim] = n
			}
			found := place(rest[1:])
			node.gpus, node.cpu, node.pods = node.gpus+gpus, node.cpu+first.cpu, node.pods+1
			if first.claim != "" && !isPinned {
				delete(pinned, first.claim)
			}
			if found {
				return true
			}
		}
		return false
	}
	return place(needs)
}
