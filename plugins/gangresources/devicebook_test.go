// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// bookClaim is a claim that holds the devices.
func bookClaim(uid types.UID, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: string(uid), UID: uid}}
	if len(devices) > 0 {
		c.Status.Allocation = &resourceapi.AllocationResult{}
	}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: driver, Pool: "n1", Device: d})
	}
	return c
}

// A claim that has ended holds nothing, whatever the informer has missed or says of the
// state before.
func TestBookForgetsAClaim(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(cache.ResourceEventHandler)
	}{
		{"deallocated", func(h cache.ResourceEventHandler) { h.OnUpdate(bookClaim("a", "d"), bookClaim("a")) }},
		{"deallocated, of a state that was missed", func(h cache.ResourceEventHandler) { h.OnUpdate(bookClaim("a"), bookClaim("a")) }},
		{"deleted with its device", func(h cache.ResourceEventHandler) { h.OnDelete(bookClaim("a", "d")) }},
		{"deleted, its deallocation missed", func(h cache.ResourceEventHandler) { h.OnDelete(bookClaim("a")) }},
		{"found to be gone", func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: namespace + "/a", Obj: bookClaim("a")})
		}},
		{"replaced by one of its name", func(h cache.ResourceEventHandler) { h.OnUpdate(bookClaim("a"), bookClaim("new")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			book := newDeviceBook()
			events := book.handlers()
			events.OnAdd(bookClaim("a", "d"), true)
			events.OnAdd(bookClaim("b", "d"), false)
			if _, other, found := book.conflict(bookClaim("b", "d")); !found || other.UID != "a" {
				t.Fatalf("no conflict with claim a while it has the device")
			}
			tc.end(events)
			if device, other, found := book.conflict(bookClaim("b", "d")); found {
				t.Errorf("device %s is taken to be that of claim %s", device, other.UID)
			}
			events.OnDelete(bookClaim("b", "d"))
			if len(book.holders)+len(book.held)+len(book.contested) > 0 {
				t.Errorf("the book still has %v, %v, %v", book.holders, book.held, book.contested)
			}
		})
	}
}

func TestBookTellsOfAVersionWhenItHasBeenSeen(t *testing.T) {
	see := func(b *deviceBook, version string) {
		claim := makeClaim("c")
		claim.ResourceVersion = version
		b.replace(nil, claim)
	}
	synctest.Test(t, func(t *testing.T) {
		b := newDeviceBook()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(map[string]error)
		for _, version := range []string{"5", "7", "9"} {
			go func() {
				err := b.await(ctx, version)
				b.mu.Lock()
				defer b.mu.Unlock()
				ended[version] = err
			}()
		}
		check := func(after string, want ...string) {
			t.Helper()
			synctest.Wait()
			b.mu.Lock()
			defer b.mu.Unlock()
			if got := slices.Sorted(maps.Keys(ended)); !slices.Equal(got, want) {
				t.Errorf("after %s those have ended that wait for %v, want %v", after, got, want)
			}
		}
		see(b, "4")
		check("version 4")
		see(b, "7")
		check("version 7", "5", "7")
		if err := b.await(ctx, "6"); err != nil {
			t.Errorf("a version that has been seen: %v", err)
		}
		cancel()
		check("the end", "5", "7", "9")
		if !errors.Is(ended["9"], context.Canceled) || ended["5"] != nil || ended["7"] != nil {
			t.Errorf("they ended with %v", ended)
		}
		if len(b.waiters) > 0 {
			t.Errorf("%d are still waited for", len(b.waiters))
		}
		if err := b.await(ctx, "not a number"); err == nil {
			t.Error("no error for a version that is none")
		}
	})
}
