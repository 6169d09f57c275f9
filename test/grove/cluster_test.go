// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/test/testlab"
)

// nodes is how many the cluster has.
const nodes = 28

// nodeName is the name of node n, as in testdata/cluster.yaml.
func nodeName(n int) string { return fmt.Sprintf("worker-%02d", n) }

// markerClass is the priority class of markers: they are scheduled when nothing else is
// in the queue.
const markerClass = "marker"

// cluster is a running lab and the record of what happens in it.
type cluster struct {
	*testlab.Lab
	recorder *recorder
}

// theLab is started when the first test asks for it; all tests share it.
var theLab labSource

type labSource struct {
	once    sync.Once
	cluster *cluster
	err     error
}

func (l *labSource) get(t *testing.T) *cluster {
	t.Helper()
	l.once.Do(func() { l.err = l.start() })
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.cluster
}

func (l *labSource) start() error {
	shape, err := shapes.LoadFile("testdata/cluster.yaml", nil)
	if err != nil {
		return err
	}
	running, err := testlab.Start("grove", lab.Options{
		Shape: shape, Schedulers: []lab.Scheduler{{Binary: *schedulerBinary, Name: lab.PodGangScheduler}},
	})
	if err != nil {
		return err
	}
	l.cluster = &cluster{Lab: running}
	return l.cluster.furnish(running.Context)
}

// furnish creates what all tests use, and starts the recorder.
func (c *cluster) furnish(ctx context.Context) error {
	never := corev1.PreemptNever
	_, err := c.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: markerClass}, Value: -1000, PreemptionPolicy: &never,
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if c.recorder, err = record(ctx, c.Client, c.Dynamic); err != nil {
		return err
	}
	return c.addTopologies(ctx)
}

// addTopologies installs the kinds of topology objects, as an upgrade of Grove does when
// the scheduler is running.
func (c *cluster) addTopologies(ctx context.Context) error {
	data, err := os.ReadFile("testdata/topologies.yaml")
	if err != nil {
		return err
	}
	objects, err := lab.Decode("testdata/topologies.yaml", data)
	if err != nil {
		return err
	}
	return c.Apply(ctx, objects...)
}

// end ends the lab if it was started.
func (l *labSource) end(keep bool) error {
	if l.cluster == nil {
		return nil
	}
	return l.cluster.End(keep)
}

// cordon makes nodes from..to-1 unusable for new pods, or usable. They are written at
// the same time, as far as there is such a thing.
func (c *cluster) cordon(ctx context.Context, from, to int, unusable bool) error {
	var g errgroup.Group
	g.SetLimit(16)
	for n := from; n < to; n++ {
		g.Go(func() error { return c.cordonNode(ctx, nodeName(n), unusable) })
	}
	return g.Wait()
}

// label changes labels of a node; a value of nil removes one.
func (c *cluster) label(ctx context.Context, node string, labels map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (c *cluster) cordonNode(ctx context.Context, node string, unusable bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unusable)
	_, err := c.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
