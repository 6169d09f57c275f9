// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
)

// Names of the components, as Component and Options.ExtraArgs take them. A
// scheduler's component has the name from its Scheduler entry.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
	PodGangScheduler  = "podgang-scheduler"
	KubeScheduler     = "kube-scheduler"
)

// DefaultStartTimeout bounds the start of each component. A component is ready
// within seconds; the bound is for a machine that is busy with other things.
const DefaultStartTimeout = 2 * time.Minute

// Options says what lab to start. Only Dir is required.
type Options struct {
	// Dir is the state directory; the lab owns everything in it. It is made when
	// missing. What an earlier lab left there is removed.
	Dir string
	// BinDir holds the binaries; empty means the search that FindBinary describes.
	BinDir string
	// Shape is the cluster's nodes and devices; nil starts with no node.
	Shape *shape.Shape
	// Schedulers to run; none when empty.
	Schedulers []Scheduler
	// FeatureGates are set on kube-apiserver, kube-controller-manager and every scheduler.
	FeatureGates map[string]bool
	// ExtraArgs are appended to the arguments of the component of that name.
	ExtraArgs map[string][]string
	// EditManifest is called with each object of the project's manifests before it is
	// applied. It may change the object; false leaves the object out.
	EditManifest func(*unstructured.Unstructured) bool
	// OnStep is told when a step starts and when it ends. Calls do not overlap.
	OnStep func(Step)
	// StartTimeout bounds the start of each component; 0 means DefaultStartTimeout.
	StartTimeout time.Duration
}

// Scheduler is one scheduler process of the lab.
type Scheduler struct {
	// Binary is PodGangScheduler or KubeScheduler.
	Binary string
	// Name is the component's name; empty means Binary. Two replicas of one binary
	// need two names.
	Name string
	// Config is a KubeSchedulerConfiguration in place of the usual one, which for
	// podgang-scheduler comes from the manifests. The kubeconfig, and leader election
	// (see LeaderElect), are set in it by the lab.
	Config []byte
	// EditConfig changes the configuration before it is written; it runs after the lab's own changes.
	EditConfig func(config *unstructured.Unstructured) error
	// Args are appended to the command line.
	Args []string
	// Executable is the name of a binary that takes kube-scheduler's arguments, to run in
	// place of the one that Binary names; FindBinary finds it. Empty means Binary's own.
	Executable string
	// Hold configures the scheduler and leaves its start to StartScheduler.
	Hold bool
	// LeaderElect keeps the leader election of the configuration; otherwise it is off.
	LeaderElect bool
	// Server, if set, is called when the API server is ready, before the scheduler
	// starts. It returns the URL, https on 127.0.0.1, that the scheduler is to use
	// instead of the API server's, such as that of a proxy.
	Server func(ctx context.Context, upstream Upstream) (url string, err error)
}

// Upstream is what a proxy before the API server needs.
type Upstream struct {
	// URL is the API server's.
	URL *url.URL
	// Transport reaches it, without credentials of its own: a request keeps those that
	// the scheduler sent. Close its idle connections at the end.
	Transport *http.Transport
	// Certificate is one for 127.0.0.1 that the scheduler trusts, to serve https with.
	// client-go sends no token over plain http.
	Certificate tls.Certificate
}

func (s Scheduler) name() string {
	if s.Name != "" {
		return s.Name
	}
	return s.Binary
}

// executable is the name of the binary that runs: the multi-call one for the
// kube-scheduler that is built into it.
func (s Scheduler) executable() string {
	switch {
	case s.Executable != "":
		return s.Executable
	case s.Binary == KubeScheduler:
		return MultiCall
	default:
		return s.Binary
	}
}

// Step is one part of the start or the end of a lab.
type Step struct {
	// Name says what is done, such as "kube-apiserver".
	Name string
	// Note adds a detail when the step is done, such as "2 nodes, 2 GPUs".
	Note string
	// Done is false when the step starts and true when it has ended.
	Done bool
	// Took is how long the step took; set when it is done.
	Took time.Duration
	// Err is why the step failed; set when it is done.
	Err error
}
