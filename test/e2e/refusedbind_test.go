// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// The tests here are of writes that fail when a gang is on its way.

// Of four members, the claim of the third and the binding of the fourth fail.
func TestClaimOfOneMemberAndBindingOfAnotherFail(t *testing.T) {
	t.Run("twice", func(t *testing.T) {
		s := newScenario(t, gatedLab)
		s.slots(4, 1)
		pods := names("g", 4)
		claims := s.refuseNext(2, http.StatusInternalServerError, claimWrite(s.ns, "g-2-"))
		bindings := s.refuseNext(2, http.StatusInternalServerError, bindingOf(s.ns, "g-3"))
		s.gang("g", group("w", 4, pods...))
		s.members("g", 4, devices(1))
		s.bound(pods...)
		s.waitMet(claims, 2)
		s.waitMet(bindings, 2)
		s.haveDevices(1, pods...)
	})
	// The documented end: three run, and the fourth says why not and is tried for ever,
	// with nothing kept for it meanwhile.
	t.Run("the binding for ever", func(t *testing.T) {
		s := newScenario(t, gatedLab)
		s.slots(4, 1)
		s.foreignBinder = true // the gang is bound in part, and that is known
		pods := names("g", 4)
		bindings := s.refuseNext(-1, http.StatusInternalServerError, bindingOf(s.ns, "g-3"))
		s.gang("g", group("w", 4, pods...))
		s.members("g", 4, devices(1))
		s.bound(pods[:3]...)
		s.waits(pods[3:], "refused by the test")
		bindings.release()
		s.bound(pods...)
		s.haveDevices(1, pods...)
	})
}

// bindTries is how often a binding that the API server refuses is repeated before the pod
// goes back to the queue. See README.md.
const bindTries = 7

// The API server refuses the bindings of some members, every time: the PodGang says so,
// those that are bound stay, and the others are tried again and again, the gang whole
// when they may be bound.
func TestMembersAreNeverBound(t *testing.T) {
	pods := names("g", 3)
	for _, tc := range []struct {
		name    string
		refused []string
		phase   v1alpha1.PodGangPhase
	}{
		{"one of three", pods[2:], v1alpha1.PodGangPhaseStarting},
		{"all of three", pods, v1alpha1.PodGangPhasePending},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, gatedLab)
			s.slots(3, 1)
			s.foreignBinder = true // the gang is bound in part, and that is known
			bound := pods[:len(pods)-len(tc.refused)]
			bindings := s.refuseNext(-1, http.StatusInternalServerError, bindingsOf(s.ns, tc.refused...))
			s.gang("g", group("w", 3, pods...))
			s.members("g", 3, devices(1))
			s.bound(bound...)
			s.tells("g", "MemberNotBound", "could not be bound to node", "refused by the test")
			s.waits(tc.refused, "refused by the test")
			s.running(bound...)
			s.waitPhase("g", tc.phase)
			// The next attempt, from the queue.
			s.waitMet(bindings, bindTries*len(tc.refused)+1)
			s.neverBound(tc.refused...)
			s.neverScheduled("g")
			s.running(bound...)
			bindings.release()
			s.bound(pods...)
			s.waitPhase("g", v1alpha1.PodGangPhaseRunning)
			s.tells("g", "GangScheduled")
			s.haveDevices(1, pods...)
		})
	}
}

// neverScheduled checks that no event says that the gang is scheduled, and that it has
// never been said to run.
func (s *scenario) neverScheduled(gang string) {
	s.t.Helper()
	for _, note := range s.eventsOn(gang) {
		if hasWords(note, []string{"GangScheduled"}) {
			s.t.Errorf("an event says that the gang is scheduled: %s", note)
		}
	}
	if phases := s.phases(gang); slices.Contains(phases, v1alpha1.PodGangPhaseRunning) {
		s.t.Errorf("the phases of the gang were %q", phases)
	}
}

// Three gangs that are let go together on one node; each has a member whose first
// bindings are refused.
func TestBindingsOfThreeGangsFailForAWhile(t *testing.T) {
	s := newScenario(t, gatedLab)
	s.slots(1, 8)
	var pods []string
	for _, gang := range names("g", 3) {
		refusals := s.refuseNext(3, http.StatusConflict, bindingOf(s.ns, gang+"-1"))
		s.gang(gang, group("w", 2, names(gang, 2)...))
		pods = append(pods, s.members(gang, 2, devices(1))...)
		defer func() { s.waitMet(refusals, 3) }()
	}
	s.bound(pods...)
}

// A policy of the API server refuses the binding of the older gang, every time. It does
// not keep the node from the younger.
func TestGangWhoseBindingIsDeniedLeavesItsRoomToOthers(t *testing.T) {
	s := shared(t)
	s.slots(1, 8)
	s.takeSlot("solo")
	s.gang("denied", group("w", 1, "denied-0"))
	s.members("denied", 1, devices(8))
	s.unschedulable([]string{"denied-0"})
	s.aSecondAfter("denied")
	s.gang("other", group("w", 1, "other-0"))
	s.members("other", 1, devices(8))
	s.unschedulable([]string{"other-0"})
	s.denyBinding("denied-0")
	freed := time.Now()
	s.deletePods("solo")
	s.bound("other-0")
	if took := s.boundAt("other-0").Sub(freed); took > atOnce {
		t.Errorf("the younger gang was bound after %v, want %v", took, atOnce)
	}
	s.neverBound("denied-0")
	s.tells("denied", "denied by the test")
	s.waits([]string{"denied-0"})
	s.neverScheduled("denied")
	// Between its attempts it has nothing.
	s.deletePods("other-0")
	s.takeSlot("other-1")
	s.neverBound("denied-0")
}

// aSecondAfter waits until what is created is younger than the gang: the API tells ages
// by the second.
func (s *scenario) aSecondAfter(gang string) {
	s.t.Helper()
	created := s.getGang(gang).CreationTimestamp
	s.until("a second has passed", func() string {
		if time.Now().Unix() > created.Unix() {
			return ""
		}
		return "it has not"
	})
}

// denyBinding has the API server refuse the binding of a pod, by a policy.
func (s *scenario) denyBinding(pod string) {
	s.t.Helper()
	client := s.client().AdmissionregistrationV1()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: s.ns}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionv1.Fail),
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
		}}}},
		Validations: []admissionv1.Validation{{
			Expression: fmt.Sprintf("request.namespace != %q || request.name != %q", s.ns, pod),
			Message:    "denied by the test",
		}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: s.ns}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: s.ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	_, err := client.ValidatingAdmissionPolicies().Create(s.ctx, policy, metav1.CreateOptions{})
	s.must(err)
	_, err = client.ValidatingAdmissionPolicyBindings().Create(s.ctx, binding, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
		defer cancel()
		s.must(client.ValidatingAdmissionPolicyBindings().Delete(ctx, s.ns, metav1.DeleteOptions{}))
		s.must(client.ValidatingAdmissionPolicies().Delete(ctx, s.ns, metav1.DeleteOptions{}))
	})
	s.until("the policy is in force", func() string {
		err := s.client().CoreV1().Pods(s.ns).Bind(s.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "denied by the test") {
			return fmt.Sprintf("the answer is %v", err)
		}
		return ""
	})
}
