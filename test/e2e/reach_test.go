// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The tests here are of a claim that members of a gang share, for a device that several
// nodes reach, as those of a fabric: it pins the members to a set of nodes, not to one.

// fabricLabel is on the nodes that reach the devices of a fabric.
const fabricLabel = "e2e.test/fabric"

func inFabric(name string) nodeOption { return labelled(fabricLabel, name) }

// fabric publishes devices, in a pool of the fabric's name, that the nodes with its label
// reach; "" is a fabric that all nodes reach.
func (s *scenario) fabric(name, class string, devices ...resourcev1.Device) {
	s.t.Helper()
	spec := resourcev1.ResourceSliceSpec{Driver: class, Devices: devices}
	if name == "" {
		name, spec.AllNodes = "everywhere", ptr.To(true)
	} else {
		spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: fabricLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
		}}}
	}
	spec.Pool = resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: s.ns + "-" + name}, Spec: spec}
	client := s.client().ResourceV1().ResourceSlices()
	_, err := client.Create(s.ctx, slice, metav1.CreateOptions{})
	s.must(err)
	s.restore = append(s.restore, func(ctx context.Context) error {
		return client.Delete(ctx, slice.Name, metav1.DeleteOptions{})
	})
}

// across checks that there are so many of the pods on each of the nodes.
func (s *scenario) across(each int, nodes []string, pods ...string) {
	s.t.Helper()
	count := map[string]int{}
	for _, name := range pods {
		count[s.getPod(name).Spec.NodeName]++
	}
	for _, node := range nodes {
		if count[node] != each {
			s.t.Errorf("%d of %v are on node %s, want %d: %v", count[node], pods, node, each, count)
		}
	}
}

// inPool checks that a claim has devices of one pool only.
func (s *scenario) inPool(claim, pool string) {
	s.t.Helper()
	for _, r := range s.namedClaim(claim).Status.Allocation.Devices.Results {
		if r.Pool != pool {
			s.t.Errorf("claim %s has device %s of pool %s, want %s", claim, r.Device, r.Pool, pool)
		}
	}
}

// Every node has CPU for two members of four.
func TestSharedClaimThatSeveralNodesReach(t *testing.T) {
	two := limitedCPU("4")
	pods := names("g", 4)
	for _, tc := range []struct {
		name string
		// prepare returns the nodes on which the members are to be, and the pool.
		prepare func(s *scenario, class string) (nodes []string, pool string)
	}{
		{"by a selector", func(s *scenario, class string) ([]string, string) {
			s.node("a", two)
			nodes := []string{s.node("b", two, inFabric("x")), s.node("c", two, inFabric("x"))}
			s.node("d", limitedCPU("16"))
			s.fabric("x", class, device("link"))
			return nodes, "x"
		}},
		{"by being a node", func(s *scenario, class string) ([]string, string) {
			nodes := []string{s.node("a", two), s.node("b", two)}
			s.fabric("", class, device("link"))
			return nodes, "everywhere"
		}},
		{"in the second of three fabrics", func(s *scenario, class string) ([]string, string) {
			s.node("a", two, inFabric("x"))
			nodes := []string{s.node("b", two, inFabric("y")), s.node("c", two, inFabric("y"))}
			s.node("d", two, inFabric("z"))
			for _, name := range []string{"x", "y", "z"} {
				s.fabric(name, class, device("link"))
			}
			return nodes, "y"
		}},
		{"in the fabric whose device is free", func(s *scenario, class string) ([]string, string) {
			s.node("a", two, inFabric("x"))
			s.node("b", two, inFabric("x"))
			s.fabric("x", class, device("link"))
			s.claim("taken", claimSpec(request("link", class, 1)))
			s.plainPods([]string{"solo"}, claim("taken"))
			s.fabric("y", class, device("link"))
			return []string{s.node("c", two, inFabric("y")), s.node("d", two, inFabric("y"))}, "y"
		}},
		{"in the fabric where the claim is in use", func(s *scenario, class string) ([]string, string) {
			first := s.node("a", two, inFabric("x"))
			s.fabric("x", class, device("link"))
			s.plainPods([]string{"outside"}, claim("common"))
			second := s.node("b", two, inFabric("x"))
			s.node("c", two, inFabric("y"))
			s.node("d", two, inFabric("y"))
			s.fabric("y", class, device("link"))
			return []string{first, second}, "x"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			class := s.ownClass()
			s.claim("common", claimSpec(request("link", class, 1)))
			nodes, pool := tc.prepare(s, class)
			s.gang("g", group("w", 4, pods...))
			s.members("g", 4, claim("common"), cpu("2"), inRoom(s.ns))
			s.bound(pods...)
			s.across(2, nodes, pods...)
			s.inPool("common", pool)
			users := pods
			if s.getPod("outside") != nil {
				users = append([]string{"outside"}, pods...)
			}
			s.usersOf("common", users...)
		})
	}
}

// Each member has a device of its node besides, of which there is one on a node.
func TestSharedClaimOfAFabricBesideOwnClaims(t *testing.T) {
	s := shared(t)
	class := s.ownClass()
	kind := func(name string) func(*resourcev1.ExactDeviceRequest) {
		return selecting(`device.attributes["` + class + `"].kind == "` + name + `"`)
	}
	own := publishes(class, device("core", "kind", "core"))
	var nodes []string
	for _, suffix := range names("x", 3) {
		nodes = append(nodes, s.node(suffix, own, inFabric("x")))
	}
	s.node("a", own)
	s.node("z", own, inFabric("z"))
	s.fabric("x", class, device("link", "kind", "link"))
	s.fabric("z", class, device("link", "kind", "link"))
	s.claim("common", claimSpec(changed(request("link", class, 1), kind("link"))))
	s.template("core", claimSpec(changed(request("core", class, 1), kind("core"))))
	pods := names("g", 3)
	s.gang("g", group("w", 3, pods...))
	s.members("g", 3, claim("common"), fromTemplate("own", "core"))
	s.bound(pods...)
	s.across(1, nodes, pods...)
	s.usersOf("common", pods...)
	s.inPool("common", "x")
	for _, name := range pods {
		s.allocatedFor(name)
		for _, c := range s.claimsOf(s.getPod(name)) {
			if c.Name == "common" {
				continue
			}
			if got, want := deviceNames(c.Status.Allocation.Devices.Results), []string{s.getPod(name).Spec.NodeName + "/core"}; !slices.Equal(got, want) {
				t.Errorf("pod %s has %v of its own, want %v", name, got, want)
			}
		}
	}
}

// The nodes that reach the device have no room for all: the gang waits, whatever room
// there is elsewhere, until one more does.
func TestSharedClaimOfAFabricWithoutRoomForAll(t *testing.T) {
	for _, outside := range []bool{false, true} {
		name := "the claim is new"
		if outside {
			name = "the claim is in use"
		}
		t.Run(name, func(t *testing.T) {
			s := shared(t)
			class := s.ownClass()
			s.claim("common", claimSpec(request("link", class, 1)))
			nodes := []string{s.node("a", limitedCPU("4"), inFabric("x")), s.node("b", limitedCPU("2"), inFabric("x"))}
			s.node("c", limitedCPU("32"))
			s.fabric("x", class, device("link"))
			pods := names("g", 4)
			users := slices.Clone(pods)
			if outside {
				s.plainPods([]string{"outside"}, claim("common"))
				users = append(users, "outside")
			}
			s.gang("g", group("w", 4, pods...))
			s.members("g", 4, claim("common"), cpu("2"))
			s.unschedulable(pods, "group w needs 4 pods", "cpu")
			s.holdsNoShare(pods...)
			s.setAllocatable(nodes[1], corev1.ResourceCPU, "4")
			s.bound(pods...)
			s.across(2, nodes, pods...)
			s.usersOf("common", users...)
		})
	}
}
