// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/devices"
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

	// room is what the search counts, stock what each node has of it, and used what
	// the members placed so far have taken.
	room  room
	stock []placement.Node
	used  map[int][]int64
	// nominated is set for nodes to which pods are on their way.
	nominated []bool
	// daemons counts the stand-ins for daemon pods of ComputeDomains, by node.
	daemons map[int]int
	// sorts are answers of Session.Nature, by the text of what was asked.
	sorts map[string]gangresources.Nature
	// texts are those of what nodes are short of.
	texts map[shortfall]string
	// inventory tells versions of the cluster's nodes and devices apart.
	inventory string
	// layout is where the members are to be relative to each other.
	layout *layout

	// err is the first error that ends the plan.
	err error
}

// class is a set of members with the same needs.
type class struct {
	index int
	group string
	// key is equal for classes of pods with the same needs, in any plan.
	key string
	// pod stands for all members of the class.
	pod *v1.Pod
	// state is the cycle state of the profile's filters for the class.
	state fwk.CycleState
	// refused is set when PreFilter refuses the class on all nodes.
	refused *nodeRefusal
	// nodes are the nodes that pass the filters, in the order of preference.
	nodes []int
	// eligible are the nodes that would do if nothing were on them.
	eligible []int
	// demand is what one pod asks for, requests the same by column of the room.
	demand   *demand
	requests []int64
	// bound is set when all pods of the class have a place already.
	bound bool
	// screened is set when the filters have been asked.
	screened bool
	// answers are those of the filters before anything was placed, by node; nil where the
	// node may be tried.
	answers []*fwk.Status
	// full holds the last refusals since, by node.
	full map[int]nodeRefusal
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
	// allocation and node are the last ones chosen for the member.
	allocation *gangresources.Allocation
	node       int
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
	pl.scratch.reset()
	pl.landscape.sync(nodes)
	pl.landscape.readSlices(session.Generation(), session.Slices())
	return &world{
		inventory: fmt.Sprintf("%d %s", pl.landscape.generation, session.Generation()),
		pl:        pl,
		ctx:       ctx,
		session:   session,
		nodes:     nodes,
		placed:    make(map[int]fwk.NodeInfo),
		classOf:   make(map[string]*class),
		named:     make(map[string]bool),
		used:      make(map[int][]int64),
		daemons:   make(map[int]int),
		sorts:     make(map[string]gangresources.Nature),
		texts:     make(map[shortfall]string),
	}, nil
}

// addMember files a member under its class.
func (w *world) addMember(group string, pod *v1.Pod, floor bool) error {
	w.claims = w.claims || len(pod.Spec.ResourceClaims) > 0
	w.noteSharing(pod)
	c, err := w.classFor(group, pod)
	if err != nil {
		return err
	}
	w.interacts = w.interacts || interacts(pod)
	w.members = append(w.members, &planned{pod: pod, class: c, floor: floor})
	return nil
}

// classFor returns the class of a pod, a new one if it is the first of its kind.
func (w *world) classFor(group string, pod *v1.Pod) (*class, error) {
	key, err := w.pl.keys.ofMember(memberKey, group, pod, w.claim)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if c := w.classOf[key]; c != nil {
		return c, nil
	}
	return w.newClass(group, pod, key), nil
}

func (w *world) newClass(group string, pod *v1.Pod, key string) *class {
	c := &class{
		index: len(w.classes), group: group, pod: pod, key: key,
		full: make(map[int]nodeRefusal),
	}
	w.classOf[key] = c
	w.classes = append(w.classes, c)
	return c
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
	if status := w.roomForDaemon(m.class, n, node); !status.IsSuccess() {
		return nil, w.refuse(m, n, status)
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
	daemon := w.addDaemon(m, n, node)
	w.placed[n] = node
	m.allocation, m.node = allocation, n
	w.take(n, m.class.requests, 1)
	w.tell(info, node, w.pl.handle.RunPreFilterExtensionAddPod)
	return func() {
		w.tell(info, node, w.pl.handle.RunPreFilterExtensionRemovePod)
		w.take(n, m.class.requests, -1)
		if daemon != nil {
			w.daemons[n]--
			w.remove(node, daemon)
		}
		w.remove(node, info)
		w.session.Undo(allocation)
	}, true
}

// remove takes a pod off a node.
func (w *world) remove(node fwk.NodeInfo, info fwk.PodInfo) {
	if err := node.RemovePod(klog.FromContext(w.ctx), info.GetPod()); err != nil {
		w.fail(err)
	}
}

// Nature and ClassOfResource tell what requests get; the first is remembered for the
// plan.
func (w *world) Nature(want gangresources.Want) gangresources.Nature {
	key := want.Class + "\n" + devices.SelectorKey(want.Selectors)
	nature, known := w.sorts[key]
	if !known {
		nature = w.session.Nature(want)
		w.sorts[key] = nature
	}
	return nature
}

func (w *world) ClassOfResource(name v1.ResourceName) string {
	return w.session.ClassOfResource(name)
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
		if c.bound || c.refused != nil {
			continue // it has no state: nothing of it is to be placed
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
