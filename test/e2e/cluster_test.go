// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/test/testlab"
)

// cluster is a running lab with clients and the record of what happens in it.
type cluster struct {
	*testlab.Lab
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
	// starvationAfter is the argument of the plugin; "" is the default.
	starvationAfter string
	// withoutCRD leaves out the PodGang CRD.
	withoutCRD bool

	once    sync.Once
	cluster *cluster
	err     error
}

// The labs of the suite.
var (
	// sharedLab is for every test that needs no other.
	sharedLab = &labSource{name: "shared"}
	// gatedLab is for tests that stop the scheduler at a certain request, or kill it.
	gatedLab = &labSource{name: "gated", gated: true}
	// bareLab starts without the PodGang CRD; one test owns it.
	bareLab = &labSource{name: "bare", withoutCRD: true}
	// hungryLab keeps nodes soon for a gang that waits.
	hungryLab = &labSource{name: "hungry", starvationAfter: starvationAfter.String()}
	// racksLab has two NVL72 racks. See racks_test.go.
	racksLab = &labSource{name: "racks", shape: racksShape}

	labs = []*labSource{sharedLab, gatedLab, bareLab, hungryLab, racksLab}
)

// get returns the lab, started. The tests that ask for it run one after another.
func (l *labSource) get(t *testing.T) *cluster {
	t.Helper()
	l.once.Do(func() { l.err = l.start() })
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.cluster
}

func (l *labSource) start() error {
	shape, err := shapes.Load(cmp.Or(l.shape, "a"), nil)
	if err != nil {
		return err
	}
	scheduler := lab.Scheduler{Binary: *schedulerBinary, Name: lab.PodGangScheduler}
	var g *gate
	if l.gated {
		g = newGate()
		scheduler.Server = g.Serve
	}
	if l.starvationAfter != "" {
		scheduler.EditConfig = func(config *unstructured.Unstructured) error {
			return setPluginArg(config, "PodGang", "starvationAfter", l.starvationAfter)
		}
	}
	opts := lab.Options{Shape: shape, Schedulers: []lab.Scheduler{scheduler}}
	if l.withoutCRD {
		opts.EditManifest = func(obj *unstructured.Unstructured) bool { return obj.GetKind() != "CustomResourceDefinition" }
	}
	if err := l.run(opts); err != nil {
		return err
	}
	l.cluster.gate = g
	if l.withoutCRD {
		return nil
	}
	return l.cluster.recordGangs(l.cluster.Context)
}

// setPluginArg sets an argument of a plugin in the only profile of a configuration.
func setPluginArg(config *unstructured.Unstructured, plugin, arg string, value any) error {
	profiles, _, err := unstructured.NestedSlice(config.Object, "profiles")
	if err != nil || len(profiles) != 1 {
		return fmt.Errorf("want one profile, got %v: %w", profiles, err)
	}
	configs, _ := profiles[0].(map[string]any)["pluginConfig"].([]any)
	for _, entry := range configs {
		if entry := entry.(map[string]any); entry["name"] == plugin {
			entry["args"].(map[string]any)[arg] = value
			return unstructured.SetNestedSlice(config.Object, profiles, "profiles")
		}
	}
	return fmt.Errorf("the configuration has no arguments of %s", plugin)
}

// run starts the lab and the record of what happens in it.
func (l *labSource) run(opts lab.Options) error {
	running, err := testlab.Start("e2e-"+l.name, opts)
	if err != nil {
		return err
	}
	l.cluster = &cluster{
		Lab: running, client: running.Client, dynamic: running.Dynamic,
		gangs: running.Dynamic.Resource(v1alpha1.PodGangResource),
	}
	l.cluster.history, err = recordHistory(running.Context, running.Client)
	return err
}

// recordGangs adds PodGangs to the history. Their CRD has to be there.
func (c *cluster) recordGangs(ctx context.Context) error {
	return c.history.followGangs(ctx, c.dynamic)
}

// end ends the lab if it was started.
func (l *labSource) end(keep bool) error {
	if l.cluster == nil {
		return nil
	}
	err := l.cluster.End(keep)
	if l.cluster.gate != nil {
		l.cluster.gate.Close()
	}
	l.cluster = nil
	return err
}
