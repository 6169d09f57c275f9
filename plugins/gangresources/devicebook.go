// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// deviceBook knows which claims hold each device, as the API has it. The API does
// not keep two schedulers from allocating one device to two claims when they
// decide in the same moment; the book is where that shows.
type deviceBook struct {
	// mu guards the fields below.
	mu sync.Mutex
	// holders are the claims that hold a device whole.
	holders map[structured.DeviceID]map[types.UID]*resourceapi.ResourceClaim
	// held are the devices of each claim in the book. What an event says of the state
	// before is not to be relied on: with a delete comes the last state of the claim,
	// which may be one that the informer has missed.
	held map[types.UID][]structured.DeviceID
	// contested are the devices that were held by several claims at a time, and
	// are still held by one at least.
	contested sets.Set[structured.DeviceID]
	// seen is the highest resource version of a claim in the book.
	seen uint64
	// waiters wait for seen to reach a version. Each is told when its own has come, and not
	// of every claim that is written.
	waiters map[*waiter]struct{}
}

// waiter waits for a version.
type waiter struct {
	version uint64
	// seen is closed when the version has been.
	seen chan struct{}
}

func newDeviceBook() *deviceBook {
	return &deviceBook{
		holders:   make(map[structured.DeviceID]map[types.UID]*resourceapi.ResourceClaim),
		held:      make(map[types.UID][]structured.DeviceID),
		contested: sets.New[structured.DeviceID](),
		waiters:   make(map[*waiter]struct{}),
	}
}

// handlers keep the book up to date from an informer of claims.
func (b *deviceBook) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { b.replace(nil, obj) },
		UpdateFunc: func(old, obj any) { b.replace(old, obj) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			b.replace(obj, nil)
		},
	}
}

func (b *deviceBook) replace(before, after any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if claim, ok := before.(*resourceapi.ResourceClaim); ok {
		for _, id := range b.held[claim.UID] {
			delete(b.holders[id], claim.UID)
			if len(b.holders[id]) == 0 && !holds(after, id) {
				delete(b.holders, id)
				b.contested.Delete(id)
			}
		}
		delete(b.held, claim.UID)
	}
	claim, ok := after.(*resourceapi.ResourceClaim)
	if !ok {
		return
	}
	ids := wholeDevices(claim)
	if len(ids) > 0 {
		b.held[claim.UID] = ids
	}
	for _, id := range ids {
		if b.holders[id] == nil {
			b.holders[id] = make(map[types.UID]*resourceapi.ResourceClaim, 1)
		}
		b.holders[id][claim.UID] = claim
		if len(b.holders[id]) > 1 {
			b.contested.Insert(id)
		}
	}
	if version, err := strconv.ParseUint(claim.ResourceVersion, 10, 64); err == nil && version > b.seen {
		b.seen = version
		for w := range b.waiters {
			if w.version <= version {
				close(w.seen)
				delete(b.waiters, w)
			}
		}
	}
}

// holds reports whether the object is a claim that holds the device.
func holds(object any, id structured.DeviceID) bool {
	claim, ok := object.(*resourceapi.ResourceClaim)
	return ok && slices.Contains(wholeDevices(claim), id)
}

// contestedHolders returns the claims that hold contested devices, by device.
func (b *deviceBook) contestedHolders() map[structured.DeviceID][]*resourceapi.ResourceClaim {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.contested) == 0 {
		return nil
	}
	holders := make(map[structured.DeviceID][]*resourceapi.ResourceClaim, len(b.contested))
	for id := range b.contested {
		holders[id] = slices.Collect(maps.Values(b.holders[id]))
	}
	return holders
}

// await returns when the book has seen everything up to a version. An informer
// delivers changes in the order of their versions, so that then every claim that
// was written before is in the book.
func (b *deviceBook) await(ctx context.Context, version string) error {
	want, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return fmt.Errorf("resource version %q: %w", version, err)
	}
	w := b.wait(want)
	if w == nil {
		return nil
	}
	select {
	case <-w.seen:
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiters, w)
		return fmt.Errorf("wait for version %s of claims: %w", version, context.Cause(ctx))
	}
}

// wait returns a waiter for a version, nil if that has been seen.
func (b *deviceBook) wait(version uint64) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen >= version {
		return nil
	}
	w := &waiter{version: version, seen: make(chan struct{})}
	b.waiters[w] = struct{}{}
	return w
}

// conflict names a device of the claim that another claim holds as well; ok is
// false if there is none.
func (b *deviceBook) conflict(claim *resourceapi.ResourceClaim) (device string, other *resourceapi.ResourceClaim, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range wholeDevices(claim) {
		for uid, holder := range b.holders[id] {
			if uid != claim.UID {
				return id.String(), holder, true
			}
		}
	}
	return "", nil, false
}

// wholeDevices returns the devices that a claim holds for itself alone. Admin
// access and shares of a device do not exclude other claims.
func wholeDevices(claim *resourceapi.ResourceClaim) []structured.DeviceID {
	if claim.Status.Allocation == nil {
		return nil
	}
	var ids []structured.DeviceID
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) || result.ShareID != nil {
			continue
		}
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// exclusiveTimeout bounds the wait for the informer after a claim was written.
const exclusiveTimeout = 10 * time.Second

// ConflictError says that a device was given to two claims.
type ConflictError struct {
	Device       string
	Claim, Other types.NamespacedName
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("device %s of claim %s was also allocated to claim %s: is another scheduler allocating devices of the same nodes?", e.Device, e.Claim, e.Other)
}

// exclusive checks, after the claims of a member are written, that no other claim
// holds a device of theirs.
func (p *Plugin) exclusive(ctx context.Context, r *Reservation) error {
	ctx, cancel := context.WithTimeout(ctx, exclusiveTimeout)
	defer cancel()
	claims, err := p.claimsOf(r.pod)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if len(wholeDevices(claim)) == 0 {
			continue
		}
		if err := p.book.await(ctx, claim.ResourceVersion); err != nil {
			return err
		}
		if device, other, found := p.book.conflict(claim); found {
			return &ConflictError{
				Device: device,
				Claim:  types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name},
				Other:  types.NamespacedName{Namespace: other.Namespace, Name: other.Name},
			}
		}
	}
	return nil
}
