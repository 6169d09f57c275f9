// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podgang/podgang-scheduler/test/observe"
)

// The tests here play a second scheduler, which allocates a device that ours has chosen
// and not written yet. The API server does not keep them from it.

// otherScheduler is the scheduler name of what the test schedules itself.
const otherScheduler = "another-scheduler"

// capture remembers the claim that a request writes.
type capture struct {
	mu    sync.Mutex // guards claim
	claim *resourcev1.ResourceClaim
}

// allocationOf matches the write of an allocation to the claims whose names begin with
// prefix, and captures it.
func (c *capture) allocationOf(namespace, prefix string) func(*http.Request) bool {
	matches := claimWrite(namespace, prefix)
	return func(r *http.Request) bool {
		if !matches(r) || !strings.HasSuffix(r.URL.Path, "/status") {
			return false
		}
		body, err := io.ReadAll(r.Body) // from memory: see gate.ServeHTTP
		if err != nil {
			return false
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		claim, ok := object.(*resourcev1.ResourceClaim)
		if err != nil || !ok || claim.Status.Allocation == nil {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.claim = claim
		return true
	}
}

func (c *capture) get() *resourcev1.ResourceClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claim
}

// foreign has another scheduler bind a pod with a claim, giving it an allocation.
func (s *scenario) foreign(name string, allocation *resourcev1.AllocationResult, spec resourcev1.ResourceClaimSpec) {
	s.t.Helper()
	s.claim(name, spec)
	pod := s.pod(name, claim(name), scheduledBy(otherScheduler))
	claims := s.client().ResourceV1().ResourceClaims(s.ns)
	s.retryConflict(func() error {
		c, err := claims.Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Status.Allocation = allocation
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
		c, err = claims.UpdateStatus(s.ctx, c, metav1.UpdateOptions{})
		if err == nil {
			s.seen(c)
		}
		return err
	})
	s.must(s.client().CoreV1().Pods(s.ns).Bind(s.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: allocation.Devices.Results[0].Pool},
	}, metav1.CreateOptions{}))
	s.bound(name)
}

// A device of the member in the middle is given away before the gang's write of it.
func TestDeviceGivenAwayByAnotherScheduler(t *testing.T) {
	for _, tc := range []struct {
		name string
		// devices is how many there are for a gang of three.
		devices int
	}{
		{"and there is another", 4},
		{"and there is no other", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, gatedLab)
			class := s.ownClass()
			node := s.node("x", publishes(class, like(device("d"), tc.devices)...))
			spec := claimSpec(request("one", class, 1))
			s.template("one", spec)
			conflicts := s.metric(s.scheduler(), "podgang_scheduler_rollbacks_total", "cause", "conflict")
			var ours capture
			write := s.hold(ours.allocationOf(s.ns, "g-1-"))
			pods := names("g", 3)
			s.gang("g", group("w", 3, pods...))
			s.members("g", 3, fromTemplate("one", "one"))
			s.waitMet(write, 1)
			s.allocatedFor(pods[0], pods[2])
			taken := ours.get().Status.Allocation.DeepCopy()
			taken.AllocationTimestamp = nil
			s.foreign("foreign", taken, spec)
			s.neverBound(pods...)
			seen := len(s.c.history.of(s.ns))
			write.release()

			// The gang gives everything back before it holds anything else.
			s.allCleared(seen, pods...)
			device := taken.Devices.Results[0].Device
			s.tells("g", "GangUndone", device, s.ns+"/foreign", observe.ClaimNames(s.getPod(pods[1]))[0])
			s.until("the counter of conflicts has grown by 1", func() string {
				if now := s.metric(s.scheduler(), "podgang_scheduler_rollbacks_total", "cause", "conflict"); now != conflicts+1 {
					return "it has not"
				}
				return ""
			})
			if tc.devices == 3 {
				s.unschedulable(pods, "group w needs 3 pods", "room for 2")
				s.neverBound(pods...)
				s.nothingAllocated(pods...)
				s.deletePods("foreign")
				s.must(s.client().ResourceV1().ResourceClaims(s.ns).Delete(s.ctx, "foreign", metav1.DeleteOptions{}))
			}
			s.bound(pods...)
			s.haveDevices(1, pods...)
			s.onNode(node, pods...)
			if tc.devices == 4 {
				for _, name := range pods {
					if got := deviceNames(s.devicesOf(name)); slices.Contains(got, node+"/"+device) {
						t.Errorf("pod %s has device %s, which another scheduler has allocated", name, device)
					}
				}
			}
			doubled := s.c.history.forgetDoubled(class)
			if len(doubled) != 1 || !strings.Contains(doubled[0], class+"/"+node+"/"+device) {
				t.Errorf("expected device %s alone to have been in two claims, once: %q", device, doubled)
			}
		})
	}
}
