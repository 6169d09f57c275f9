// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
)

// cluster is a running lab with clients and the record of what happens in it.
type cluster struct {
	*lab.Lab
	client  kubernetes.Interface
	dynamic dynamic.Interface
	gangs   dynamic.NamespaceableResourceInterface
	history *history
	// used is set by the first scenario.
	used bool
	// gate is between the scheduler and the API server; nil where nothing is.
	gate *gate
}

// labSource starts a lab when the first test asks for it. Its tests share it.
type labSource struct {
	name string
	// shape of the cluster; "" is that of two nodes with a GPU each.
	shape string
	// gated puts a gate between the scheduler and the API server.
	gated bool
	// withoutCRD leaves out the PodGang CRD.
	withoutCRD bool

	once    sync.Once
	dir     string
	cluster *cluster
	err     error
	cancel  context.CancelFunc
}

// The labs of the suite.
var (
	// sharedLab is for every test that needs no other.
	sharedLab = &labSource{name: "shared"}
	// gatedLab is for tests that stop the scheduler at a certain request, or kill it.
	gatedLab = &labSource{name: "gated", gated: true}
	// bareLab starts without the PodGang CRD; one test owns it.
	bareLab = &labSource{name: "bare", withoutCRD: true}
	// racksLab has two NVL72 racks. See racks_test.go.
	racksLab = &labSource{name: "racks", shape: racksShape}

	labs = []*labSource{sharedLab, gatedLab, bareLab, racksLab}
)

// get returns the lab, started. The tests that ask for it run one after another.
func (l *labSource) get(t *testing.T) *cluster {
	t.Helper()
	l.once.Do(l.start)
	if l.err != nil {
		t.Fatalf("the lab %q did not start: %v", l.name, l.err)
	}
	return l.cluster
}

func (l *labSource) start() {
	if l.dir, l.err = os.MkdirTemp("", "podgang-e2e-"+l.name+"-"); l.err != nil {
		return
	}
	shape, err := shapes.Load(cmp.Or(l.shape, "a"), nil)
	if err != nil {
		l.err = err
		return
	}
	scheduler := lab.Scheduler{Binary: *schedulerBinary, Name: lab.PodGangScheduler}
	var g *gate
	if l.gated {
		g = newGate()
		scheduler.Server = g.serve
	}
	opts := lab.Options{Dir: l.dir, Shape: shape, Schedulers: []lab.Scheduler{scheduler}}
	if l.withoutCRD {
		opts.EditManifest = func(obj *unstructured.Unstructured) bool { return obj.GetKind() != "CustomResourceDefinition" }
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	running, err := lab.Start(ctx, opts)
	if err != nil {
		l.err = err
		return
	}
	l.cluster = &cluster{Lab: running, gate: g}
	if l.err = l.cluster.connect(ctx); l.err == nil && !l.withoutCRD {
		l.err = l.cluster.recordGangs(ctx)
	}
}

func (c *cluster) connect(ctx context.Context) error {
	config := c.RESTConfig()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	c.client, c.dynamic, c.gangs = client, dyn, dyn.Resource(v1alpha1.PodGangResource)
	c.history, err = recordHistory(ctx, client)
	return err
}

// recordGangs adds PodGangs to the history. Their CRD has to be there.
func (c *cluster) recordGangs(ctx context.Context) error {
	return c.history.followGangs(ctx, c.dynamic)
}

// stop ends the lab if it was started.
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
		l.err = errors.Join(l.err, err)
	}
	if l.cluster.gate != nil {
		l.cluster.gate.close()
	}
	l.cluster = nil
}
