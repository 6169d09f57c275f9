// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
)

// nodes is how many the cluster has.
const nodes = 28

// nodeName is the name of node n, as in testdata/cluster.yaml.
func nodeName(n int) string { return fmt.Sprintf("worker-%02d", n) }

// markerClass is the priority class of markers: they are scheduled when nothing else is
// in the queue.
const markerClass = "marker"

// cluster is a running lab with clients and the record of what happens in it.
type cluster struct {
	*lab.Lab
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	recorder *recorder
}

// theLab is started when the first test asks for it; all tests share it.
var theLab labSource

type labSource struct {
	once    sync.Once
	dir     string
	cluster *cluster
	err     error
	cancel  context.CancelFunc
}

func (l *labSource) get(t *testing.T) *cluster {
	t.Helper()
	l.once.Do(func() { l.err = l.start() })
	if l.err != nil {
		t.Fatalf("the lab did not start: %v", l.err)
	}
	return l.cluster
}

func (l *labSource) start() (err error) {
	if l.dir, err = os.MkdirTemp("", "podgang-grove-"); err != nil {
		return err
	}
	shape, err := shapes.LoadFile("testdata/cluster.yaml", nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	running, err := lab.Start(ctx, lab.Options{
		Dir: l.dir, Shape: shape,
		Schedulers: []lab.Scheduler{{Binary: *schedulerBinary, Name: lab.PodGangScheduler}},
	})
	if err != nil {
		return err
	}
	l.cluster = &cluster{Lab: running}
	return l.cluster.connect(ctx)
}

func (c *cluster) connect(ctx context.Context) (err error) {
	if c.client, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.RESTConfig()); err != nil {
		return err
	}
	never := corev1.PreemptNever
	_, err = c.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: markerClass}, Value: -1000, PreemptionPolicy: &never,
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if c.recorder, err = record(ctx, c.client, c.dynamic); err != nil {
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

func (l *labSource) stop() {
	if l.cancel != nil {
		l.cancel()
	}
	if l.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := l.cluster.Stop(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "cannot stop the lab: %v\n", err)
	}
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
	_, err = c.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (c *cluster) cordonNode(ctx context.Context, node string, unusable bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unusable)
	_, err := c.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
