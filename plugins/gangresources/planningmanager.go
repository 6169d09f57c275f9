// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/devices"
)

// planningHandle is the handle of the planning instance. Its profile name
// differs so that the in-tree plugin's pod index does not collide with the one
// of the first instance.
type planningHandle struct {
	fwk.Handle
	manager fwk.SharedDRAManager
}

func (h planningHandle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }
func (h planningHandle) ProfileName() string                    { return h.Handle.ProfileName() + "-plan" }

// planningManager shows the planning instance a world of one node, and keeps
// the pending allocations of a session to itself until they are reserved.
// Everything else is the real manager's. It serves one session at a time, in
// the scheduling cycle.
type planningManager struct {
	fwk.SharedDRAManager

	// slices is the world of the node that is tried.
	slices []*resourceapi.ResourceSlice
	// ledger is the allocated state of the session.
	ledger *devices.Ledger
	// pending holds the allocations that the session has made, by claim UID.
	pending map[types.UID]*pendingClaim
	// signals collects the allocations that the pod under trial has made or
	// joined; the session takes them over after each trial.
	signals []signal
}

// pendingClaim is a claim that a session has allocated.
type pendingClaim struct {
	claim   *resourceapi.ResourceClaim
	sharers int
}

// signal is one call of SignalClaimPendingAllocation, to be repeated on the real
// manager when the session is reserved.
type signal struct {
	uid   types.UID
	claim *resourceapi.ResourceClaim
}

func (m *planningManager) ResourceSlices() fwk.ResourceSliceLister  { return sliceList(m.slices) }
func (m *planningManager) ResourceClaims() fwk.ResourceClaimTracker { return planningClaims{m} }

// sliceList is a lister over a fixed set of slices.
type sliceList []*resourceapi.ResourceSlice

func (l sliceList) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) { return l, nil }

// planningClaims is the claim tracker of a session: reads come from the real
// tracker, allocations from and to the session.
type planningClaims struct{ m *planningManager }

var _ fwk.ResourceClaimTracker = planningClaims{}

func (c planningClaims) real() fwk.ResourceClaimTracker {
	return c.m.SharedDRAManager.ResourceClaims()
}

func (c planningClaims) List() ([]*resourceapi.ResourceClaim, error) {
	return c.real().List()
}

func (c planningClaims) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	return c.real().Get(namespace, name)
}

func (c planningClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return c.m.ledger.State().AllocatedDevices, nil
}

func (c planningClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	return c.m.ledger.State(), nil
}

func (c planningClaims) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	if known := c.m.pending[uid]; known != nil {
		known.sharers++
		claim = known.claim
	} else {
		c.m.pending[uid] = &pendingClaim{claim: claim, sharers: 1}
		c.m.ledger.Take(claim.Status.Allocation)
	}
	c.m.signals = append(c.m.signals, signal{uid: uid, claim: claim})
	return nil
}

func (c planningClaims) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	if known := c.m.pending[uid]; known != nil {
		return known.claim.Status.Allocation
	}
	return c.real().GetPendingAllocation(uid)
}

func (c planningClaims) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	known := c.m.pending[uid]
	if known == nil {
		return false
	}
	known.sharers--
	if known.sharers > 0 && !force {
		return false
	}
	delete(c.m.pending, uid)
	c.m.ledger.Release(known.claim.Status.Allocation)
	return true
}

func (c planningClaims) AssumeClaimAfterAPICall(claim *resourceapi.ResourceClaim) error {
	return fmt.Errorf("claim %s/%s: a session plans and writes nothing", claim.Namespace, claim.Name)
}

func (c planningClaims) AssumedClaimRestore(string, string) {}
