// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"encoding/json"
	"maps"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

// indexLabels tell the pods of one template apart. Pods that differ in nothing
// else have the same needs.
var indexLabels = []string{
	"grove.io/podclique-pod-index",
	"apps.kubernetes.io/pod-index",
	"statefulset.kubernetes.io/pod-name",
	"batch.kubernetes.io/job-completion-index",
}

// needs is what decides where a pod can be placed. Two members of a group with
// equal needs are one class. Container names, images, commands and environments
// are left out: no filter looks at them.
type needs struct {
	Group       string
	Labels      map[string]string
	NodeName    string
	Selector    map[string]string
	Affinity    *v1.Affinity
	Tolerations []v1.Toleration
	Spread      []v1.TopologySpreadConstraint
	Resources   *v1.ResourceRequirements
	Overhead    v1.ResourceList
	Containers  []containerNeeds
	// InitContainers count differently from containers.
	InitContainers []containerNeeds
	Priority       *int32
	HostNetwork    bool
	OS             *v1.PodOS
	Claims         []claimNeeds
	Volumes        []v1.VolumeSource
	// Alone is the UID of a pod whose volumes or allocated claims make it a class
	// of its own.
	Alone types.UID
}

type containerNeeds struct {
	Resources     v1.ResourceRequirements
	RestartPolicy *v1.ContainerRestartPolicy
	Ports         []v1.ContainerPort
}

// claimNeeds is the content of a claim of the pod's own, or the name of a claim
// that others may share.
type claimNeeds struct {
	Name string
	Spec *resourceapi.ResourceClaimSpec
}

// classKey returns a key that is equal for members with equal needs. claimOf
// returns the claim behind an entry of the pod, nil if it is not known.
func classKey(group string, pod *v1.Pod, claimOf func(*v1.Pod, *v1.PodResourceClaim) *resourceapi.ResourceClaim) (string, error) {
	n := needs{
		Group:       group,
		Labels:      maps.Clone(pod.Labels),
		NodeName:    pod.Spec.NodeName,
		Selector:    pod.Spec.NodeSelector,
		Affinity:    pod.Spec.Affinity,
		Tolerations: pod.Spec.Tolerations,
		Spread:      pod.Spec.TopologySpreadConstraints,
		Resources:   pod.Spec.Resources,
		Overhead:    pod.Spec.Overhead,
		Priority:    pod.Spec.Priority,
		HostNetwork: pod.Spec.HostNetwork,
		OS:          pod.Spec.OS,
	}
	for _, label := range indexLabels {
		delete(n.Labels, label)
	}
	for i := range pod.Spec.InitContainers {
		n.InitContainers = append(n.InitContainers, containerNeedsOf(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		n.Containers = append(n.Containers, containerNeedsOf(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.ResourceClaims {
		claim := &pod.Spec.ResourceClaims[i]
		if claim.ResourceClaimName != nil {
			n.Claims = append(n.Claims, claimNeeds{Name: *claim.ResourceClaimName})
			continue
		}
		made := claimOf(pod, claim)
		if made == nil {
			n.Claims = append(n.Claims, claimNeeds{})
			continue
		}
		n.Claims = append(n.Claims, claimNeeds{Spec: &made.Spec})
		if made.Status.Allocation != nil {
			// It is confined to where its devices are.
			n.Alone = pod.UID
		}
	}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].VolumeSource
		switch {
		case source.PersistentVolumeClaim != nil, source.Ephemeral != nil, source.CSI != nil:
			n.Alone = pod.UID
		case anywhere(&source):
		default:
			n.Volumes = append(n.Volumes, source)
		}
	}
	key, err := json.Marshal(n)
	return string(key), err
}

// companionKey returns a key that is equal for pods that ask for the same, whatever
// gang and group they are in. Claims that are still to be made from one template are
// alike.
func companionKey(pod *v1.Pod) (string, error) {
	bare := *pod
	bare.Labels, bare.Spec.ResourceClaims, bare.Spec.SchedulingGates, bare.Spec.NodeName = nil, nil, nil, ""
	key, err := classKey("", &bare, nil)
	for i := range pod.Spec.ResourceClaims {
		switch claim := &pod.Spec.ResourceClaims[i]; {
		case claim.ResourceClaimTemplateName != nil:
			key += "\ntemplate " + *claim.ResourceClaimTemplateName
		case claim.ResourceClaimName != nil:
			key += "\nclaim " + *claim.ResourceClaimName
		}
	}
	return key, err
}

func containerNeedsOf(c *v1.Container) containerNeeds {
	n := containerNeeds{Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	for _, port := range c.Ports {
		if port.HostPort != 0 {
			n.Ports = append(n.Ports, port)
		}
	}
	return n
}

// interacts reports whether a pod's fit depends on where other pods are, beyond
// the room that they take.
func interacts(pod *v1.Pod) bool {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return true
	}
	affinity := pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}

// asker returns the pod in whose name the filters of a class prepare. Where members
// interact, InterPodAffinity must not skip one without terms of its own, as it does while
// no pod of the cluster keeps others away: a member that is placed before it may. A term
// that matches nothing has it stay.
func (w *world) asker(pod *v1.Pod) *v1.Pod {
	if !w.interacts || requiresPods(pod.Spec.Affinity) {
		return pod
	}
	pod = pod.DeepCopy()
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	pod.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname}},
	}
	return pod
}

// requiresPods reports whether a pod must be, or must not be, beside others.
func requiresPods(affinity *v1.Affinity) bool {
	if affinity == nil {
		return false
	}
	with, without := affinity.PodAffinity, affinity.PodAntiAffinity
	return with != nil && len(with.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		without != nil && len(without.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// dependsOnPods reports whether a filter's refusal of a node can change with the
// placement of other pods in other places.
func dependsOnPods(plugin string) bool {
	return plugin == interpodaffinity.Name || plugin == podtopologyspread.Name
}
