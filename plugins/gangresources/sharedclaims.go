// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// writeShared writes the claims that this member shares with others of its gang,
// once for all of them: the allocation, if there is none yet, and every sharer as a
// user. One by one they would be in each other's way. Claims that another member has
// written are left alone. The caller holds their locks.
func (p *Plugin) writeShared(ctx context.Context, r *Reservation) error {
	claims, err := p.claimsOf(r.pod)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if !slices.Contains(r.shared, claim.UID) {
			continue
		}
		allocation := p.manager.ResourceClaims().GetPendingAllocation(claim.UID)
		switch {
		case resourceclaim.IsReservedForPod(r.pod, claim, false):
			continue
		case claim.Status.Allocation != nil:
			allocation = nil // it is in use already
		case allocation == nil:
			return fmt.Errorf("the reservation of shared claim %s/%s was undone", claim.Namespace, claim.Name)
		}
		if err := p.writeSharedClaim(ctx, r.group, claim, allocation); err != nil {
			return fmt.Errorf("write shared claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}

// writeSharedClaim enters the members as users of the claim, and its allocation; nil is
// for a claim that has one.
func (p *Plugin) writeSharedClaim(ctx context.Context, group *sharedState, known *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) error {
	claims := p.handle.ClientSet().ResourceV1().ResourceClaims(known.Namespace)
	group.written.Store(true)
	claim := known.DeepCopy()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if claim == nil {
			current, err := claims.Get(ctx, known.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			claim = current
		}
		next := claim
		claim = nil
		switch {
		case next.UID != known.UID || next.DeletionTimestamp != nil:
			return fmt.Errorf("it was deleted in the meantime")
		case allocation != nil && next.Status.Allocation != nil:
			return fmt.Errorf("it was allocated elsewhere in the meantime")
		case allocation == nil && next.Status.Allocation == nil:
			return fmt.Errorf("it was deallocated in the meantime")
		}
		if allocation != nil && !slices.Contains(next.Finalizers, resourceapi.Finalizer) {
			next.Finalizers = append(next.Finalizers, resourceapi.Finalizer)
			updated, err := claims.Update(ctx, next, metav1.UpdateOptions{})
			if err != nil {
				return err
			}
			next = updated
		}
		if allocation != nil {
			next.Status.Allocation = p.stamped(allocation)
		}
		for _, user := range group.users[known.UID] {
			if reserved := p.reservation(user.UID); reserved == nil || reserved.group != group {
				continue // it has lost its place in the meantime
			}
			if !slices.ContainsFunc(next.Status.ReservedFor, func(u resourceapi.ResourceClaimConsumerReference) bool { return u.UID == user.UID }) {
				next.Status.ReservedFor = append(next.Status.ReservedFor, consumer(user))
			}
		}
		updated, err := claims.UpdateStatus(ctx, next, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		claim = updated
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.manager.ResourceClaims().AssumeClaimAfterAPICall(claim); err != nil {
		// The informer has a newer version already.
		current, getErr := p.manager.ResourceClaims().Get(known.Namespace, known.Name)
		if getErr != nil || !apiequality.Semantic.DeepEqual(current.Status.Allocation, claim.Status.Allocation) {
			return err
		}
	}
	if allocation != nil {
		p.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(known.UID, true)
	}
	return nil
}

// stamped returns an allocation as it is written: with the time, where the wait for
// binding conditions counts from it.
func (p *Plugin) stamped(allocation *resourceapi.AllocationResult) *resourceapi.AllocationResult {
	allocation = allocation.DeepCopy()
	if p.features.EnableDRADeviceBindingConditions && p.features.EnableDRAResourceClaimDeviceStatus && allocation.AllocationTimestamp == nil {
		allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
	}
	return allocation
}

func consumer(pod *v1.Pod) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// usersOf lists the members that share each claim.
func usersOf(allocations []*Allocation) map[types.UID][]*v1.Pod {
	users := make(map[types.UID][]*v1.Pod)
	for _, a := range allocations {
		for _, uid := range a.writable() {
			users[uid] = append(users[uid], a.Pod)
		}
	}
	return users
}

// writable are the claims of the member whose users may be written for all at once: all
// of them, but only those that it allocates if one stands for extended resources. The
// in-tree plugin cannot look at that one again, as it has to at claims which others have
// written.
func (a *Allocation) writable() []types.UID {
	if !slices.ContainsFunc(a.signals, signal.extendedResource) {
		return a.claims
	}
	var uids []types.UID
	for _, signal := range a.signals {
		uids = append(uids, signal.uid)
	}
	return uids
}
