// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/devices"
)

// Session allocates devices for the members of one gang, tentatively, until it
// is reserved or dropped. It belongs to one scheduling cycle, and a plugin has
// one session at a time. Dropping a session needs no call: nothing outside it
// knows of its choices before Reserve.
type Session struct {
	plugin *Plugin
	// published is what is published of devices, inventory the index of it.
	published *published
	inventory *devices.Inventory
	// classes is the version of the DeviceClasses.
	classes uint64
	ledger  *devices.Ledger
	group   *sharedState
	// users counts the members placed so far that use each claim.
	users map[types.UID]int
	// tallies count the devices of each sort, by Want.key.
	tallies map[string]*Tally
	// onNode lists the allocations on each node, in the order in which they were made.
	onNode map[string][]*Allocation
	// limit bounds the search for devices.
	limit searchLimit
}

// Allocation is what a session has chosen for one pod on one node.
type Allocation struct {
	// Pod is the member, Node the name of its node.
	Pod  *v1.Pod
	Node string

	// choice is what was chosen: the in-tree plugin's state, to be handed to the
	// member's cycle, and the claims that the pod allocates or shares.
	choice
	// claims are all claims of the pod.
	claims []types.UID
	// replaced are the allocations that were changed to make room for this one.
	replaced []replaced
}

// NewSession starts planning from the devices that are free now. The budget is
// roughly how many placements of a pod on a node it is good for; a search for
// devices that takes more is cut short.
func (p *Plugin) NewSession(ctx context.Context, budget int) (*Session, error) {
	state, err := p.gatherAllocatedState(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather the allocated devices: %w", err)
	}
	published, err := p.readSlices()
	if err != nil {
		return nil, err
	}
	classes, err := p.sumOfClasses()
	if err != nil {
		return nil, err
	}
	ledger := p.view.ledger
	ledger.Start(state)
	p.view.pending = make(map[types.UID]*pendingClaim)
	p.view.signals = nil
	return &Session{
		plugin:    p,
		published: published,
		classes:   classes,
		inventory: published.inventory,
		ledger:    ledger,
		group:     &sharedState{cycle: framework.NewCycleState()},
		users:     make(map[types.UID]int),
		tallies:   make(map[string]*Tally),
		onNode:    make(map[string][]*Allocation),
		limit:     newSearchLimit(budget, p.filterTimeout),
	}, nil
}

// gatherAllocatedState reads the allocated state. The tracker refuses when a
// claim changes while it gathers; then the next try is likely to succeed.
func (p *Plugin) gatherAllocatedState(ctx context.Context) (*structured.AllocatedState, error) {
	var state *structured.AllocatedState
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Microsecond, 5*time.Second, true, func(context.Context) (bool, error) {
		state, last = p.manager.ResourceClaims().GatherAllocatedState()
		return last == nil && state != nil, nil
	})
	if err != nil && last != nil {
		return nil, last
	}
	return state, err
}

// Devices returns how many devices of the class a node publishes and how many of
// them are free, the session's own choices taken into account. A class that does
// not exist has none.
func (s *Session) Devices(node, class string) (total, free int) {
	return s.Tally(Want{Class: class}).Devices(node)
}

// HasClass reports whether the DeviceClass exists.
func (s *Session) HasClass(class string) bool {
	_, err := s.plugin.manager.DeviceClasses().Get(class)
	return err == nil
}

// Publishes reports whether a node has devices of any class.
func (s *Session) Publishes(node string) bool {
	return s.inventory.Publishes(node)
}

// Allocate tries to allocate the claims of the pod on the node, beside what the
// session has chosen so far. It returns the in-tree plugin's refusal when that
// is not possible; the session is then unchanged.
func (s *Session) Allocate(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) (*Allocation, *fwk.Status) {
	a, status := s.allocateArranged(ctx, pod, node, s.arrange(pod, node.Node()))
	if a == nil {
		return nil, status
	}
	s.add(a)
	return a, nil
}

// allocateArranged is allocate that tries the devices as they are published as well,
// when the search in another order was cut short.
func (s *Session) allocateArranged(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo, arrangement devices.Arrangement) (*Allocation, *fwk.Status) {
	a, status := s.allocate(ctx, pod, node, arrangement)
	if a == nil && arrangement.Rank != nil && s.limit.cut {
		return s.allocate(ctx, pod, node, devices.Arrangement{})
	}
	return a, status
}

// add notes an allocation that was made.
func (s *Session) add(a *Allocation) {
	for _, uid := range a.claims {
		s.users[uid]++
	}
	s.onNode[a.Node] = append(s.onNode[a.Node], a)
}

// allocate has the planning instance allocate the claims of the pod on the node,
// of which it sees the devices as arranged.
func (s *Session) allocate(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo, arrangement devices.Arrangement) (*Allocation, *fwk.Status) {
	view, planner := s.plugin.view, s.plugin.planner
	view.slices = arrangement.Apply(s.inventory.World(node.Node().Name))
	view.signals = nil

	claims, status := s.roomInClaims(pod)
	if !status.IsSuccess() {
		return nil, status
	}
	ordered, shares := s.sharedLast(pod)
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(s.group.cycle)
	_, status = planner.PreFilter(ctx, state, ordered, nil)
	idle := status.IsSkip()
	if !status.IsSuccess() && !idle {
		return nil, status
	}
	if !idle {
		if status := s.filter(ctx, state, ordered, node, arrangement.Rank != nil); !status.IsSuccess() {
			return nil, status
		}
		if status := planner.Reserve(ctx, state, ordered, node.Node().Name); !status.IsSuccess() {
			s.withdraw(view.signals)
			return nil, status
		}
	}
	if shares && slices.ContainsFunc(view.signals, signal.extendedResource) {
		s.withdraw(view.signals)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "a claim shared with another member and an extended resource backed by devices in one pod are not supported together")
	}
	data, err := state.Read(dynamicresources.Name)
	if err != nil {
		s.withdraw(view.signals)
		return nil, fwk.AsStatus(fmt.Errorf("read the state of plugin %s: %w", dynamicresources.Name, err))
	}
	return &Allocation{Pod: pod, Node: node.Node().Name, choice: choice{state: data, signals: view.signals}, claims: claims}, nil
}

// filter runs the planning instance's Filter within the limits of the session.
func (s *Session) filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, brief bool) *fwk.Status {
	if s.tooFew(pod, node.Node().Name) {
		s.limit.cut = false
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cannotAllocate)
	}
	search := s.limit.start(ctx, s.plugin.view.slices)
	if brief {
		search = s.limit.startBrief(ctx, s.plugin.view.slices, s.ownClaims(pod))
	}
	status := s.plugin.planner.Filter(search, state, pod, node)
	if cut := search.done(); cut != nil && !status.IsSuccess() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cut.Error())
	}
	return status
}

// cannotAllocate is what the in-tree plugin says when a node has not the devices.
const cannotAllocate = "cannot allocate all claims"

// tooFew reports whether the claims of the pod ask for more devices of a class than
// the node has left. The allocator would try all combinations of them to find that
// out.
func (s *Session) tooFew(pod *v1.Pod, node string) bool {
	needed := make(map[string]int)
	for _, claim := range s.ownClaims(pod) {
		for i := range claim.Spec.Devices.Requests {
			request := claim.Spec.Devices.Requests[i].Exactly
			if request != nil && request.AllocationMode == resourceapi.DeviceAllocationModeExactCount && !ptr.Deref(request.AdminAccess, false) {
				needed[request.DeviceClassName] += int(request.Count)
			}
		}
	}
	for name, count := range needed {
		class, err := s.plugin.manager.DeviceClasses().Get(name)
		if err == nil && devices.Usable(s.inventory.World(node), s.ledger, count, func(slice *resourceapi.ResourceSlice) []bool {
			return s.plugin.classifier.Selected(slice, class)
		}) < count {
			return true
		}
	}
	return false
}

// roomInClaims returns the UIDs of the pod's claims, or a refusal if one of them
// has as many users as the API allows.
func (s *Session) roomInClaims(pod *v1.Pod) ([]types.UID, *fwk.Status) {
	var uids []types.UID
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, err := s.plugin.manager.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			// The in-tree plugin says so in its words.
			continue
		}
		others := len(claim.Status.ReservedFor) + s.users[claim.UID]
		if resourceclaim.IsReservedForPod(pod, claim, false) {
			others--
		}
		if others >= resourceapi.ResourceClaimReservedForMaxSize {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("claim %s cannot be used by more than %d pods at once", claim.Name, resourceapi.ResourceClaimReservedForMaxSize))
		}
		uids = append(uids, claim.UID)
	}
	return uids, nil
}

// extendedResource reports whether the claim stands for extended resources. It
// does not exist in the API yet and has a name that no object can have.
func (s signal) extendedResource() bool {
	return strings.HasPrefix(s.claim.Name, "<")
}

// sharedLast returns the pod with the claims last that the session has allocated
// for another member, and whether there are any. The in-tree plugin (v1.37.2)
// keeps its allocations in that order and its Reserve reads them in the order of
// the pod, so that with any other order a claim gets the devices of another.
func (s *Session) sharedLast(pod *v1.Pod) (*v1.Pod, bool) {
	var own, shared []v1.PodResourceClaim
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		if s.allocated(pod, entry) {
			shared = append(shared, *entry)
		} else {
			own = append(own, *entry)
		}
	}
	if len(shared) == 0 {
		return pod, false
	}
	ordered := *pod
	ordered.Spec.ResourceClaims = append(own, shared...)
	return &ordered, true
}

// allocated reports whether the session has allocated the claim.
func (s *Session) allocated(pod *v1.Pod, entry *v1.PodResourceClaim) bool {
	name, _, err := resourceclaim.Name(pod, entry)
	if err != nil || name == nil {
		return false
	}
	claim, err := s.plugin.manager.ResourceClaims().Get(pod.Namespace, *name)
	return err == nil && s.plugin.view.pending[claim.UID] != nil
}

// Undo takes an allocation back, as if it had not been made. Allocations are taken
// back in reverse order.
func (s *Session) Undo(a *Allocation) {
	s.withdraw(a.signals)
	for _, uid := range a.claims {
		s.users[uid]--
	}
	s.onNode[a.Node] = slices.DeleteFunc(s.onNode[a.Node], func(other *Allocation) bool { return other == a })
	for _, r := range a.replaced {
		s.withdraw(r.allocation.signals)
	}
	s.putBack(a.replaced)
}

func (s *Session) withdraw(signals []signal) {
	claims := planningClaims{s.plugin.view}
	for _, signal := range signals {
		claims.MaybeRemoveClaimPendingAllocation(signal.uid, false)
	}
}

// Reserve makes the allocations visible to the whole scheduler: from now on the
// devices are taken for every other pod, and each member finds its reservation
// in its own cycle. It is all or nothing; the error says which claim has changed
// since the session began.
func (s *Session) Reserve(allocations []*Allocation) ([]*Reservation, error) {
	tracker := s.plugin.manager.ResourceClaims()
	var done []signal
	undo := func() {
		for _, signal := range done {
			tracker.MaybeRemoveClaimPendingAllocation(signal.uid, false)
		}
	}
	for _, a := range allocations {
		for _, signal := range a.signals {
			if err := tracker.SignalClaimPendingAllocation(signal.uid, signal.claim); err != nil {
				undo()
				return nil, err
			}
			done = append(done, signal)
			// The tracker accepts the signal and keeps nothing when the claim has
			// been allocated by somebody else in the meantime.
			if !apiequality.Semantic.DeepEqual(tracker.GetPendingAllocation(signal.uid), signal.claim.Status.Allocation) {
				undo()
				return nil, fmt.Errorf("claim %s/%s was allocated elsewhere in the meantime", signal.claim.Namespace, signal.claim.Name)
			}
		}
	}
	return s.plugin.addReservations(allocations, s.group), nil
}
