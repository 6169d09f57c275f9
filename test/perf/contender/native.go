// SPDX-License-Identifier: Apache-2.0

package contender

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// stockConfig is kube-scheduler's own, without leader election.
const stockConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
`

// kubeScheduler is an executable of its own: inside the lab's it would have the memory of
// all that is linked there besides.
func kubeScheduler(edit func(*unstructured.Unstructured) error) *lab.Scheduler {
	return &lab.Scheduler{
		Binary: lab.KubeScheduler, Executable: lab.KubeScheduler, Hold: true, Config: []byte(stockConfig), EditConfig: edit,
	}
}

func native() *Contender {
	c := nativeShipped()
	c.Name, c.Description = "native", "kube-scheduler with its native gang scheduling, with client limits that never bind"
	c.Scheduler.EditConfig = tuned
	return c
}

func nativeShipped() *Contender {
	verdict := schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
	return &Contender{
		Name:        "native-shipped",
		Description: "kube-scheduler with its native gang scheduling and its default client limits",
		Scheduler:   kubeScheduler(nil),
		// The topology gate only where a gang asks for a domain: it costs the others nothing.
		Gates: func(w *workload.Workload) map[string]bool {
			gates := map[string]bool{"GenericWorkload": true}
			for _, b := range w.Load {
				if b.Required != "" {
					gates["TopologyAwareWorkloadScheduling"] = true
				}
			}
			return gates
		},
		ServerArgs:    []string{"--runtime-config=" + schedulingv1beta1.SchemeGroupVersion.String() + "=true"},
		SchedulerName: corev1.DefaultSchedulerName,
		Gang:          nativeGroup,
		Member: func(pod *corev1.Pod, gang string) {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(gang)}
		},
		AttemptMetric:    "scheduler_podgroup_schedule_attempts_total",
		Verdict:          &verdict,
		VerdictCondition: "PodGroupInitiallyScheduled",
		Binary:           lab.KubeScheduler,
	}
}

// nativeGroup has the floor as minCount and the required domain; a preferred one cannot
// be said.
func nativeGroup(g *workload.Gang) *unstructured.Unstructured {
	spec := map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(len(g.Pods))}}}
	if g.Required != "" {
		spec["schedulingConstraints"] = map[string]any{"topology": []any{map[string]any{"key": g.Required}}}
	}
	return object(schedulingv1beta1.SchemeGroupVersion.String(), "PodGroup", g.Name, spec)
}

func plain() *Contender {
	return &Contender{
		Name:          "kube-scheduler",
		Description:   "kube-scheduler without gangs, with client limits that never bind",
		Scheduler:     kubeScheduler(tuned),
		SchedulerName: corev1.DefaultSchedulerName,
		AttemptMetric: "scheduler_schedule_attempts_total",
		Binary:        lab.KubeScheduler,
	}
}
