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
)

// writeShared writes the claims that this member shares with others of its gang,
// once for all of them: the allocation, and every sharer as a user. Claims that
// another member has written are left alone. The caller holds their locks.
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
		case claim.Status.Allocation != nil:
			continue
		case allocation == nil:
			return fmt.Errorf("the reservation of shared claim %s/%s was undone", claim.Namespace, claim.Name)
		}
		if err := p.writeSharedClaim(ctx, r.group, claim, allocation); err != nil {
			return fmt.Errorf("write shared claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}

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
		case next.Status.Allocation != nil:
			return fmt.Errorf("it was allocated elsewhere in the meantime")
		}
		if !slices.Contains(next.Finalizers, resourceapi.Finalizer) {
			next.Finalizers = append(next.Finalizers, resourceapi.Finalizer)
			updated, err := claims.Update(ctx, next, metav1.UpdateOptions{})
			if err != nil {
				return err
			}
			next = updated
		}
		next.Status.Allocation = allocation.DeepCopy()
		if p.features.EnableDRADeviceBindingConditions && p.features.EnableDRAResourceClaimDeviceStatus {
			next.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
		}
		for _, user := range group.users[known.UID] {
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
	p.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(known.UID, true)
	return nil
}

func consumer(pod *v1.Pod) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// usersOf lists the members that share each claim.
func usersOf(allocations []*Allocation) map[types.UID][]*v1.Pod {
	users := make(map[types.UID][]*v1.Pod)
	for _, a := range allocations {
		for _, signal := range a.signals {
			users[signal.uid] = append(users[signal.uid], a.Pod)
		}
	}
	return users
}
