// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/grove/operator"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// podOfGroup is the first bound pod of a PodClique.
func (s *scenario) podOfGroup(name string) *corev1.Pod {
	s.t.Helper()
	for _, pod := range s.pods() {
		if pod.Labels[v1alpha1.LabelPodClique] == name && observe.Live(pod) && pod.Spec.NodeName != "" {
			return pod
		}
	}
	s.t.Fatalf("no pod of PodClique %s is bound: %s", name, s.makeUp())
	return nil
}

// replacementOf waits for the pod that takes a deleted pod's place.
func (s *scenario) replacementOf(old *corev1.Pod) *corev1.Pod {
	s.t.Helper()
	var found *corev1.Pod
	s.until("pod "+old.Name+" is replaced", func() string {
		for _, pod := range s.podsOf(old.Labels[v1alpha1.LabelPodGang]) {
			if pod.UID != old.UID && pod.Labels[v1alpha1.LabelPodClique] == old.Labels[v1alpha1.LabelPodClique] &&
				pod.Labels["grove.io/podclique-pod-index"] == old.Labels["grove.io/podclique-pod-index"] {
				found = pod
				return ""
			}
		}
		return "it is not"
	})
	return found
}

// uids are the UIDs of the pods of the workload.
func (s *scenario) uids() []types.UID {
	var uids []types.UID
	for _, pod := range s.pods() {
		uids = append(uids, pod.UID)
	}
	return uids
}

// onlyReplaced checks that of the pods that were there, all are there but these.
func (s *scenario) onlyReplaced(before []types.UID, gone ...*corev1.Pod) {
	s.t.Helper()
	now := s.uids()
	for _, uid := range before {
		lost := slices.ContainsFunc(gone, func(p *corev1.Pod) bool { return p.UID == uid })
		if !lost && !slices.Contains(now, uid) {
			s.t.Errorf("the pod with UID %s is gone too", uid)
		}
	}
}

// wasGated checks that the pod was created with Grove's gate.
func (s *scenario) wasGated(pod *corev1.Pod) {
	s.t.Helper()
	for _, c := range s.c.recorder.of(s.ns) {
		if first, ok := c.object.(*corev1.Pod); ok && first.UID == pod.UID {
			if len(first.Spec.SchedulingGates) == 0 {
				s.t.Errorf("pod %s was created without a gate", pod.Name)
			}
			return
		}
	}
	s.t.Errorf("pod %s was never seen", pod.Name)
}

// A bound pod that is deleted is created again and scheduled alone, onto the room that it
// has left: the others stay.
func TestReplacementIsScheduledAlone(t *testing.T) {
	for _, generation := range []operator.Generation{operator.GenerationA, operator.GenerationB, operator.GenerationC} {
		t.Run(string(generation), func(t *testing.T) {
			s := newScenario(t, 10, 0)
			s.start(workload1(), generation)
			s.checkpoint(10, 0)
			before, victim := s.uids(), s.podOfGroup("workload1-0-sg-x-1-pc-c")
			s.deletePod(victim)
			replacement := s.replacementOf(victim)
			s.checkpoint(10, 0)
			s.wasGated(replacement)
			s.onlyReplaced(before, victim)
			if pod := observe.Get[*corev1.Pod](s.c.recorder.State, s.ns, replacement.Name); pod.Spec.NodeName != victim.Spec.NodeName {
				t.Errorf("the replacement is on node %s, want %s, where there was room", pod.Spec.NodeName, victim.Spec.NodeName)
			}
			s.readyOnDistinctNodes()
		})
	}
}

// The room of a pod that is being deleted is not free before it is gone, while its
// replacement is there already.
func TestReplacementWaitsForTheRoomOfATerminatingPod(t *testing.T) {
	s := newScenario(t, 10, 0)
	s.start(workload1(), operator.GenerationB)
	s.checkpoint(10, 0)
	before, victim := s.uids(), s.podOfGroup("workload1-0-pc-a")
	s.mayLack["workload1-0"] = true
	s.setFinalizers(victim, "test.podgang.dev/hold")
	s.deletePod(victim)
	replacement := s.replacementOf(victim)
	s.until("the replacement is refused", func() string {
		pod := observe.Get[*corev1.Pod](s.c.recorder.State, s.ns, replacement.Name)
		if c := observe.Scheduled(pod); c == nil || c.Reason != corev1.PodReasonUnschedulable {
			return describe(pod)
		}
		return ""
	})
	s.drain()
	if pod := observe.Get[*corev1.Pod](s.c.recorder.State, s.ns, replacement.Name); pod.Spec.NodeName != "" {
		t.Fatalf("the victim is still there, and the replacement is bound: %s", describe(pod))
	}
	s.setFinalizers(victim)
	s.checkpoint(10, 0)
	s.onlyReplaced(before, victim)
	s.readyOnDistinctNodes()
}

func (s *scenario) setFinalizers(pod *corev1.Pod, finalizers ...string) {
	s.t.Helper()
	list := "null"
	if len(finalizers) > 0 {
		list = `["` + strings.Join(finalizers, `","`) + `"]`
	}
	_, err := s.c.Client.CoreV1().Pods(s.ns).Patch(s.ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{})
	s.must(err)
}

// A replica of a scaling group is lost while there is room for one pod: two floors are
// missing, and their pods come together.
func TestMissingFloorsOfABoundGangComeTogether(t *testing.T) {
	s := newScenario(t, 12, 2)
	s.start(workload2(), operator.GenerationB)
	s.checkpoint(10, 0)
	before := s.uids()
	s.mayLack["workload2-0"] = true
	var victims []*corev1.Pod
	for _, pod := range s.pods() {
		if strings.HasPrefix(pod.Labels[v1alpha1.LabelPodClique], "workload2-0-sg-x-0-") {
			victims = append(victims, pod)
			s.cordonNode(pod.Spec.NodeName)
		}
	}
	for _, victim := range victims {
		s.deletePod(victim)
	}
	s.checkpoint(6, 4)
	s.uncordon(1)
	s.checkpoint(6, 4)
	s.uncordon(1)
	s.checkpoint(8, 2)
	if bound, floors := s.boundOf(observe.Get[*v1alpha1.PodGang](s.c.recorder.State, s.ns, "workload2-0")); !floors {
		t.Errorf("%d pods of the base gang are bound, and not every floor is: %s", bound, s.makeUp())
	}
	s.onlyReplaced(before, victims...)
	s.must(s.c.cordon(s.ctx, 0, 12, false))
	s.checkpoint(10, 0)
	s.readyOnDistinctNodes()
}

// The base gang is below its floor: the gate of a replacement in its scaled gang stays,
// and room that comes free there goes to the base.
func TestScaledGangWaitsForItsBaseAgain(t *testing.T) {
	s := newScenario(t, 10, 0)
	s.start(workload2(), operator.GenerationB)
	s.checkpoint(10, 0)
	s.mayLack["workload2-0"] = true
	base, scaled := s.podOfGroup("workload2-0-sg-x-0-pc-b"), s.podOfGroup("workload2-0-sg-x-1-pc-c")
	s.cordonNode(base.Spec.NodeName)
	s.deletePod(base)
	s.checkpoint(9, 1)
	s.deletePod(scaled)
	s.checkpoint(9, 1)
	if pod := s.replacementOf(base); pod.Spec.NodeName != scaled.Spec.NodeName {
		t.Errorf("expected the base's replacement on node %s: %s", scaled.Spec.NodeName, describe(pod))
	}
	if pod := s.replacementOf(scaled); pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0 {
		t.Errorf("expected that the scaled gang's replacement waits without gate: %s", describe(pod))
	}
	s.must(s.c.cordonNode(s.ctx, base.Spec.NodeName, false))
	s.checkpoint(10, 0)
	s.readyOnDistinctNodes()
}

// Gangs vanish when the workload is scaled in, waiting ones and bound ones, and what they
// had is free.
func TestScalingIn(t *testing.T) {
	for _, generation := range []operator.Generation{operator.GenerationB, operator.GenerationC} {
		t.Run(string(generation), func(t *testing.T) {
			s := newScenario(t, 14, 3)
			s.start(workload1(), generation)
			s.checkpoint(10, 0)
			s.op.ScaleGroup(0, scalingGroup, 3)
			s.checkpoint(10, 4) // there is room for one of the four
			s.op.ScaleGroup(0, scalingGroup, 2)
			s.checkpoint(10, 0)
			s.op.ScaleClique(0, "pc-a", 3)
			s.checkpoint(11, 0)
			s.op.ScaleClique(0, "pc-a", 2)
			s.checkpoint(10, 0)
			s.op.ScaleGroup(0, scalingGroup, 3)
			s.checkpoint(10, 4)
			s.uncordon(3)
			s.checkpoint(14, 0)
			s.op.Scale(2)
			s.checkpoint(14, 10)
			s.op.Scale(0)
			s.checkpoint(0, 0)
			s.op.Scale(1)
			s.checkpoint(14, 0) // the scaling group is still at 3
			s.readyOnDistinctNodes()
		})
	}
}
