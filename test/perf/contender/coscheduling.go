// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	_ "embed"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

const (
	coschedulingGroup = "scheduling.x-k8s.io"
	coschedulingLabel = coschedulingGroup + "/pod-group"
	// coschedulingBinary is built from hack/coscheduling.
	coschedulingBinary = "coscheduling"
)

// coschedulingObjects are the plugin's PodGroup kind and the rights to read it.
//
//go:embed coscheduling.yaml
var coschedulingObjects []byte

// coschedulingConfig leaves the arguments of the plugin at their defaults.
const coschedulingConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Coscheduling
    queueSort:
      enabled:
      - name: Coscheduling
      disabled:
      - name: "*"
`

func coscheduling() *Contender {
	return &Contender{
		Name:        "coscheduling",
		Description: "kube-scheduler 1.34.7 with the coscheduling plugin of scheduler-plugins v0.34.7, with client limits that never bind",
		Scheduler: &lab.Scheduler{
			Binary: lab.KubeScheduler, Name: coschedulingBinary, Executable: coschedulingBinary, Hold: true,
			Config: []byte(coschedulingConfig), EditConfig: tuned,
		},
		Prepare: func(ctx context.Context, l *lab.Lab) error {
			objs, err := lab.Decode("coscheduling.yaml", coschedulingObjects)
			if err != nil {
				return err
			}
			return l.Apply(ctx, objs...)
		},
		SchedulerName: corev1.DefaultSchedulerName,
		Gang: func(g *workload.Gang) *unstructured.Unstructured {
			return object(coschedulingGroup+"/v1alpha1", "PodGroup", g.Name, map[string]any{"minMember": int64(len(g.Pods))})
		},
		Member:        func(pod *corev1.Pod, gang string) { pod.Labels[coschedulingLabel] = gang },
		AttemptMetric: "scheduler_schedule_attempts_total",
		Binary:        coschedulingBinary,
	}
}
