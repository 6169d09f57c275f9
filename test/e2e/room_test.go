// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/test/observe"
)

// The tests here are of room that comes back, is not back yet, or must be left alone.

// A gang loses a member with its node. When the node is back, the gang gets it, whoever
// else waits, however old, and whatever back-off either is in.
func TestDrainedNodeGoesBackToItsGang(t *testing.T) {
	for _, tc := range []struct {
		name string
		// older says that the other pod waits before the member does.
		older bool
		// tries is how often the member fails before the node is back.
		tries int
	}{
		{"the other pod is younger", false, 0},
		{"the other pod is older", true, 0},
		{"the other pod is younger, and the member has failed often", false, 4},
		{"the other pod is older, and the member has failed often", true, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			nodes := s.slots(2, 8)
			pods := names("g", 2)
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, devices(8))
			s.bound(pods...)
			lost, kept := pods[0], pods[1]
			if s.getPod(lost).Spec.NodeName != nodes[1] {
				lost, kept = kept, lost
			}
			survivor := s.getPod(kept).UID
			s.cordon(true, nodes[1])
			other := func() {
				s.pod("other", devices(8))
				s.unschedulable([]string{"other"})
			}
			if tc.older {
				other()
			}
			s.deletePods(lost)
			lost = "g-2" // in its place
			s.setReferences("g", kept, lost)
			s.pod(lost, of("g"), devices(8))
			s.unschedulable([]string{lost})
			for i := range tc.tries {
				s.tryAgain(nodes[0], i)
			}
			if !tc.older {
				other()
			}
			s.holdsNothing(lost, "other")
			s.cordon(false, nodes[1])
			s.bound(lost)
			s.onNode(nodes[1], lost)
			s.holdsNothing("other")
			if pod := s.getPod(kept); pod == nil || pod.UID != survivor {
				t.Error("the member that ran on is gone")
			}
		})
	}
}

// tryAgain has pods that wait for devices tried in vain: a device on a node that is in
// use changes. It returns when the gang has been tried.
func (s *scenario) tryAgain(node string, round int) {
	s.t.Helper()
	before := s.cycles()
	s.editDevices(node, s.ownDriver(), func(devices []resourcev1.Device) {
		if devices[0].Attributes == nil {
			devices[0].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
		}
		devices[0].Attributes["round"] = resourcev1.DeviceAttribute{IntValue: ptr.To(int64(round))}
	})
	s.triedAgain(before)
}

// One of three pods fits beside pods that are being deleted, while bindings are slow.
// The room of a pod that goes is free when it is gone, that of a pod that comes is taken
// when it is decided.
func TestOneSlotIsNotGivenAwayThreeTimes(t *testing.T) {
	for _, gangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("gangs %t", gangs), func(t *testing.T) {
			s := newScenario(t, gatedLab)
			s.unattendedNode("a", allocatable(corev1.ResourceMemory, "21Gi"))
			leaving := names("leaving", 3)
			s.plainPods(leaving, inRoom(s.ns), memory("5Gi"), slowToStop)
			for _, name := range leaving {
				s.setPodPhase(name, corev1.PodRunning)
				s.must(s.client().CoreV1().Pods(s.ns).Delete(s.ctx, name, metav1.DeleteOptions{}))
			}
			coming := names("coming", 3)
			slow := s.hold(bindingsOf(s.ns, coming...))
			for _, name := range coming {
				opts := []podOption{inRoom(s.ns), memory("5Gi")}
				if gangs {
					s.gang(name, group("w", 1, name))
					opts = append(opts, of(name))
				}
				s.pod(name, opts...)
			}
			s.waitMet(slow, 1)
			var waiting []string
			s.until("two of three pods are refused", func() string {
				waiting = nil
				for _, name := range coming {
					if c := observe.Scheduled(s.getPod(name)); c != nil && c.Status == corev1.ConditionFalse {
						waiting = append(waiting, name)
					}
				}
				if len(waiting) != 2 {
					return fmt.Sprintf("%v are", waiting)
				}
				return ""
			})
			s.holdsNothing(coming...)
			slow.release()
			s.boundOf(1, coming...)
			s.unschedulable(waiting, "memory")
			s.holdsNothing(waiting...)
			s.overNow()
			s.endedByForce(leaving...)
			s.bound(coming...)
		})
	}
}

// overNow checks that no node has more than it can hold, pods that are being deleted
// counted.
func (s *scenario) overNow() {
	s.t.Helper()
	if over := s.overcommitted(s.ctx); over != "" {
		s.t.Errorf("overcommitted: %s", over)
	}
}

// endedByForce removes pods that are being deleted, as their kubelet would.
func (s *scenario) endedByForce(list ...string) {
	s.t.Helper()
	for _, name := range list {
		s.must(s.client().CoreV1().Pods(s.ns).Delete(s.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
}

// A gang of sixteen for eighteen nodes of which four are cordoned fails time and again.
// It leaves nothing behind: others can have every device, and when the nodes are back
// the next attempt succeeds.
func TestFailedAttemptsLeaveNoDeviceTaken(t *testing.T) {
	const nodes, cordoned, size = 18, 4, 16
	s := shared(t)
	list := s.slots(nodes, 5) // one of the five stands for the channel of the node
	s.cordon(true, list[:cordoned]...)
	s.template("channel", claimSpec(request("channel", s.ownDriver(), 1)))
	pods := names("g", size)
	s.gang("g", group("w", size, pods...))
	s.manyPods(pods, of("g"), devices(4), fromTemplate("channel", "channel"))
	s.unschedulable(pods, fmt.Sprintf("group w needs %d pods", size), fmt.Sprintf("room for %d", nodes-cordoned))
	for range 5 { // two attempts each
		s.cordon(false, list[0])
		s.unschedulable(pods[:1], fmt.Sprintf("room for %d", nodes-cordoned+1))
		s.cordon(true, list[0])
		// Less room is no reason to try again; a pod that goes is one.
		s.plainPods([]string{"passer-by"}, inRoom(s.ns), devices(1))
		s.deletePods("passer-by")
		s.unschedulable(pods[:1], fmt.Sprintf("room for %d", nodes-cordoned))
	}
	s.holdsNothing(pods...)
	users := names("user", nodes-cordoned)
	s.manyPods(users, inRoom(s.ns), devices(5))
	s.bound(users...)
	s.deletePods(users...)
	refused := s.metric(s.scheduler(), "podgang_scheduler_plan_duration_seconds_count", "result", "unschedulable")
	s.cordon(false, list[:cordoned-1]...) // of four, the last but one does
	s.bound(pods...)
	s.haveDevices(5, pods...)
	again := s.metric(s.scheduler(), "podgang_scheduler_plan_duration_seconds_count", "result", "unschedulable") - refused
	if again > cordoned { // one for each node that is not enough, and what was on its way
		t.Errorf("%.0f attempts failed when there was room again", again)
	}
}

// Nine of ten run: the tenth counts on them.
func TestReplacementInAGangOfTen(t *testing.T) {
	s := shared(t)
	s.node("a", limitedCPU("10"))
	pods := names("g", 10)
	s.gang("g", group("a", 10, pods...))
	s.members("g", 10, inRoom(s.ns), cpu("1"))
	s.bound(pods...)
	s.deletePods(pods[9])
	pods[9] = "g-10" // in its place
	s.setReferences("g", pods...)
	s.pod(pods[9], of("g"), inRoom(s.ns), cpu("1"))
	s.bound(pods...)
}

// The floor rises and falls while the gang is kept from its nodes.
func TestFloorMovesWhileTheNodesAreCordoned(t *testing.T) {
	s := shared(t)
	nodes := s.slots(3, 1)
	s.cordon(true, nodes...)
	pods := names("g", 4)
	s.gang("g", group("a", 2, pods...))
	s.members("g", 4, devices(1))
	s.unschedulable(pods, "group a needs 2 pods", "room for none")
	s.setFloor("g", 4)
	s.unschedulable(pods, "group a needs 4 pods")
	s.cordon(false, nodes...)
	s.unschedulable(pods, "group a needs 4 pods", "room for 3")
	s.holdsNothing(pods...)
	s.setFloor("g", 3)
	s.boundOf(3, pods...)
}

// Members that ended are replaced while there is room for one, and then for two: one
// does not go without the other.
func TestTwoReplacementsComeTogether(t *testing.T) {
	s := shared(t)
	s.slots(4, 1)
	pods := names("g", 4)
	s.gang("g", group("a", 4, pods...))
	s.members("g", 4, devices(1))
	s.running(pods...)
	s.waitPhase("g", "Running")
	for _, name := range pods[:2] {
		s.setPodPhase(name, corev1.PodFailed)
	}
	s.takeSlot("solo")
	again := names("again", 2)
	s.setReferences("g", append(again, pods[2:]...)...)
	for _, name := range again {
		s.pod(name, of("g"), devices(1))
	}
	s.unschedulable(again, "group a needs 2 pods", "room for 1")
	s.holdsNothing(again...)
	s.deletePods("solo")
	s.bound(again...)
	s.waitPhase("g", "Running")
}
