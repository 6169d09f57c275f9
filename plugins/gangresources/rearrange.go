// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/podgang/podgang-scheduler/pkg/devices"
)

// choice is what a session has chosen for a pod.
type choice struct {
	state   fwk.StateData
	signals []signal
}

// replaced is an allocation whose choice was changed, and what it was before.
type replaced struct {
	allocation *Allocation
	before     choice
}

// Rearrange is Allocate that does not stop at the choices made before: if the pod
// does not fit, it looks for other devices for the pods that the session has put on
// the node, so that all of them fit together. The allocations of those pods then
// change, and Undo changes them back. If there is no way, the refusal is that of
// Allocate.
func (s *Session) Rearrange(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) (*Allocation, *fwk.Status) {
	a, refusal := s.Allocate(ctx, pod, node)
	if a != nil || !refusal.IsRejected() {
		return a, refusal
	}
	movable := s.movable(node.Node().Name)
	own := s.ownClaims(pod)
	if len(movable) == 0 || len(own) == 0 || !s.choiceMatters(node.Node().Name, movable, own) {
		return nil, refusal
	}
	befores := make([]replaced, len(movable))
	for i, other := range movable {
		befores[i] = replaced{allocation: other, before: other.choice}
		s.withdraw(other.signals)
	}
	a = s.allocateTogether(ctx, movable, pod, own, node)
	if a == nil {
		s.putBack(befores)
		return nil, refusal
	}
	a.replaced = befores
	s.add(a)
	return a, nil
}

// movable returns the allocations on the node that may be changed: those of claims
// that the pod has for itself.
func (s *Session) movable(node string) []*Allocation {
	return slices.DeleteFunc(slices.Clone(s.onNode[node]), func(a *Allocation) bool {
		return len(a.signals) == 0 || slices.ContainsFunc(a.signals, func(g signal) bool {
			return g.extendedResource() || s.users[g.uid] > 1
		})
	})
}

// ownClaims returns the claims that are to be allocated for the pod.
func (s *Session) ownClaims(pod *v1.Pod) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, err := s.plugin.manager.ResourceClaims().Get(pod.Namespace, *name)
		if err == nil && claim.Status.Allocation == nil && s.plugin.view.pending[claim.UID] == nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// choiceMatters reports whether it can make a difference which devices a claim
// gets. It cannot where all requests are alike and devices do not exclude each
// other: then there are enough, or there are not.
func (s *Session) choiceMatters(node string, movable []*Allocation, own []*resourceapi.ResourceClaim) bool {
	for _, slice := range s.inventory.World(node) {
		if slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 }) {
			return true
		}
	}
	claims := slices.Clone(own)
	for _, a := range movable {
		for _, signal := range a.signals {
			claims = append(claims, signal.claim)
		}
	}
	var first *resourceapi.ExactDeviceRequest
	for _, claim := range claims {
		if len(claim.Spec.Devices.Constraints) > 0 {
			return true
		}
		for i := range claim.Spec.Devices.Requests {
			request := claim.Spec.Devices.Requests[i].Exactly
			if request == nil {
				return true
			}
			alike := *request
			alike.Count = 0
			if first == nil {
				first = &alike
			} else if !apiequality.Semantic.DeepEqual(first, &alike) {
				return true
			}
		}
	}
	return false
}

// allocateTogether finds devices for pods on the node that were allocated before
// and withdrawn, and for one more pod. It returns nil, with nothing allocated, if
// it finds none.
func (s *Session) allocateTogether(ctx context.Context, others []*Allocation, pod *v1.Pod, own []*resourceapi.ResourceClaim, node fwk.NodeInfo) *Allocation {
	var claims []*resourceapi.ResourceClaim
	for _, other := range others {
		for _, signal := range other.signals {
			claim := *signal.claim
			claim.Status.Allocation = nil
			claims = append(claims, &claim)
		}
	}
	chosen := s.choose(ctx, node.Node(), append(claims, own...))
	if chosen == nil {
		return nil
	}
	world := s.inventory.World(node.Node().Name)
	var done []*Allocation
	for _, other := range others {
		again, _ := s.allocate(ctx, other.Pod, node, devices.Exactly(world, s.ledger, chosen.of(other.signals)))
		if again == nil {
			break
		}
		done = append(done, again)
	}
	if len(done) == len(others) {
		if a, _ := s.allocate(ctx, pod, node, devices.Exactly(world, s.ledger, chosen.ofClaims(own))); a != nil {
			for i, other := range others {
				other.choice = done[i].choice
			}
			return a
		}
	}
	for _, again := range slices.Backward(done) {
		s.withdraw(again.signals)
	}
	return nil
}

// chosenDevices are the devices chosen for each claim.
type chosenDevices map[types.UID][]structured.DeviceID

func (c chosenDevices) of(signals []signal) sets.Set[structured.DeviceID] {
	all := sets.New[structured.DeviceID]()
	for _, signal := range signals {
		all.Insert(c[signal.uid]...)
	}
	return all
}

func (c chosenDevices) ofClaims(claims []*resourceapi.ResourceClaim) sets.Set[structured.DeviceID] {
	all := sets.New[structured.DeviceID]()
	for _, claim := range claims {
		all.Insert(c[claim.UID]...)
	}
	return all
}

// choose finds devices on the node for all claims together, or nil. The allocator
// comes back to its choices for earlier claims when there is none for a later one.
// Each way to show it the devices is tried briefly before any is at length.
func (s *Session) choose(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) chosenDevices {
	world := s.inventory.World(node.Name)
	arrangements := devices.Arrangements(world, s.ledger)
	for _, brief := range []bool{true, false} {
		for _, arrangement := range arrangements {
			if len(arrangement.Hidden) > 0 && slices.ContainsFunc(claims, wantsAll) {
				// All of what is shown is not all of what there is.
				continue
			}
			arranged := arrangement.Apply(world)
			search := s.limit.start(ctx, arranged)
			if brief {
				search = s.limit.startBrief(ctx, arranged, claims)
			}
			results := s.allocatorResults(search, node, claims, arranged)
			cut := search.done()
			switch {
			case len(results) == len(claims):
				return chosenIn(results, claims)
			case cut == nil && len(arrangement.Hidden) == 0:
				// All combinations were tried, and no other order has more.
				return nil
			}
		}
	}
	return nil
}

// allocatorResults has the allocator look for all claims at once among the devices
// of a world. Nil is none, for whatever reason.
func (s *Session) allocatorResults(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim, world []*resourceapi.ResourceSlice) []resourceapi.AllocationResult {
	allocator, err := structured.NewAllocator(ctx, dynamicresources.AllocatorFeatures(s.plugin.features),
		*s.ledger.State(), s.plugin.manager.DeviceClasses(), world, s.plugin.celCache)
	if err != nil {
		return nil
	}
	results, err := allocator.Allocate(ctx, node, claims)
	if err != nil {
		return nil
	}
	return results
}

func chosenIn(results []resourceapi.AllocationResult, claims []*resourceapi.ResourceClaim) chosenDevices {
	chosen := make(chosenDevices, len(claims))
	for i, claim := range claims {
		for _, r := range results[i].Devices.Results {
			chosen[claim.UID] = append(chosen[claim.UID], structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return chosen
}

// wantsAll reports whether the claim asks for all devices of a kind.
func wantsAll(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll ||
			slices.ContainsFunc(r.FirstAvailable, func(sub resourceapi.DeviceSubRequest) bool {
				return sub.AllocationMode == resourceapi.DeviceAllocationModeAll
			})
	})
}

// putBack gives allocations the choices that they had before. Their present ones
// have been withdrawn.
func (s *Session) putBack(befores []replaced) {
	claims := planningClaims{s.plugin.view}
	for _, b := range befores {
		b.allocation.choice = b.before
		for _, signal := range b.before.signals {
			_ = claims.SignalClaimPendingAllocation(signal.uid, signal.claim) // never fails
		}
	}
}
