// SPDX-License-Identifier: Apache-2.0

package contender

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

func podgang() *Contender {
	c := podgangShipped()
	c.Name, c.Description = PodGang, "this project's scheduler, with client limits that never bind"
	c.Scheduler.EditConfig = tuned
	return c
}

func podgangShipped() *Contender {
	return &Contender{
		Name:          "podgang-shipped",
		Description:   "this project's scheduler, as its manifests configure it",
		Scheduler:     &lab.Scheduler{Binary: lab.PodGangScheduler, Hold: true},
		SchedulerName: "podgang-scheduler",
		Gang:          podGangObject,
		Member:        func(pod *corev1.Pod, gang string) { pod.Labels[v1alpha1.LabelPodGang] = gang },
		AttemptMetric: "podgang_scheduler_plan_duration_seconds_count",
		Binary:        lab.PodGangScheduler,
	}
}

// podGangObject lists all pods of the gang, as Grove does once it has created them.
func podGangObject(g *workload.Gang) *unstructured.Unstructured {
	refs := make([]any, 0, len(g.Pods))
	for _, p := range g.Pods {
		refs = append(refs, map[string]any{"namespace": workload.Namespace, "name": p.Name})
	}
	spec := map[string]any{"podgroups": []any{map[string]any{
		"name": "worker", "minReplicas": int64(len(g.Pods)), "podReferences": refs,
	}}}
	pack := map[string]any{}
	if g.Required != "" {
		pack["required"] = g.Required
	}
	if g.Preferred != "" {
		pack["preferred"] = g.Preferred
	}
	if len(pack) > 0 {
		spec["topologyConstraint"] = map[string]any{"packConstraint": pack}
	}
	return object(v1alpha1.SchemeGroupVersion.String(), v1alpha1.PodGangKind.Kind, g.Name, spec)
}

func oracle() *Contender {
	return &Contender{
		Name:        Oracle,
		Description: "no scheduler: a client that makes the same writes from a placement computed before, with the same client limits",
		// Nobody answers to this name.
		SchedulerName: "oracle",
		Binary:        lab.MultiCall,
	}
}
