// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxForeseen is how many sorts of devices are judged ahead.
const maxForeseen = 64

// foresight has devices judged by the selectors of claims and classes before a plan asks,
// in the background. CEL takes some 10 µs for each device: the first plan that wants a sort
// of them would else judge those of the whole cluster, and all that is queued would wait.
type foresight struct {
	// judge judges the devices of a slice, and remembers the answer.
	judge func(*resourceapi.ResourceSlice, *resourceapi.DeviceClass, []resourceapi.DeviceSelector) []bool
	// manager has the classes, and all slices.
	manager fwk.SharedDRAManager
	// due has an element while there is something to judge.
	due chan struct{}

	// mu guards the fields below. It is taken by event handlers and is a leaf.
	mu sync.Mutex
	// wants are the sorts that claims have asked for, by Want.key.
	wants map[string]Want
	// fresh are to be judged for all slices, and changed by all wants.
	fresh   []Want
	changed []*resourceapi.ResourceSlice
}

func newForesight(manager fwk.SharedDRAManager, judge func(*resourceapi.ResourceSlice, *resourceapi.DeviceClass, []resourceapi.DeviceSelector) []bool) *foresight {
	return &foresight{judge: judge, manager: manager, due: make(chan struct{}, 1), wants: make(map[string]Want)}
}

// watch follows claims, classes and slices.
func (f *foresight) watch(factory informers.SharedInformerFactory) error {
	resources := factory.Resource().V1()
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		seen     func(obj any)
	}{
		{resources.ResourceClaims().Informer(), f.seeClaim},
		{resources.DeviceClasses().Informer(), f.seeClass},
		{resources.ResourceSlices().Informer(), f.seeSlice},
	} {
		_, err := watched.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    watched.seen,
			UpdateFunc: func(_, obj any) { watched.seen(obj) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run judges what is due until the context ends.
func (f *foresight) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.due:
			f.work(ctx)
		}
	}
}

// seeClaim notes what a claim asks for. Its specification does not change.
func (f *foresight) seeClaim(obj any) {
	claim, ok := obj.(*resourceapi.ResourceClaim)
	if !ok || claim.Status.Allocation != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range claim.Spec.Devices.Requests {
		for _, want := range Wants(&claim.Spec.Devices.Requests[i]) {
			key := want.key()
			if _, known := f.wants[key]; !known && len(f.wants) < maxForeseen {
				f.wants[key] = want
				f.fresh = append(f.fresh, want)
				f.wake()
			}
		}
	}
}

// seeClass has all devices judged again by a class that has changed.
func (f *foresight) seeClass(obj any) {
	class, ok := obj.(*resourceapi.DeviceClass)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, want := range f.wants {
		if want.Class == class.Name {
			f.fresh = append(f.fresh, want)
			f.wake()
		}
	}
}

// seeSlice has the devices of a slice judged.
func (f *foresight) seeSlice(obj any) {
	slice, ok := obj.(*resourceapi.ResourceSlice)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.wants) > 0 {
		f.changed = append(f.changed, slice)
		f.wake()
	}
}

// wake makes run look. The lock is held.
func (f *foresight) wake() {
	select {
	case f.due <- struct{}{}:
	default:
	}
}

// take returns what is to be judged.
func (f *foresight) take() (fresh, wants []Want, changed []*resourceapi.ResourceSlice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh, changed = f.fresh, f.changed
	f.fresh, f.changed = nil, nil
	for _, want := range f.wants {
		wants = append(wants, want)
	}
	return fresh, wants, changed
}

// work judges what is due.
func (f *foresight) work(ctx context.Context) {
	fresh, wants, changed := f.take()
	f.judgeAll(ctx, wants, changed)
	if len(fresh) == 0 {
		return
	}
	all, err := f.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		// A plan will ask itself, and say so.
		klog.FromContext(ctx).V(3).Info("Devices are not judged ahead", "err", err)
		return
	}
	f.judgeAll(ctx, fresh, all)
}

func (f *foresight) judgeAll(ctx context.Context, wants []Want, published []*resourceapi.ResourceSlice) {
	for _, want := range wants {
		class, err := f.manager.DeviceClasses().Get(want.Class)
		if err != nil {
			continue // it comes with an event of its own
		}
		for _, slice := range published {
			if ctx.Err() != nil {
				return
			}
			f.judge(slice, class, want.Selectors)
		}
	}
}
