// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// forSelected is a claim for one device of the class of the tests that a selector selects.
func forSelected(name, expression string) *resourceapi.ResourceClaim {
	claim := makeClaim(name)
	claim.Spec.Devices.Requests[0].Exactly.Selectors = selecting(expression)
	return claim
}

func selecting(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

func TestDevicesAreJudgedBeforeAPlanAsks(t *testing.T) {
	either := makeClaim("either")
	either.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "a", DeviceClassName: gpuClass, Selectors: selecting("a")}, {Name: "b", DeviceClassName: gpuClass, Selectors: selecting("b")},
	}}
	allocated := makeClaim("allocated")
	allocated.Status.Allocation = &resourceapi.AllocationResult{}
	otherClass := makeClaim("other")
	otherClass.Spec.Devices.Requests[0].Exactly.DeviceClassName = "nobody-knows"
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: gpuClass}}
	another := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "another"}}

	f := newFixture(t, cluster(map[string]int{"n1": 2, "n2": 2})...)
	var judged []string
	foresight := newForesight(f.plugin.manager, func(slice *resourceapi.ResourceSlice, class *resourceapi.DeviceClass, selectors []resourceapi.DeviceSelector) []bool {
		expression := ""
		for i := range selectors {
			expression += " " + selectors[i].CEL.Expression
		}
		judged = append(judged, slice.Name+" "+class.Name+expression)
		return nil
	})
	published, err := f.plugin.manager.ResourceSlices().ListWithDeviceTaintRules()
	noError(t, err)
	all := func(sort string) (want []string) {
		for _, slice := range published {
			want = append(want, slice.Name+" "+sort)
		}
		return want
	}
	// One after the other.
	for _, step := range []struct {
		name string
		seen func()
		want []string
	}{
		{"a slice that nobody wants", func() { foresight.seeSlice(published[0]) }, nil},
		{"a claim", func() { foresight.seeClaim(makeClaim("c1")) }, all(gpuClass)},
		{"another like it", func() { foresight.seeClaim(makeClaim("c2")) }, nil},
		{"a claim with a selector", func() { foresight.seeClaim(forSelected("c3", "x")) }, all(gpuClass + " x")},
		{"alternatives", func() { foresight.seeClaim(either) }, slices.Concat(all(gpuClass+" a"), all(gpuClass+" b"))},
		{"a claim that has its devices", func() { foresight.seeClaim(allocated) }, nil},
		{"a class that does not exist", func() { foresight.seeClaim(otherClass) }, nil},
		{"another slice", func() { foresight.seeSlice(another) }, []string{"another " + gpuClass, "another " + gpuClass + " a", "another " + gpuClass + " b", "another " + gpuClass + " x"}},
		{"the class has changed", func() { foresight.seeClass(class) }, slices.Concat(all(gpuClass), all(gpuClass+" a"), all(gpuClass+" b"), all(gpuClass+" x"))},
	} {
		judged = nil
		step.seen()
		foresight.work(f.ctx)
		slices.Sort(judged)
		slices.Sort(step.want)
		if diff := cmp.Diff(step.want, judged); diff != "" {
			t.Errorf("%s: judged (-want +got):\n%s", step.name, diff)
		}
	}
	for i := range 2 * maxForeseen {
		foresight.seeClaim(forSelected("many", fmt.Sprint(i)))
	}
	if got := len(foresight.wants); got != maxForeseen {
		t.Errorf("%d sorts are judged ahead, want %d", got, maxForeseen)
	}
}

// What the plugin sees of the cluster comes to be judged by itself.
func TestDevicesAreJudgedInTheBackground(t *testing.T) {
	f := newFixture(t, cluster(map[string]int{"n1": 2})...)
	ctx, cancel := context.WithCancel(f.ctx)
	judged := make(chan string)
	foresight := newForesight(f.plugin.manager, func(slice *resourceapi.ResourceSlice, _ *resourceapi.DeviceClass, _ []resourceapi.DeviceSelector) []bool {
		select {
		case judged <- slice.Name:
		case <-ctx.Done():
		}
		return nil
	})
	noError(t, foresight.watch(f.plugin.handle.SharedInformerFactory()))
	ended := make(chan struct{})
	go func() { defer close(ended); foresight.run(ctx) }()
	_, err := f.client.ResourceV1().ResourceClaims(namespace).Create(ctx, makeClaim("c"), metav1.CreateOptions{})
	noError(t, err)
	if got := <-judged; got == "" {
		t.Error("a slice without a name was judged")
	}
	cancel()
	<-ended
}
