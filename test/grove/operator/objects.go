// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Labels that no one but Grove reads. Source: operator/api/common/labels.go of
// github.com/ai-dynamo/grove, read at v0.1.0-alpha.12-rc1.
const (
	labelManagedBy      = "app.kubernetes.io/managed-by"
	labelComponent      = "app.kubernetes.io/component"
	labelName           = "app.kubernetes.io/name"
	labelSchedulerName  = "grove.io/scheduler-name"
	labelPodIndex       = "grove.io/podclique-pod-index"
	labelTemplateHash   = "grove.io/pod-template-hash"
	labelGenerationHash = "grove.io/podcliqueset-generation-hash"

	managedBy = "grove-operator"
)

// resolvedScheduler is what the operator believes to schedule the pods, from the
// profiles that it knows; what the pods say may have been changed on the way.
const resolvedScheduler = "default-scheduler"

// newPod makes a pod of a group: gated, and labelled as one of its gang.
func (o *Options) newPod(g *Gang, group *Group, index int) *corev1.Pod {
	labels := map[string]string{
		labelManagedBy:                         managedBy,
		v1alpha1.LabelPartOf:                   o.Workload.Name,
		labelComponent:                         "pcs-podclique",
		labelName:                              group.Name,
		v1alpha1.LabelPodGang:                  g.Name,
		v1alpha1.LabelPodClique:                group.Name,
		v1alpha1.LabelPodCliqueSetReplicaIndex: strconv.Itoa(g.Replica),
		labelPodIndex:                          strconv.Itoa(index),
		labelTemplateHash:                      "h1",
	}
	if group.ScalingGroup != "" {
		labels[labelComponent] = "pcsg-podclique"
		labels[v1alpha1.LabelPodCliqueScalingGroup] = group.ScalingGroup
		labels[v1alpha1.LabelPodCliqueScalingGroupReplicaIndex] = strconv.Itoa(group.ScalingGroupReplica)
	}
	if g.DependsOn != "" && o.Generation != GenerationC {
		labels[v1alpha1.LabelBasePodGang] = g.DependsOn
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: group.Name + "-" + utilrand.String(5), Labels: labels},
		Spec:       *group.spec.DeepCopy(),
	}
	pod.Spec.Hostname = fmt.Sprintf("%s-%d", group.Name, index)
	pod.Spec.SchedulerName = o.SchedulerName
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGatePodGangPending}}
	return pod
}

// newPodGang makes the PodGang of a gang, without references.
func (p *pass) newPodGang(g *Gang) *v1alpha1.PodGang {
	o, c := p.Options, p.constraintsOf(g)
	labels := map[string]string{
		labelManagedBy:       managedBy,
		v1alpha1.LabelPartOf: o.Workload.Name,
		labelComponent:       "podgang",
		labelSchedulerName:   resolvedScheduler,
	}
	if o.Generation == GenerationC {
		labels[v1alpha1.LabelPodCliqueSetReplicaIndex] = strconv.Itoa(g.Replica)
		labels[labelGenerationHash] = "h1"
		labels[v1alpha1.LabelEpoch] = g.Epoch
		labels[v1alpha1.LabelPodGangRole] = g.Role
	}
	pg := &v1alpha1.PodGang{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.PodGangKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: g.Name, Labels: labels},
		Spec: v1alpha1.PodGangSpec{
			PodGroups:                      o.podGroups(g, nil, c),
			TopologyConstraint:             c.gang,
			TopologyConstraintGroupConfigs: c.sets,
			PriorityClassName:              o.Workload.PriorityClassName,
		},
	}
	if c.annotation != "" {
		pg.Annotations = map[string]string{v1alpha1.AnnotationTopologyName: c.annotation}
	}
	return pg
}

// podGroups are the groups of a gang with references to those of its pods that exist.
func (o *Options) podGroups(g *Gang, pods []*corev1.Pod, c constraints) []v1alpha1.PodGroup {
	groups := make([]v1alpha1.PodGroup, 0, len(g.Groups))
	for _, group := range g.Groups {
		refs := []v1alpha1.NamespacedName{} // the API refuses null
		for _, pod := range pods {
			if pod.Labels[v1alpha1.LabelPodClique] == group.Name {
				refs = append(refs, v1alpha1.NamespacedName{Namespace: o.Namespace, Name: pod.Name})
			}
		}
		slices.SortFunc(refs, func(a, b v1alpha1.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
		groups = append(groups, v1alpha1.PodGroup{Name: group.Name, MinReplicas: int32(group.Floor), PodReferences: refs, TopologyConstraint: c.groups[group.Name]})
	}
	return groups
}

// initialized is the condition as the operator writes it.
func initialized(done bool) metav1.Condition {
	if done {
		return metav1.Condition{
			Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPodsCreated,
			Message: "all pods exist", LastTransitionTime: metav1.Now(),
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPodsCreationPending,
		Message: "pods are being created", LastTransitionTime: metav1.Now(),
	}
}
