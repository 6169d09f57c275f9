// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// Client limits of every contender that is not run as shipped, in requests a second: so
// high that they never bind. (scheduler_perf of Kubernetes runs with the same.)
const (
	TunedQPS   = 5000
	TunedBurst = 5000
)

// Contender is one scheduler, or the oracle in place of one.
type Contender struct {
	Name        string
	Description string
	// Scheduler is how the lab runs it; nil for the oracle, which is no process.
	Scheduler *lab.Scheduler
	// Gates and ServerArgs are feature gates for all components, and arguments of the API
	// server, for the workload.
	Gates      func(*workload.Workload) map[string]bool
	ServerArgs []string
	// Prepare makes what has to be in the cluster before the load.
	Prepare func(context.Context, *lab.Lab) error
	// SchedulerName is the schedulerName of the pods.
	SchedulerName string
	// Gang is the object of a gang; nil: gangs mean nothing to this one.
	Gang func(*workload.Gang) *unstructured.Unstructured
	// Member makes the pod one of its gang; nil: gangs mean nothing to this one.
	Member func(*corev1.Pod, string)
	// AttemptMetric counts the attempts for gangs; for pods, where gangs mean nothing to
	// this one.
	AttemptMetric string
	// Verdict is the resource whose condition VerdictCondition=False tells a gang that it
	// does not fit; without it an event on the gang does, and without Gang nothing.
	Verdict          *schema.GroupVersionResource
	VerdictCondition string
	// Binary is the executable that contains it, for telling builds apart.
	Binary string
}

// all contenders, in the order of tables.
func all() []*Contender {
	return []*Contender{podgang(), podgangShipped(), native(), nativeShipped(), plain(), coscheduling(), oracle()}
}

// Oracle is the name of the contender that is no scheduler.
const Oracle = "oracle"

// PodGang is the name of this project's scheduler, with client limits that never bind.
const PodGang = "podgang"

// Names are those of all contenders.
func Names() []string {
	var names []string
	for _, c := range all() {
		names = append(names, c.Name)
	}
	return names
}

// Get returns the contender of that name.
func Get(name string) (*Contender, error) {
	list := all()
	i := slices.IndexFunc(list, func(c *Contender) bool { return c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no scheduler is named %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return list[i], nil
}

// Pod is the pod as this contender takes it.
func (c *Contender) Pod(p *workload.Pod) *corev1.Pod {
	pod := p.Object()
	pod.Spec.SchedulerName = c.SchedulerName
	if p.Gang != "" && c.Member != nil {
		c.Member(pod, p.Gang)
	}
	return pod
}

// tuned sets client limits that never bind.
func tuned(config *unstructured.Unstructured) error {
	for name, value := range map[string]any{"qps": float64(TunedQPS), "burst": int64(TunedBurst)} {
		if err := unstructured.SetNestedField(config.Object, value, "clientConnection", name); err != nil {
			return err
		}
	}
	return nil
}

// object makes an object of the workload's namespace.
func object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": workload.Namespace},
		"spec":     spec,
	}}
}
