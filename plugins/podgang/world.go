// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/placement"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// world is the cluster as one plan sees it: the snapshot of the leader's
// scheduling cycle with the members placed so far. It implements
// placement.Cluster with the filters of the profile and the devices of a
// gangresources.Session.
type world struct {
	pl      *Plugin
	ctx     context.Context
	session *gangresources.Session

	// nodes is the snapshot. placed holds a copy of each node that has got a
	// member, by index.
	nodes  []fwk.NodeInfo
	placed map[int]fwk.NodeInfo

	classes   []*class
	classOf   map[string]*class
	members   []*planned
	interacts bool
	// claims is set when a member has claims.
	claims bool
	// named are the claims that members use by name.
	named map[string]bool

	// err is the first error that ends the plan.
	err error
}

// class is a set of members with the same needs.
type class struct {
	index int
	group string
	// pod stands for all members of the class.
	pod *v1.Pod
	// state is the cycle state of the profile's filters for the class.
	state fwk.CycleState
	// refused is set when PreFilter refuses the class on all nodes.
	refused *nodeRefusal
	// nodes are the nodes that pass the filters, in the order of preference.
	nodes []int
	// filtered holds the refusals before anything was placed, full the last
	// refusals since, by node.
	filtered, full map[int]nodeRefusal
}

// nodeRefusal is why a class cannot use a node. Several plugins may have a part
// in it; their names are joined by commas.
type nodeRefusal struct {
	plugin, reason string
}

// planned is a member and where it has been placed.
type planned struct {
	pod   *v1.Pod
	class *class
	floor bool
	// allocation is the last one made for the member.
	allocation *gangresources.Allocation
}

func (pl *Plugin) newWorld(ctx context.Context) (*world, error) {
	nodes, err := pl.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list the nodes of the snapshot: %w", err)
	}
	session, err := pl.resources.NewSession(ctx, int(pl.args.SearchBudget))
	if err != nil {
		return nil, err
	}
	return &world{
		pl:      pl,
		ctx:     ctx,
		session: session,
		nodes:   nodes,
		placed:  make(map[int]fwk.NodeInfo),
		classOf: make(map[string]*class),
		named:   make(map[string]bool),
	}, nil
}

// addMember files a member under its class.
func (w *world) addMember(group string, pod *v1.Pod, floor bool) error {
	w.claims = w.claims || len(pod.Spec.ResourceClaims) > 0
	w.noteSharing(pod)
	key, err := classKey(group, pod, w.claim)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	c := w.classOf[key]
	if c == nil {
		c = &class{
			index: len(w.classes), group: group, pod: pod,
			filtered: make(map[int]nodeRefusal), full: make(map[int]nodeRefusal),
		}
		w.classOf[key] = c
		w.classes = append(w.classes, c)
		w.interacts = w.interacts || interacts(pod)
	}
	w.members = append(w.members, &planned{pod: pod, class: c, floor: floor})
	return nil
}

// noteSharing notes that members interact when several use one claim: the first
// that is placed confines the others to where the claim's devices are.
func (w *world) noteSharing(pod *v1.Pod) {
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			w.interacts = w.interacts || w.named[*name]
			w.named[*name] = true
		}
	}
}

// claim returns the claim behind a pod's entry, nil if it is not known.
func (w *world) claim(pod *v1.Pod, entry *v1.PodResourceClaim) *resourceapi.ResourceClaim {
	name, _, err := resourceclaim.Name(pod, entry)
	if err != nil || name == nil {
		return nil
	}
	claim, err := w.pl.handle.SharedDRAManager().ResourceClaims().Get(pod.Namespace, *name)
	if err != nil {
		return nil
	}
	return claim
}

// claimSpec returns the content of the claim behind a pod's entry.
func (w *world) claimSpec(pod *v1.Pod, entry *v1.PodResourceClaim) *resourceapi.ResourceClaimSpec {
	if claim := w.claim(pod, entry); claim != nil {
		return &claim.Spec
	}
	return nil
}

// screen runs the profile's filters for the class on every node once.
func (w *world) screen(ctx context.Context, c *class) error {
	c.state = framework.NewCycleState()
	gangresources.MarkPlanning(c.state)
	result, status, narrowing := w.pl.handle.(profile).RunPreFilterPlugins(ctx, c.state, c.pod)
	narrowedBy := strings.Join(sets.List(narrowing), ",")
	switch {
	case status.IsSuccess():
	case status.IsRejected():
		c.refused = &nodeRefusal{plugin: cmp.Or(status.Plugin(), narrowedBy), reason: status.Message()}
		return nil
	default:
		return status.AsError()
	}
	statuses := make([]*fwk.Status, len(w.nodes))
	w.pl.handle.Parallelizer().Until(ctx, len(w.nodes), func(n int) {
		if !result.AllNodes() && !result.NodeNames.Has(w.nodes[n].Node().Name) {
			statuses[n] = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy plugin(s) "+narrowedBy).WithPlugin(narrowedBy)
			return
		}
		statuses[n] = w.pl.handle.RunFilterPluginsWithNominatedPods(ctx, c.state, c.pod, w.nodes[n])
	}, Name)
	for n, status := range statuses {
		switch {
		case status.IsSuccess():
			c.nodes = append(c.nodes, n)
		case status.IsRejected() && interacts(c.pod) && dependsOnPods(status.Plugin()):
			// Once others of the gang are placed, the node may do.
			c.nodes = append(c.nodes, n)
		case status.IsRejected():
			c.filtered[n] = nodeRefusal{plugin: status.Plugin(), reason: status.Message()}
		default:
			return status.AsError()
		}
	}
	w.order(c)
	return nil
}

// order sorts the nodes of a class: members that need devices go where fewest
// are free, so that large holes stay whole; members that need none go where
// there are none to waste.
func (w *world) order(c *class) {
	deviceClass := w.firstDeviceClass(c.pod)
	ranks := make(map[int]int, len(c.nodes))
	for _, n := range c.nodes {
		name := w.nodes[n].Node().Name
		if deviceClass != "" {
			_, ranks[n] = w.session.Devices(name, deviceClass)
		} else if w.session.Publishes(name) {
			ranks[n] = 1
		}
	}
	slices.SortFunc(c.nodes, func(a, b int) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(w.nodes[a].Node().Name, w.nodes[b].Node().Name))
	})
}

// firstDeviceClass returns the DeviceClass of the first request of a pod, "" if
// it has no claim that still asks for devices.
func (w *world) firstDeviceClass(pod *v1.Pod) string {
	for i := range pod.Spec.ResourceClaims {
		spec := w.claimSpec(pod, &pod.Spec.ResourceClaims[i])
		if spec == nil {
			continue
		}
		for _, request := range spec.Devices.Requests {
			switch {
			case request.Exactly != nil:
				return request.Exactly.DeviceClassName
			case len(request.FirstAvailable) > 0:
				return request.FirstAvailable[0].DeviceClassName
			}
		}
	}
	return ""
}

// problem returns the gang for the search.
func (w *world) problem() placement.Problem {
	p := placement.Problem{Interacts: w.interacts, Rearranges: w.claims, Budget: int(w.pl.args.SearchBudget)}
	for _, c := range w.classes {
		p.Classes = append(p.Classes, placement.Class{Weight: weight(c.pod), Nodes: c.nodes})
	}
	for _, m := range w.members {
		p.Pods = append(p.Pods, m.class.index)
	}
	return p
}

// weight tells how hard a pod is to place: one with claims is harder than one
// without, and then the larger is.
func weight(pod *v1.Pod) float64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	total := 1e6 * float64(len(pod.Spec.ResourceClaims))
	for name, quantity := range requests {
		switch name {
		case v1.ResourceCPU:
			total += quantity.AsApproximateFloat64()
		case v1.ResourceMemory, v1.ResourceEphemeralStorage:
			total += quantity.AsApproximateFloat64() / (1 << 30)
		default:
			total += 1e3 * quantity.AsApproximateFloat64()
		}
	}
	return total
}

// Place puts a member on a node if the filters and the devices allow it.
func (w *world) Place(member, n int, rearrange bool) (func(), bool) {
	if w.err != nil {
		return nil, false
	}
	m := w.members[member]
	node, touched := w.placed[n]
	if !touched {
		node = w.nodes[n]
	}
	// An untouched node has been screened. Where pods interact, one placed
	// elsewhere may have changed the answer since.
	if touched || w.interacts {
		if status := w.pl.handle.RunFilterPluginsWithNominatedPods(w.ctx, m.class.state, m.pod, node); !status.IsSuccess() {
			return nil, w.refuse(m, n, status)
		}
	}
	allocate := w.session.Allocate
	if rearrange {
		allocate = w.session.Rearrange
	}
	allocation, status := allocate(w.ctx, m.pod, node)
	if !status.IsSuccess() {
		return nil, w.refuse(m, n, status.WithPlugin(gangresources.Name))
	}
	info, err := onNode(m.pod, node.Node().Name)
	if err != nil {
		w.session.Undo(allocation)
		return nil, w.refuse(m, n, fwk.AsStatus(err))
	}
	if !touched {
		node = node.Snapshot()
	}
	node.AddPodInfo(info)
	w.placed[n] = node
	m.allocation = allocation
	w.tell(info, node, w.pl.handle.RunPreFilterExtensionAddPod)
	return func() {
		w.tell(info, node, w.pl.handle.RunPreFilterExtensionRemovePod)
		if err := node.RemovePod(klog.FromContext(w.ctx), info.GetPod()); err != nil {
			w.fail(err)
		}
		w.session.Undo(allocation)
	}, true
}

// refuse notes why a member does not fit on a node. Anything but a refusal ends
// the plan.
func (w *world) refuse(m *planned, n int, status *fwk.Status) bool {
	if status.IsRejected() {
		m.class.full[n] = nodeRefusal{plugin: status.Plugin(), reason: w.reasonFull(m.class, n, status)}
	} else {
		w.fail(fmt.Errorf("pod %s/%s on node %s: %w", m.pod.Namespace, m.pod.Name, w.nodes[n].Node().Name, status.AsError()))
	}
	return false
}

func (w *world) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// tell lets the filters of every class know that a member has been placed, or
// taken off again. Only pods that interact can tell the difference.
func (w *world) tell(info fwk.PodInfo, node fwk.NodeInfo, extension func(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status) {
	if !w.interacts {
		return
	}
	for _, c := range w.classes {
		if c.refused != nil {
			continue
		}
		if status := extension(w.ctx, c.state, c.pod, info, node); !status.IsSuccess() {
			w.fail(status.AsError())
		}
	}
}

// result turns the nodes of all members into a plan; -1 is a member that found
// none.
func (w *world) result(nodes []int) *plan {
	p := &plan{session: w.session}
	for i, n := range nodes {
		if n < 0 {
			continue
		}
		m := w.members[i]
		p.placements = append(p.placements, gang.Placement{Pod: m.pod, Node: w.nodes[n].Node().Name, Floor: m.floor})
		p.allocations = append(p.allocations, m.allocation)
	}
	return p
}
