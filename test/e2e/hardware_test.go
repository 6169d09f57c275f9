// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// ownDriver is the name of a DRA driver whose devices only this scenario has. Its class
// has the same name.
func (s *scenario) ownDriver() string { return s.ns + ".test" }

// ownClass creates the DeviceClass of the scenario's own driver, and returns its name.
func (s *scenario) ownClass() string {
	s.t.Helper()
	s.deviceClass(s.ownDriver(), fmt.Sprintf("device.driver == %q", s.ownDriver()))
	return s.ownDriver()
}

// where selects devices by a CEL expression.
func where(expression string) resourcev1.DeviceSelector {
	return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}
}

// device is a device with string attributes, given as name and value in turn.
func device(name string, attributes ...string) resourcev1.Device {
	d := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
	for pair := range slices.Chunk(attributes, 2) {
		d.Attributes[resourcev1.QualifiedName(pair[0])] = resourcev1.DeviceAttribute{StringValue: &pair[1]}
	}
	return d
}

// like makes n copies of a device, <name>-0 and so on.
func like(d resourcev1.Device, n int) []resourcev1.Device {
	var all []resourcev1.Device
	for _, name := range names(d.Name, n) {
		next := d.DeepCopy()
		next.Name = name
		all = append(all, *next)
	}
	return all
}

// publishes gives the node devices of a driver.
func publishes(driver string, devices ...resourcev1.Device) nodeOption {
	return func(s *shape.Shape) { addSlices(s, driver, resourcev1.ResourceSliceSpec{Devices: devices}) }
}

// partitions gives the node devices that share counters. The API wants counters and
// devices in slices of their own.
func partitions(driver string, counters resourcev1.CounterSet, devices ...resourcev1.Device) nodeOption {
	return func(s *shape.Shape) {
		addSlices(s, driver,
			resourcev1.ResourceSliceSpec{SharedCounters: []resourcev1.CounterSet{counters}},
			resourcev1.ResourceSliceSpec{Devices: devices})
	}
}

// addSlices gives the node a pool of a driver's, in its name.
func addSlices(s *shape.Shape, driver string, specs ...resourcev1.ResourceSliceSpec) {
	node := s.Nodes[0].Name
	for i, spec := range specs {
		spec.Driver, spec.NodeName = driver, &node
		spec.Pool = resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(len(specs))}
		s.Slices = append(s.Slices, &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", node, len(s.Slices)+i)}, Spec: spec,
		})
	}
}

// editDevices changes the devices that a driver publishes on a node.
func (s *scenario) editDevices(node, driver string, change func([]resourcev1.Device)) {
	s.t.Helper()
	slices := s.client().ResourceV1().ResourceSlices()
	s.retryConflict(func() error {
		all, err := slices.List(s.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node + ",spec.driver=" + driver})
		if err != nil {
			return err
		}
		for i := range all.Items {
			change(all.Items[i].Spec.Devices)
			if _, err := slices.Update(s.ctx, &all.Items[i], metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// changed is a request for devices that is changed.
func changed(r resourcev1.DeviceRequest, changes ...func(*resourcev1.ExactDeviceRequest)) resourcev1.DeviceRequest {
	for _, change := range changes {
		change(r.Exactly)
	}
	return r
}

// all asks for every device of a node.
func all(r *resourcev1.ExactDeviceRequest) {
	r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 0
}

// asAdmin asks for devices whoever else has them.
func asAdmin(r *resourcev1.ExactDeviceRequest) { r.AdminAccess = ptr.To(true) }

// tolerating takes devices with a taint as well.
func tolerating(key string) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) {
		r.Tolerations = []resourcev1.DeviceToleration{{Key: key, Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	}
}

// capacity asks for a part of a device.
func capacity(name resourcev1.QualifiedName, quantity string) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) {
		r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{name: resource.MustParse(quantity)}}
	}
}

// selecting takes devices only for which a CEL expression is true.
func selecting(expression string) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) { r.Selectors = append(r.Selectors, where(expression)) }
}

// devicesOf waits until the claims of a bound pod are allocated and reserved for it, and
// returns what they got.
func (s *scenario) devicesOf(name string) []resourcev1.DeviceRequestAllocationResult {
	s.t.Helper()
	var results []resourcev1.DeviceRequestAllocationResult
	s.until("the claims of "+name+" are allocated and reserved for it", func() string {
		results = nil
		pod := s.getPod(name)
		claims := s.claimsOf(pod)
		if len(claims) != len(pod.Spec.ResourceClaims) {
			return fmt.Sprintf("it has %d claims", len(claims))
		}
		for _, c := range claims {
			if c.Status.Allocation == nil || !reservedFor(c, pod) {
				return c.Name + " is not"
			}
			results = append(results, c.Status.Allocation.Devices.Results...)
		}
		return ""
	})
	for _, r := range results {
		// Every pool here is of one node and has its name.
		if node := s.getPod(name).Spec.NodeName; r.Pool != node {
			s.t.Errorf("pod %s is on %s and has device %s of %s", name, node, r.Device, r.Pool)
		}
	}
	return results
}

// deviceNames are pool and name of the devices, sorted.
func deviceNames(results []resourcev1.DeviceRequestAllocationResult) []string {
	var list []string
	for _, r := range results {
		list = append(list, r.Pool+"/"+r.Device)
	}
	slices.Sort(list)
	return list
}

// haveDevices checks that the pods have n devices each, and none twice.
func (s *scenario) haveDevices(n int, pods ...string) {
	s.t.Helper()
	owner := map[string]string{}
	for _, pod := range pods {
		devices := deviceNames(s.devicesOf(pod))
		if len(devices) != n {
			s.t.Errorf("pod %s has devices %v, want %d", pod, devices, n)
		}
		for _, d := range devices {
			if other := owner[d]; other != "" {
				s.t.Errorf("pods %s and %s both have device %s", pod, other, d)
			}
			owner[d] = pod
		}
	}
}

// deviceMayRepeat says that devices of the scenario's own driver may be in several claims
// at once, which the common check takes for a fault. The test itself checks them.
func (s *scenario) deviceMayRepeat() {
	h := s.c.history
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sharing[s.ownDriver()] = true
}

// forgetDoubled removes a driver's devices from those that were in two claims, and
// returns what was removed.
func (h *history) forgetDoubled(driver string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var kept, removed []string
	for _, doubled := range h.doubled {
		if strings.HasPrefix(doubled, "device "+driver+"/") {
			removed = append(removed, doubled)
		} else {
			kept = append(kept, doubled)
		}
	}
	h.doubled = kept
	return removed
}

// setDeviceCondition writes a condition of every device of a pod's claims into the
// claims' status, as the devices' driver would.
func (s *scenario) setDeviceCondition(pod, condition string) {
	s.t.Helper()
	claims := s.client().ResourceV1().ResourceClaims(s.ns)
	for _, name := range observe.ClaimNames(s.getPod(pod)) {
		s.retryConflict(func() error {
			c, err := claims.Get(s.ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			c.Status.Devices = nil
			for _, r := range c.Status.Allocation.Devices.Results {
				c.Status.Devices = append(c.Status.Devices, resourcev1.AllocatedDeviceStatus{
					Driver: r.Driver, Pool: r.Pool, Device: r.Device,
					Conditions: []metav1.Condition{{
						Type: condition, Status: metav1.ConditionTrue, Reason: "Test", Message: "written by the test", LastTransitionTime: metav1.Now(),
					}},
				})
			}
			c, err = claims.UpdateStatus(s.ctx, c, metav1.UpdateOptions{})
			if err == nil {
				s.seen(c)
			}
			return err
		})
	}
}

// allocatedFor waits until every claim of the pods exists and is allocated and reserved
// for them.
func (s *scenario) allocatedFor(pods ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("the claims of %v are allocated and reserved for them", pods), func() string {
		return s.eachClaim(pods, func(pod *corev1.Pod, c *resourcev1.ResourceClaim) bool {
			return c.Status.Allocation != nil && reservedFor(c, pod)
		})
	})
}

// allCleared waits until each claim of the pods has had nothing, allocation, users or
// status of devices, in a record after the first n of the namespace.
func (s *scenario) allCleared(n int, pods ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("the claims of %v have been cleared", pods), func() string {
		cleared := map[string]bool{}
		for _, r := range s.c.history.of(s.ns)[n:] {
			if c, ok := r.object.(*resourcev1.ResourceClaim); ok && c.Status.Allocation == nil && len(c.Status.ReservedFor) == 0 && len(c.Status.Devices) == 0 {
				cleared[c.Name] = true
			}
		}
		return s.eachClaim(pods, func(_ *corev1.Pod, c *resourcev1.ResourceClaim) bool { return cleared[c.Name] })
	})
}

// eachClaim says of which claim of the pods the condition does not hold, or that a pod
// does not have all of its claims; "" if it holds of all.
func (s *scenario) eachClaim(pods []string, holds func(*corev1.Pod, *resourcev1.ResourceClaim) bool) string {
	s.t.Helper()
	for _, name := range pods {
		pod := s.getPod(name)
		claims := s.claimsOf(pod)
		if len(claims) != len(pod.Spec.ResourceClaims) {
			return fmt.Sprintf("%s has %d claims", name, len(claims))
		}
		for _, c := range claims {
			if !holds(pod, c) {
				return fmt.Sprintf("not so of claim %s", c.Name)
			}
		}
	}
	return ""
}

// limitedCPU sets how much CPU the node has.
func limitedCPU(quantity string) nodeOption { return allocatable(corev1.ResourceCPU, quantity) }

// labelled gives the node a label.
func labelled(key, value string) nodeOption {
	return func(s *shape.Shape) { s.Nodes[0].Labels[key] = value }
}
