// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"

	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/placement"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// refusal is why a gang cannot be placed now.
type refusal struct {
	// message is the reason, for a person.
	message string
	// nodes is the size of the cluster.
	nodes int
	// blockers are the plugins that refused members.
	blockers blockers
}

// podMessage is the message that the scheduler puts on the leader when its
// PreFilter gives the refusal as reason. The other members get the same.
func (r *refusal) podMessage(leader *v1.Pod) string {
	fitErr := framework.FitError{
		Pod:         leader,
		NumAllNodes: r.nodes,
		Diagnosis:   framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus(), PreFilterMsg: r.message},
	}
	return fitErr.Error()
}

// refusedClass returns the refusal of a floor member that cannot go on any node
// at all, such as one whose claim or volume does not exist.
func (w *world) refusedClass(key gang.Key, floor int) *refusal {
	for _, m := range w.members[:floor] {
		if m.class.refused == nil {
			continue
		}
		r := &refusal{
			message:  fmt.Sprintf("PodGang %s: pod %s of group %s: %s", key, m.pod.Name, m.class.group, m.class.refused.reason),
			nodes:    len(w.nodes),
			blockers: blockers{},
		}
		r.blockers.add(m.class.refused.plugin, m.pod)
		return r
	}
	return nil
}

// refusal turns a shortage into words.
func (w *world) refusal(key gang.Key, shortage *placement.Shortage) *refusal {
	c := w.classes[shortage.Class]
	r := &refusal{nodes: len(w.nodes), blockers: w.blockers(shortage)}
	room := fmt.Sprintf("there is room for %d", shortage.Placed)
	if shortage.Placed == 0 {
		room = "there is room for none"
	}
	if !shortage.Alone {
		room += " beside the rest of the gang"
	}
	r.message = fmt.Sprintf("PodGang %s", key)
	if shortage.Scope >= 0 {
		r.message += ": " + w.narrow(c, shortage, room)
	} else {
		if lacking := w.lacking(); lacking != "" {
			r.message += " needs " + lacking
		}
		r.message += fmt.Sprintf(": group %s needs %d %s (%s), %s", c.group, shortage.Wanted, plural(shortage.Wanted, "pod"), w.needsOf(c), room)
		r.message += ": " + w.reasons(c)
	}
	if shortage.Infeasible {
		r.message += fmt.Sprintf("; there is room only across %s, and RDMA does not work there", w.layout.terrain.top)
	}
	if shortage.Exhausted {
		r.message += fmt.Sprintf("; the search was cut short after %d placements", shortage.Tried)
	}
	return r
}

// blockers are the plugins whose events may help. Room on the nodes of every class
// may, whichever of them the search has looked at.
func (w *world) blockers(shortage *placement.Shortage) blockers {
	b := blockers{}
	for _, class := range w.classes {
		if !class.screened {
			continue
		}
		for _, plugins := range class.refusing() {
			b.add(plugins, class.pod)
		}
		if len(class.nodes) == 0 {
			continue
		}
		b.add(noderesources.Name, class.pod)
		if len(class.pod.Spec.ResourceClaims) > 0 || slices.ContainsFunc(w.room.columns, func(c column) bool { return isScalar(c.resource) }) {
			b.add(gangresources.Name, class.pod)
		}
	}
	if shortage.Scope >= 0 || shortage.Infeasible {
		b.add(Name, w.classes[shortage.Class].pod)
	}
	return b
}

// refusing returns the plugins that have refused a node for the class, those with a part
// in one refusal joined by commas.
func (c *class) refusing() []string {
	plugins := sets.New[string]()
	for n := range c.answers {
		if c.answers[n] != nil {
			plugins.Insert(c.answers[n].Plugin())
		}
	}
	for _, refused := range c.full {
		plugins.Insert(refused.plugin)
	}
	return sets.List(plugins)
}

// reasons counts the nodes by what they lack; the counts add up to the size of
// the cluster. The order does not depend on that of a map.
func (w *world) reasons(c *class) string {
	counts := make(map[string]int)
	for n := range w.nodes {
		counts[w.reasonOf(c, n)]++
	}
	if len(w.nodes) == 0 {
		return "the cluster has no nodes"
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s: %s", counts[reason], plural(counts[reason], "node"), reason)
	}
	return strings.Join(reasons, "; ")
}

// hasRoom is said of a node that can take a pod.
const hasRoom = "has room, and more is needed"

// reasonOf says why the class cannot use a node, or that it can.
func (w *world) reasonOf(c *class, n int) string {
	if refused, ok := c.filtered(n); ok {
		return refused.reason
	}
	if refused, ok := c.full[n]; ok {
		return refused.reason
	}
	if len(w.stock) > 0 {
		if short := w.room.short(c.requests, w.stock[n].Free, w.stock[n].Total); short.column >= 0 {
			return w.textOf(short)
		}
		if w.Count(c.index, n) == 0 {
			return w.lacksChoice(c, n)
		}
	}
	return hasRoom
}

// textOf says what a node is short of; nodes are often short of the same.
func (w *world) textOf(short shortfall) string {
	text, known := w.texts[short]
	if !known {
		text = w.room.text(short, w.session.HasClass)
		w.texts[short] = text
	}
	return text
}

// lacksChoice says of which alternatives a node has too little.
func (w *world) lacksChoice(c *class, n int) string {
	for _, choice := range c.demand.choices {
		var short []string
		for i := range choice {
			total, free := w.session.Supply(w.nodes[n].Node().Name, choice[i].want)
			if free >= choice[i].count {
				short = nil
				break
			}
			short = append(short, fmt.Sprintf("%d of %d %s free", free, total, choice[i].want.Class))
		}
		if len(short) > 0 {
			return "cannot allocate all claims, " + strings.Join(slices.Compact(short), " and ")
		}
	}
	return hasRoom
}

// reasonFull says what a node lacks that passes the filters. For devices it says
// how many of the class asked for are left, which the allocator does not.
func (w *world) reasonFull(c *class, n int, status *fwk.Status) string {
	deviceClass := w.firstDeviceClass(c.pod)
	if deviceClass == "" || status.Plugin() != gangresources.Name || !w.session.HasClass(deviceClass) {
		return status.Message()
	}
	total, free := w.session.Devices(w.nodes[n].Node().Name, deviceClass)
	if total == 0 {
		return "no " + deviceClass
	}
	return fmt.Sprintf("%s, %d of %d %s free", status.Message(), free, total, deviceClass)
}

// lacking says which devices the whole floor needs more of than are free on the
// nodes that its members may use; "" if that is not what it lacks.
func (w *world) lacking() string {
	members := make(map[*class]int)
	for _, m := range w.members {
		if m.floor {
			members[m.class]++
		}
	}
	needed := make(map[string]int)
	usable := make(map[string][]bool)
	for c, pods := range members {
		for deviceClass, count := range w.deviceCounts(c.pod) {
			needed[deviceClass] += pods * count
			if usable[deviceClass] == nil {
				usable[deviceClass] = make([]bool, len(w.nodes))
			}
			for _, n := range c.nodes {
				usable[deviceClass][n] = true
			}
		}
	}
	var lacking []string
	for _, deviceClass := range slices.Sorted(maps.Keys(needed)) {
		total, free := 0, 0
		tally := w.session.Tally(gangresources.Want{Class: deviceClass})
		for n, node := range w.nodes {
			if usable[deviceClass][n] {
				t, f := tally.Devices(node.Node().Name)
				total, free = total+t, free+f
			}
		}
		switch {
		case needed[deviceClass] <= free || !w.session.HasClass(deviceClass):
		case total == 0:
			lacking = append(lacking, fmt.Sprintf("%d %s, and there is none", needed[deviceClass], deviceClass))
		default:
			lacking = append(lacking, fmt.Sprintf("%d %s, of which %d of %d are free", needed[deviceClass], deviceClass, free, total))
		}
	}
	return strings.Join(lacking, " and ")
}

// deviceCounts returns how many devices of each class the claims of a pod ask
// for by number.
func (w *world) deviceCounts(pod *v1.Pod) map[string]int {
	counts := make(map[string]int)
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		spec := w.claimSpec(pod, entry)
		if spec == nil || entry.ResourceClaimName != nil {
			// A claim with a name may be shared, and is then needed once.
			continue
		}
		for _, request := range spec.Devices.Requests {
			if request.Exactly != nil && request.Exactly.AllocationMode == resourceapi.DeviceAllocationModeExactCount {
				counts[request.Exactly.DeviceClassName] += int(request.Exactly.Count)
			}
		}
	}
	return counts
}

// needsOf describes what one pod of the class asks for.
func (w *world) needsOf(c *class) string {
	var needs []string
	for i := range c.pod.Spec.ResourceClaims {
		entry := &c.pod.Spec.ResourceClaims[i]
		spec := w.claimSpec(c.pod, entry)
		if spec == nil {
			needs = append(needs, "claim "+entry.Name)
			continue
		}
		for _, request := range spec.Devices.Requests {
			switch {
			case request.Exactly != nil && request.Exactly.Count > 0:
				needs = append(needs, fmt.Sprintf("%d× %s", request.Exactly.Count, request.Exactly.DeviceClassName))
			case request.Exactly != nil:
				needs = append(needs, "all "+request.Exactly.DeviceClassName)
			case len(request.FirstAvailable) > 0:
				needs = append(needs, fmt.Sprintf("%d× %s or an alternative", max(1, request.FirstAvailable[0].Count), request.FirstAvailable[0].DeviceClassName))
			}
		}
		for _, constraint := range spec.Devices.Constraints {
			switch {
			case constraint.MatchAttribute != nil:
				needs = append(needs, "with equal "+string(*constraint.MatchAttribute))
			case constraint.DistinctAttribute != nil:
				needs = append(needs, "with different "+string(*constraint.DistinctAttribute))
			}
		}
	}
	requests := make(map[string]string)
	for i := range c.pod.Spec.Containers {
		for name, quantity := range c.pod.Spec.Containers[i].Resources.Requests {
			if sum, ok := requests[string(name)]; ok {
				requests[string(name)] = sum + "+" + quantity.String()
			} else {
				requests[string(name)] = quantity.String()
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		needs = append(needs, requests[name]+" "+name)
	}
	if len(needs) == 0 {
		return "no requests"
	}
	return strings.Join(needs, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
