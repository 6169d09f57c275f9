// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Which member leads cannot be told from outside: so each of them is deleted once.
func TestDeletedLeaderDoesNotStrandItsGang(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprintf("member %d", i), func(t *testing.T) {
			s := shared(t)
			s.takeGPU("solo")
			pods := names("g", 3)
			s.gang("g", group("w", 2, pods...))
			s.members("g", 3, gpu)
			s.unschedulable(pods, "room for 1")
			s.deletePods(pods[i])
			rest := append(append([]string{}, pods[:i]...), pods[i+1:]...)
			s.holdsNothing(rest...)
			s.deletePods("solo")
			s.bound(rest...)
		})
	}
}

func TestMemberDeletedWhileItsGangWaits(t *testing.T) {
	for i := range 2 {
		t.Run(fmt.Sprintf("member %d", i), func(t *testing.T) {
			s := shared(t)
			s.takeGPU("solo")
			pods := names("g", 2)
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.unschedulable(pods)
			s.deletePods(pods[i])
			s.deletePods("solo")
			// There is room for what is left of the gang, and more.
			s.waits([]string{pods[1-i]}, "1 of 2")
			s.tells("g", "1 of 2")
			s.holdsNothing(pods[1-i])
			s.gpusUsable(2)
			s.pod(pods[i], of("g"), gpu)
			s.bound(pods...)
		})
	}
}

func TestMemberThatComesLate(t *testing.T) {
	t.Run("beyond the floor", func(t *testing.T) {
		s := shared(t)
		s.gang("g", group("w", 1, names("g", 2)...))
		s.pod("g-0", of("g"), gpu)
		s.bound("g-0")
		s.pod("g-1", of("g"), gpu)
		s.bound("g-1")
	})
	t.Run("the floor was raised for it", func(t *testing.T) {
		s := shared(t)
		s.gang("g", group("w", 1, "g-0"))
		s.pod("g-0", of("g"), gpu)
		s.bound("g-0")
		s.editGang("g", func(spec *v1alpha1.PodGangSpec) { spec.PodGroups[0] = group("w", 2, names("g", 2)...) })
		s.pod("g-1", of("g"), gpu)
		s.bound("g-1")
	})
	t.Run("the floor was raised for two and there is room for one", func(t *testing.T) {
		s := shared(t)
		s.gang("g", group("w", 1, "g-0"))
		s.pod("g-0", of("g"), gpu)
		s.bound("g-0")
		s.editGang("g", func(spec *v1alpha1.PodGangSpec) { spec.PodGroups[0] = group("w", 3, names("g", 3)...) })
		late := []string{"g-1", "g-2"}
		for _, name := range late {
			s.pod(name, of("g"), gpu)
		}
		s.unschedulable(late, "2 pods", "room for 1")
		s.holdsNothing(late...)
		s.gpusUsable(1)
		s.node("third", gpus(1, "NVIDIA L40S"))
		s.bound(late...)
	})
}

func TestPodGangMayComeBeforeOrAfterItsPods(t *testing.T) {
	pods := names("g", 3)
	for _, before := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprintf("after %d pods", before), func(t *testing.T) {
			s := shared(t)
			for i, name := range pods {
				if i == before {
					s.gang("g", group("w", 3, pods...))
				}
				s.pod(name, of("g"), cpu("1"))
			}
			if before == len(pods) {
				s.holdsNothing(pods...)
				s.gang("g", group("w", 3, pods...))
			}
			s.bound(pods...)
		})
	}
}

func TestPodGangDeletedWhileItsPodsWait(t *testing.T) {
	s := shared(t)
	s.takeGPU("solo")
	labelled, listed := names("labelled", 2), names("listed", 2)
	s.gang("labelled", group("w", 2, labelled...))
	s.gang("unlabelled", group("w", 2, listed...))
	s.listedMembers("unlabelled", listed, gpu)
	s.members("labelled", 2, gpu)
	s.unschedulable(append(labelled, listed...))
	s.holdsNothing(append(labelled, listed...)...)

	// A label says that the pod needs a gang, whether there is one or not.
	s.deleteGang("labelled")
	s.waits(labelled, "does not exist")
	// Without label and without reference it is a pod as any other: one GPU, one pod.
	s.deleteGang("unlabelled")
	s.boundOf(1, listed...)
	s.deletePods("solo")
	s.bound(listed...)
	s.deletePods(listed...)
	s.gpusUsable(2)
	s.holdsNothing(labelled...)

	s.gang("labelled", group("w", 2, labelled...))
	s.bound(labelled...)
}

// The same name, another object.
func TestPodGangReplacedByOneOfTheSameName(t *testing.T) {
	s := shared(t)
	s.takeGPU("solo")
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.members("g", 2, gpu)
	s.unschedulable(pods)
	s.deleteGang("g")
	s.gang("g", group("w", 1, pods[1]), group("x", 1, pods[0]))
	s.unschedulable(pods, "PodGang")
	s.deletePods("solo")
	s.bound(pods...)
}

func TestReferenceToAPodThatDoesNotExist(t *testing.T) {
	t.Run("beyond the floor", func(t *testing.T) {
		s := shared(t)
		pods := names("g", 4)
		s.gang("g", group("w", 3, pods...))
		for _, name := range pods[:3] {
			s.pod(name, of("g"), cpu("1"))
		}
		s.bound(pods[:3]...)
		s.pod(pods[3], of("g"), cpu("1"))
		s.bound(pods[3])
	})
	t.Run("of the floor", func(t *testing.T) {
		s := shared(t)
		pods := names("g", 3)
		s.gang("g", group("w", 3, pods...))
		for _, name := range pods[:2] {
			s.pod(name, of("g"), gpu)
		}
		s.waits(pods[:2], "2 of 3")
		s.tells("g", "2 of 3")
		s.holdsNothing(pods[:2]...)
		s.gpusUsable(2)
		s.pod(pods[2], of("g"), cpu("1"))
		s.bound(pods...)
	})
}

// listedMembers creates pods without label that a gang lists, and releases them when the
// scheduler has seen the gang: before that they would be ordinary pods.
func (s *scenario) listedMembers(gang string, pods []string, opts ...podOption) {
	s.t.Helper()
	for _, name := range pods {
		s.pod(name, append([]podOption{gated}, opts...)...)
	}
	s.tells(gang, testGate)
	s.ungate(pods...)
}

// Nothing but the references says that the pods belong together.
func TestGangWithoutLabels(t *testing.T) {
	s := shared(t)
	s.takeGPU("loner")
	pods := []string{"one", "two"}
	s.gang("g", group("w", 2, pods...))
	s.listedMembers("g", pods, gpu)
	s.unschedulable(pods, "room for 1")
	s.holdsNothing(pods...)
	s.deletePods("loner")
	s.bound(pods...)
}

func TestLabelledPodThatIsNotListedWaits(t *testing.T) {
	s := shared(t)
	s.gang("g", group("w", 2, names("g", 2)...))
	s.pod("other", of("g"), gpu)
	s.waits([]string{"other"}, "not listed")
	s.holdsNothing("other")
	// It does not count as one of the two either.
	s.pod("g-0", of("g"), gpu)
	s.waits([]string{"g-0"}, "1 of 2")
	s.holdsNothing("g-0", "other")
	s.pod("g-1", of("g"), cpu("1"))
	s.bound("g-0", "g-1")
	s.holdsNothing("other")
	s.setReferences("g", "g-0", "g-1", "other")
	s.bound("other")
}

func TestLabelledPodWithoutPodGangWaits(t *testing.T) {
	s := shared(t)
	s.pod("lone", of("nobody"), gpu)
	s.waits([]string{"lone"}, "nobody", "does not exist")
	s.holdsNothing("lone")
	s.gang("nobody", group("w", 1, "lone"))
	s.bound("lone")
}

// The replacement alone is scheduled: the others run.
func TestReplacementOfABoundMember(t *testing.T) {
	for _, tc := range []struct{ name, replacement string }{
		{"of the same name", "g-1"}, {"of another name", "g-2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := shared(t)
			pods := names("g", 2)
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.bound(pods...)
			keep := s.getPod("g-0").UID
			s.deletePods("g-1")
			s.takeGPU("solo")
			s.setReferences("g", "g-0", tc.replacement)
			s.pod(tc.replacement, of("g"), gpu)
			s.unschedulable([]string{tc.replacement})
			s.holdsNothing(tc.replacement)
			s.deletePods("solo")
			s.bound(tc.replacement)
			if pod := s.getPod("g-0"); pod == nil || pod.UID != keep {
				t.Error("the member that ran was replaced too")
			}
		})
	}
}

func TestFinishedMembersDoNotCount(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		t.Run("before the gang is bound, "+string(phase), func(t *testing.T) {
			s := shared(t)
			s.takeGPU("solo")
			pods := names("g", 2)
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			s.unschedulable(pods)
			s.setPodPhase(pods[0], phase)
			s.waits(pods[1:], "1 of 2")
			s.deletePods("solo")
			s.holdsNothing(pods...)
			s.deletePods(pods[0])
			s.pod(pods[0], of("g"), gpu)
			s.bound(pods...)
		})
		t.Run("of a bound gang, "+string(phase), func(t *testing.T) {
			s := shared(t)
			s.gang("g", group("w", 2, names("g", 2)...))
			pods := s.members("g", 2, gpu)
			s.running(pods...)
			for _, name := range pods {
				s.setPodPhase(name, phase)
			}
			// Both are owed again, and come together.
			s.takeGPU("solo")
			s.setReferences("g", names("g", 4)...)
			next := names("g", 4)[2:]
			for _, name := range next {
				s.pod(name, of("g"), gpu)
			}
			s.unschedulable(next, "2 pods", "room for 1")
			s.holdsNothing(next...)
			s.deletePods("solo")
			s.bound(next...)
		})
	}
}

func TestPodForAnotherScheduler(t *testing.T) {
	s := shared(t)
	pods := names("g", 2)
	s.gang("g", group("w", 2, pods...))
	s.pod(pods[0], of("g"), gpu)
	s.pod(pods[1], of("g"), scheduledBy("someone-else"))
	s.waits(pods[:1], "pod g-1", "someone-else")
	s.tells("g", "pod g-1", "someone-else")
	s.holdsNothing(pods...)
	// A member counts when it is bound, whoever did it.
	s.foreignBinder = true
	err := s.client().CoreV1().Pods(s.ns).Bind(s.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pods[1]}, Target: corev1.ObjectReference{Kind: "Node", Name: "l40s-0"},
	}, metav1.CreateOptions{})
	s.must(err)
	s.bound(pods...)
}
