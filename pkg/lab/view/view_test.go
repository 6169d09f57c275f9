// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	schedulerv1alpha1 "github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

func pod(name, node string, phase corev1.PodPhase, conditions ...corev1.PodCondition) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase, Conditions: conditions},
	}
}

func refused(message string) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}
}

func group(name string, floor int32, pods ...string) schedulerv1alpha1.PodGroup {
	g := schedulerv1alpha1.PodGroup{Name: name, MinReplicas: floor}
	for _, p := range pods {
		g.PodReferences = append(g.PodReferences, schedulerv1alpha1.NamespacedName{Namespace: "ns", Name: p})
	}
	return g
}

func example() *State {
	gone := pod("gone", "n1", corev1.PodRunning)
	gone.DeletionTimestamp = &metav1.Time{}
	gang := schedulerv1alpha1.PodGang{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
	gang.Spec.PodGroups = []schedulerv1alpha1.PodGroup{group("g-front", 1, "a", "missing"), group("g-back", 2, "b", "c", "gone", "failed")}
	gang.Status.Phase = schedulerv1alpha1.PodGangPhaseStarting
	gang.Status.PlacementScore = ptr.To(0.875)
	claim := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "taken"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	claim.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Driver: "d", Pool: "n1", Device: "gpu-0"}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Name: "a"}}
	waits := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "free", OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "c"}}}}
	return &State{
		Pods: []corev1.Pod{
			pod("a", "n1", corev1.PodRunning), pod("b", "n1", corev1.PodPending), pod("c", "", corev1.PodPending, refused("no room")),
			pod("d", "", corev1.PodPending, refused("no room")), pod("failed", "n1", corev1.PodFailed), gone,
		},
		Gangs:  []schedulerv1alpha1.PodGang{gang},
		Claims: []resourcev1.ResourceClaim{claim, waits},
	}
}

func TestTables(t *testing.T) {
	var b strings.Builder
	s := example()
	s.PrintPods(&b)
	s.PrintGangs(&b)
	s.PrintClaims(&b)
	want := `POD        STATUS                  NODE
ns/a       Running                 n1
ns/b       Bound                   n1
ns/c       Pending, Unschedulable  -
ns/d       Pending, Unschedulable  -
ns/failed  Failed                  n1
ns/gone    Terminating             n1
  why: no room
PODGANG  PHASE     BOUND   GROUPS (BOUND/FLOOR)  SCORE
ns/g     Starting  2 of 3  front 1/1, back 1/2   0.8750
CLAIM     DEVICES         FOR
ns/taken  n1/gpu-0        a
ns/free   none allocated  c (waits)
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
}

func TestManyDevicesOfAClaimAreShortened(t *testing.T) {
	s := &State{Claims: example().Claims[:1]}
	results := &s.Claims[0].Status.Allocation.Devices.Results
	for _, want := range []string{"n1/gpu-0", "n1/gpu-0, n1/gpu-0", "n1/gpu-0, n1/gpu-0, n1/gpu-0, n1/gpu-0", "n1/gpu-0, n1/gpu-0, n1/gpu-0 and 5 more"} {
		var b strings.Builder
		s.PrintClaims(&b)
		if !strings.Contains(b.String(), "  "+want+"  a\n") {
			t.Errorf("%d devices are printed as\n%swant %s", len(*results), b.String(), want)
		}
		*results = append(*results, *results...)
	}
}

func TestDomainsAreCountedForGangsWithAPodInOne(t *testing.T) {
	s := example()
	s.Pods = append(s.Pods, pod("e", "n2", corev1.PodRunning), pod("f", "n3", corev1.PodRunning))
	s.Gangs[0].Spec.PodGroups = append(s.Gangs[0].Spec.PodGroups, group("g-more", 1, "d", "e", "f"))
	var b strings.Builder
	s.PrintDomains(&b, map[string]string{"n1": "rack-1", "n2": "rack-2", "n4": "rack-3"})
	want := `
PODGANG  NVLINK DOMAIN  PODS  NODES
ns/g     rack-1         4     1
ns/g     -              1     1
ns/g     rack-2         1     1
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want, +got)\n%s", diff)
	}
	b.Reset()
	s.PrintDomains(&b, map[string]string{"n4": "rack-3"})
	if b.Len() > 0 {
		t.Errorf("no pod is in a domain, and it prints\n%s", b.String())
	}
}

func TestFloorsRunCountsLiveRunningMembersOnly(t *testing.T) {
	s := example()
	if s.FloorsRun(&s.Gangs[0]) {
		t.Error("floors run while one member is bound and one waits")
	}
	s.Gangs[0].Spec.PodGroups[1].MinReplicas = 0
	if !s.FloorsRun(&s.Gangs[0]) {
		t.Error("a floor of 0 is not met")
	}
	s.Gangs[0].Spec.PodGroups[1] = group("g-back", 1, "gone", "failed")
	if s.FloorsRun(&s.Gangs[0]) {
		t.Error("a pod that is being deleted, or has failed, counts")
	}
}

func TestGPUsCountsWholeGPUsThatNoClaimHolds(t *testing.T) {
	device := func(name, kind string) resourcev1.Device {
		return resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &kind}}}
	}
	slice := func(pool string, devices ...resourcev1.Device) resourcev1.ResourceSlice {
		return resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "d", Pool: resourcev1.ResourcePool{Name: pool}, Devices: devices}}
	}
	free, all := example().GPUs([]resourcev1.ResourceSlice{
		slice("n1", device("gpu-0", "gpu"), device("gpu-1", "gpu"), device("gpu-1-mig", "mig")),
		slice("n2", device("gpu-0", "gpu")),
	})
	if free != 2 || all != 3 {
		t.Errorf("%d of %d are free, want 2 of 3", free, all)
	}
}
