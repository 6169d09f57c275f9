// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"testing"

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
