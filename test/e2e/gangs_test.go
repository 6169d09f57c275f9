// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// gang creates a PodGang.
func (s *scenario) gang(name string, groups ...v1alpha1.PodGroup) {
	s.t.Helper()
	s.gangWith(name, func(*v1alpha1.PodGang) {}, groups...)
}

// gangWith creates a PodGang that is changed first.
func (s *scenario) gangWith(name string, change func(*v1alpha1.PodGang), groups ...v1alpha1.PodGroup) {
	s.t.Helper()
	pg := &v1alpha1.PodGang{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGang"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec:       v1alpha1.PodGangSpec{PodGroups: groups},
	}
	change(pg)
	u, err := s.c.gangs.Namespace(s.ns).Create(s.ctx, s.encode(pg), metav1.CreateOptions{})
	s.must(err)
	s.seenGang(u)
}

// encode fills in the namespaces of references.
func (s *scenario) encode(pg *v1alpha1.PodGang) *unstructured.Unstructured {
	s.t.Helper()
	pg = pg.DeepCopy()
	for g := range pg.Spec.PodGroups {
		for r := range pg.Spec.PodGroups[g].PodReferences {
			if ref := &pg.Spec.PodGroups[g].PodReferences[r]; ref.Namespace == "" {
				ref.Namespace = s.ns
			}
		}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pg)
	s.must(err)
	return &unstructured.Unstructured{Object: object}
}

func (s *scenario) seenGang(u *unstructured.Unstructured) {
	s.t.Helper()
	s.seen(&v1alpha1.PodGang{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
	}})
}

// editGang changes the spec of a PodGang.
func (s *scenario) editGang(name string, change func(*v1alpha1.PodGangSpec)) {
	s.t.Helper()
	gangs := s.c.gangs.Namespace(s.ns)
	s.retryConflict(func() error {
		u, err := gangs.Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pg, err := observe.DecodePodGang(u)
		if err != nil {
			return err
		}
		change(&pg.Spec)
		if u, err = gangs.Update(s.ctx, s.encode(pg), metav1.UpdateOptions{}); err == nil {
			s.seenGang(u)
		}
		return err
	})
}

// setFloor changes the floor of a gang's first group.
func (s *scenario) setFloor(gang string, floor int) {
	s.t.Helper()
	s.editGang(gang, func(spec *v1alpha1.PodGangSpec) { spec.PodGroups[0].MinReplicas = int32(floor) })
}

// setReferences replaces the references of a gang's first group.
func (s *scenario) setReferences(gang string, pods ...string) {
	s.t.Helper()
	s.editGang(gang, func(spec *v1alpha1.PodGangSpec) {
		spec.PodGroups[0].PodReferences = group("", 0, pods...).PodReferences
	})
}

// patchGangStatus writes keys of a PodGang's status.
func (s *scenario) patchGangStatus(name string, status map[string]any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	s.must(err)
	u, err := s.c.gangs.Namespace(s.ns).Patch(s.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	s.must(err)
	s.seenGang(u)
}

// setInitialized writes the condition as Grove's operator does: the only condition, and
// with the phase reset.
func (s *scenario) setInitialized(gang string, initialized bool) {
	s.t.Helper()
	condition := metav1.Condition{
		Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPodsCreationPending,
		LastTransitionTime: metav1.Now(), Message: "written by the test",
	}
	if initialized {
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonPodsCreated
	}
	s.patchGangStatus(gang, map[string]any{"phase": v1alpha1.PodGangPhasePending, "conditions": []metav1.Condition{condition}})
}

// deleteGang deletes a PodGang and waits until it is gone.
func (s *scenario) deleteGang(name string) {
	s.t.Helper()
	s.must(s.c.gangs.Namespace(s.ns).Delete(s.ctx, name, metav1.DeleteOptions{}))
	s.until("PodGang "+name+" is gone", func() string {
		if s.getGang(name) != nil {
			return "it is there"
		}
		return ""
	})
}

// waitPhase waits for the phase of a gang.
func (s *scenario) waitPhase(gang string, phase v1alpha1.PodGangPhase) {
	s.t.Helper()
	s.until(fmt.Sprintf("PodGang %s is %s", gang, phase), func() string {
		if pg := s.getGang(gang); pg == nil || pg.Status.Phase != phase {
			return fmt.Sprintf("its phases were %v", s.phases(gang))
		}
		return ""
	})
}

// phases returns the phases that a gang has had, in order, without repetition.
func (s *scenario) phases(gang string) []v1alpha1.PodGangPhase {
	var phases []v1alpha1.PodGangPhase
	for _, r := range s.c.history.of(s.ns) {
		if pg, ok := r.object.(*v1alpha1.PodGang); ok && pg.Name == gang {
			phases = append(phases, pg.Status.Phase)
		}
	}
	return slices.Compact(phases)
}

// liveBound are the members of a group that count as bound.
func liveBound(pods map[string]*corev1.Pod, g *v1alpha1.PodGroup) int {
	n := 0
	for _, ref := range g.PodReferences {
		if pod := pods[ref.Name]; pod != nil && pod.Spec.NodeName != "" && observe.Live(pod) {
			n++
		}
	}
	return n
}
