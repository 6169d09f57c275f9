// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

// The tests here are of devices of several kinds: GPUs with a channel, or with a NIC,
// of the same node.

// ofKind is a request for devices of the scenario's driver with an attribute kind.
func ofKind(kind, class string, count int64) resourcev1.DeviceRequest {
	return changed(request(kind, class, count), selecting(`device.attributes["`+class+`"].kind == "`+kind+`"`))
}

// Each of 17 members wants all four GPUs of a node, and its one channel.
func TestOneVerdictWhereFewNodesHaveAChannel(t *testing.T) {
	for _, tc := range []struct {
		name     string
		channels int
	}{{"every node has one", 18}, {"5 of 18 nodes have one", 5}} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			class := s.ownClass()
			s.template("gpus", claimSpec(ofKind("gpu", class, 4)))
			s.template("channel", claimSpec(ofKind("channel", class, 1)))
			for n := range 18 {
				devices := like(device("gpu", "kind", "gpu"), 4)
				if n < tc.channels {
					devices = append(devices, device("channel", "kind", "channel"))
				}
				s.node(fmt.Sprintf("n%02d", n), publishes(class, devices...))
			}
			pods := names("g", 17)
			s.gang("g", group("w", 17, pods...))
			s.members("g", 17, fromTemplate("gpus", "gpus"), fromTemplate("channel", "channel"))
			if tc.channels == 18 {
				s.bound(pods...)
				s.haveDevices(5, pods...)
				return
			}
			s.unschedulable(pods, "group w needs 17 pods", "there is room for 5", "15 nodes: no "+class, "5 nodes: has room, and more is needed")
			s.holdsNothing(pods...)
			told := len(s.eventsOn("g"))
			s.tryAgain(s.ns+"-n17", 1)
			s.holdsNothing(pods...)
			if notes := s.eventsOn("g"); len(notes) != told {
				t.Errorf("the reason does not hold still: %q", notes)
			}
		})
	}
}

// Two members that fit on one node but for its one channel.
func TestChannelOfANode(t *testing.T) {
	t.Run("a claim each", func(t *testing.T) {
		s := shared(t)
		class := s.ownClass()
		s.template("channel", claimSpec(request("channel", class, 1)))
		pods := names("g", 2)
		s.node("x", publishes(class, device("channel")))
		s.gang("g", group("w", 2, pods...))
		s.members("g", 2, fromTemplate("channel", "channel"))
		s.unschedulable(pods, "group w needs 2 pods", "1× "+class, "room for 1", "of which 1 of 1 are free")
		s.holdsNothing(pods...)
		s.node("y", publishes(class, device("channel")))
		s.bound(pods...)
		if a, b := s.getPod(pods[0]).Spec.NodeName, s.getPod(pods[1]).Spec.NodeName; a == b {
			t.Errorf("both members are on %s, which has one channel", a)
		}
	})
	t.Run("one claim for both", func(t *testing.T) {
		s := shared(t)
		class := s.ownClass()
		s.claim("channel", claimSpec(request("channel", class, 1)))
		node := s.node("x", publishes(class, device("channel")))
		pods := names("g", 2)
		s.gang("g", group("w", 2, pods...))
		s.members("g", 2, claim("channel"))
		s.bound(pods...)
		s.onNode(node, pods...)
		s.usersOf("channel", pods...)
	})
}

// Eight GPUs and eight NICs. Of four pairs the two are under different PCIe roots, and
// only the attribute "rail" tells which belong together.
func TestGPUAndNICThatAgreeOnAnAttribute(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	var devices []resourcev1.Device
	for i := range 8 {
		gpuRoot, nicRoot := fmt.Sprintf("root-%d", i), fmt.Sprintf("root-%d", i)
		if i%2 == 1 {
			nicRoot = fmt.Sprintf("far-%d", i)
		}
		// NICs in the reverse order: the first GPU and the first NIC are no pair.
		devices = append(devices, device(fmt.Sprintf("gpu-%d", i), "kind", "gpu", "rail", fmt.Sprint(i), "root", gpuRoot))
		devices = slices.Insert(devices, 0, device(fmt.Sprintf("nic-%d", i), "kind", "nic", "rail", fmt.Sprint(i), "root", nicRoot))
	}
	node := s.node("x", publishes(class, devices...))
	for _, attribute := range []string{"root", "rail"} {
		name := resourcev1.FullyQualifiedName(class + "/" + attribute)
		spec := claimSpec(ofKind("gpu", class, 1), ofKind("nic", class, 1))
		spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &name}}
		s.template(attribute, spec)
	}
	roots := names("roots", 5)
	s.gang("roots", group("w", 5, roots...))
	s.members("roots", 5, fromTemplate("pair", "root"))
	s.unschedulable(roots, "group w needs 5 pods", "room for 4", "with equal "+class+"/root")
	s.holdsNothing(roots...)
	s.gone("roots", roots...)

	rails := names("rails", 8)
	s.gang("rails", group("w", 8, rails...))
	s.members("rails", 8, fromTemplate("pair", "rail"))
	s.bound(rails...)
	s.haveDevices(2, rails...)
	for _, pod := range rails {
		got := deviceNames(s.devicesOf(pod))
		if a, b := got[0][len(got[0])-1], got[1][len(got[1])-1]; a != b {
			t.Errorf("pod %s has %v of %s, which are on different rails", pod, got, node)
		}
	}
}
