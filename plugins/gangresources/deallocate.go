// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
)

// What is to be done about claims after a failure is repeated until the API server
// has answered. Until then it is not known whether a claim is allocated, and its
// devices must stay reserved in memory. clearTimeout is when that is given up: the
// API server has been away for so long that whoever allocates devices next sees the
// claim as it is.
const (
	clearTimeout   = 5 * time.Minute
	requestTimeout = 10 * time.Second
)

var clearBackoff = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 100, Cap: 5 * time.Second}

// unprepare clears what PreBind may have written for a member that is not going
// to be bound. The in-tree Unreserve takes back the reservation only, and only
// where it knows that the write has succeeded; the allocation would hold its
// devices until the pod is scheduled again.
func (p *Plugin) unprepare(ctx context.Context, r *Reservation) {
	if !r.prepared.Load() && (len(r.shared) == 0 || !r.group.written.Load()) {
		return
	}
	unlock := p.claimLocks.lock(r.shared)
	defer unlock()
	p.persist(ctx, r.pod, "clear the claims of an undone gang", func(ctx context.Context, pod *v1.Pod) error {
		if next := p.reservation(pod.UID); next != nil && next != r {
			return nil // the next attempt has planned with what there is
		}
		return p.deallocate(ctx, pod)
	})
}

// settle brings the cache of claims to what the API server has of the pod's claims.
func (p *Plugin) settle(ctx context.Context, pod *v1.Pod) {
	p.persist(ctx, pod, "learn whether claims were allocated", func(ctx context.Context, pod *v1.Pod) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return eachClaim(pod, func(name string) error {
			claim, err := p.handle.ClientSet().ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return p.awaitGone(ctx, pod.Namespace, name)
			}
			if err != nil {
				return err
			}
			p.know(ctx, claim)
			return nil
		})
	})
}

// persist repeats what has to be done about the claims of a pod until it succeeds,
// or clearTimeout is over.
func (p *Plugin) persist(ctx context.Context, pod *v1.Pod, what string, do func(context.Context, *v1.Pod) error) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	backoff := clearBackoff
	for {
		err := do(ctx, pod)
		if err == nil {
			return
		}
		logger.V(2).Info("Failed to "+what+", trying again", "pod", klog.KObj(pod), "err", err)
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			logger.Error(err, "Failed to "+what+", giving up", "pod", klog.KObj(pod))
			return
		}
	}
}

// eachClaim calls do with the name of every claim that the pod has.
func eachClaim(pod *v1.Pod, do func(name string) error) error {
	var errs []error
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		errs = append(errs, do(*name))
	}
	return errors.Join(errs...)
}

// Reclaim clears the allocations of claims that the pending pod alone holds, and
// that an attempt has left behind which died with its scheduler: no node that
// they are bound to will do. It calls the API server.
func (p *Plugin) Reclaim(ctx context.Context, pod *v1.Pod) error {
	return p.deallocate(ctx, pod)
}

// HoldsAllocation reports whether Reclaim has something to clear: a claim of the pod
// is allocated in the API, and not for others alone.
func (p *Plugin) HoldsAllocation(pod *v1.Pod) bool {
	claims, err := p.claimsOf(pod)
	return err == nil && slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool {
		_, holds := otherUsers(c, pod)
		return holds
	})
}

// otherUsers returns the users of a claim besides the pod. holds is set if the claim
// is allocated for the pod, or for nobody: then the pod can give something back.
func otherUsers(claim *resourceapi.ResourceClaim, pod *v1.Pod) (users []resourceapi.ResourceClaimConsumerReference, holds bool) {
	users = slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(user resourceapi.ResourceClaimConsumerReference) bool {
		return user.UID == pod.UID
	})
	isUser := len(users) < len(claim.Status.ReservedFor)
	return users, claim.Status.Allocation != nil && (isUser || len(users) == 0)
}

// deallocate takes the pod out of the users of its claims and clears the
// allocation of those that have no other. It does nothing for a pod that is
// bound. It trusts the API server and not the cache, which may lag behind a
// write whose answer was lost.
func (p *Plugin) deallocate(ctx context.Context, pod *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	current, err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case current.UID == pod.UID && current.Spec.NodeName != "":
		return nil
	}
	return eachClaim(pod, func(name string) error { return p.deallocateClaim(ctx, name, pod) })
}

func (p *Plugin) deallocateClaim(ctx context.Context, name string, pod *v1.Pod) error {
	claims := p.handle.ClientSet().ResourceV1().ResourceClaims(pod.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return p.awaitGone(ctx, pod.Namespace, name)
		}
		if err != nil {
			return err
		}
		users, holds := otherUsers(claim, pod)
		if !holds {
			p.know(ctx, claim) // the answer to an earlier write may have been lost
			return nil
		}
		claim.Status.ReservedFor = users
		if len(users) == 0 {
			claim.Status.Allocation = nil
			claim.Status.Devices = nil
		}
		claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		p.know(ctx, claim)
		return nil
	})
}

// know puts what the API server has answered of a claim into the cache of claims at
// once, so that no plan counts on what was before. Versions before it must not come to
// the cache later either: the end of an allocation in them would free devices that
// somebody else has by then, because the in-tree tracker (v1.37.2) keeps a set of
// devices and does not know whose they are.
func (p *Plugin) know(ctx context.Context, claim *resourceapi.ResourceClaim) {
	if err := p.manager.ResourceClaims().AssumeClaimAfterAPICall(claim); err != nil { // it is gone, or newer there
		klog.FromContext(ctx).V(5).Info("Claim not stored in the assume cache", "claim", klog.KObj(claim), "err", err)
	}
}

// awaitGone is know for a claim that does not exist any more: only the watch can take
// it out of the cache.
func (p *Plugin) awaitGone(ctx context.Context, namespace, name string) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		_, err := p.manager.ResourceClaims().Get(namespace, name)
		return err != nil, nil //nolint:nilerr // then it is not there
	})
	if err != nil {
		return fmt.Errorf("wait for the watch to show that claim %s/%s is gone: %w", namespace, name, err)
	}
	return nil
}
