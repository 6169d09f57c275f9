// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Lab is a running cluster.
type Lab struct {
	// Applier applies objects as cluster-admin.
	*Applier

	opts   Options
	dir    *stateDir
	bins   map[string]string // binary name → path
	creds  *credentials
	probes *http.Client
	held   portSet
	ports  struct{ etcd, etcdPeer, apiServer, controllerManager, kwok int }

	// components by name, and their names in start order; both fixed once Start returns.
	components map[string]*Component
	order      []string

	config     *rest.Config // cluster-admin
	kubeconfig string
	client     kubernetes.Interface

	stepMu   sync.Mutex // serialises calls of opts.OnStep
	stopOnce sync.Once
}

// Start starts a lab and returns when all of it is ready and the shape's objects
// exist. ctx bounds the start only; the lab runs until Stop, or until this process ends.
func Start(ctx context.Context, opts Options) (*Lab, error) {
	l := &Lab{opts: opts, components: map[string]*Component{}}
	if l.opts.StartTimeout == 0 {
		l.opts.StartTimeout = DefaultStartTimeout
	}
	if err := l.checkOptions(); err != nil {
		return nil, err
	}
	if err := l.findBinaries(); err != nil {
		return nil, err
	}
	dir, leftovers, err := lockDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	l.dir = dir
	if leftovers {
		l.report(Step{Name: "state directory", Note: "removed what an earlier lab left there", Done: true})
	}
	if err := l.start(ctx); err != nil {
		// The caller's context may be why it failed.
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stopGrace)
		defer cancel()
		return nil, errors.Join(err, l.Stop(stopCtx))
	}
	return l, nil
}

func (l *Lab) checkOptions() error {
	if l.opts.Dir == "" {
		return errors.New("a lab needs a state directory")
	}
	names := []string{Etcd, APIServer, ControllerManager, Kwok}
	for _, s := range l.opts.Schedulers {
		if s.Binary != PodGangScheduler && s.Binary != KubeScheduler {
			return fmt.Errorf("unknown scheduler %q: use %s or %s", s.Binary, PodGangScheduler, KubeScheduler)
		}
		if slices.Contains(names, s.name()) {
			return fmt.Errorf("two components are named %q: give each scheduler its own name", s.name())
		}
		names = append(names, s.name())
	}
	for name := range l.opts.ExtraArgs {
		if !slices.Contains(names, name) {
			return fmt.Errorf("extra arguments for %q, which is no component of this lab (%v)", name, names)
		}
	}
	return nil
}

func (l *Lab) findBinaries() error {
	need := []string{MultiCall, Kwok}
	for _, s := range l.opts.Schedulers {
		if name := s.executable(); name != MultiCall && !slices.Contains(need, name) {
			need = append(need, name)
		}
	}
	l.bins = map[string]string{}
	for _, name := range need {
		path, err := FindBinary(l.opts.BinDir, name)
		if err != nil {
			return err
		}
		l.bins[name] = path
	}
	return nil
}

func (l *Lab) start(ctx context.Context) error {
	if err := l.prepare(); err != nil {
		return err
	}
	if err := l.startControlPlane(ctx); err != nil {
		return err
	}
	kcmConfig, kwokConf, err := l.writeHelpers()
	if err != nil {
		return err
	}
	l.components[ControllerManager].spec = l.controllerManagerSpec(kcmConfig)
	l.components[Kwok].spec = l.kwokSpec(kcmConfig, kwokConf)
	l.components[Kwok].relaunches = kwokRelaunches

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return l.step(Kwok, func() (string, error) { return "", l.startComponent(gctx, Kwok) })
	})
	g.Go(func() error {
		return l.step(ControllerManager, func() (string, error) {
			if err := l.startComponent(gctx, ControllerManager); err != nil {
				return "", err
			}
			// It calls itself ready before its controllers work.
			return "", l.waitForServiceAccount(gctx, metav1.NamespaceDefault)
		})
	})
	g.Go(func() error { return l.startSchedulers(gctx) })
	if s := l.opts.Shape; s != nil {
		g.Go(func() error {
			return l.step("shape "+s.Name, func() (string, error) { return s.Summary(), l.ApplyShape(gctx, s) })
		})
	}
	return g.Wait()
}

// prepare makes everything that the components need before the first one starts.
func (l *Lab) prepare() error {
	creds, err := writeCredentials(l.dir)
	if err != nil {
		return err
	}
	l.creds = creds
	if l.probes, err = newProbeClient(creds); err != nil {
		return err
	}
	for _, port := range []*int{&l.ports.etcd, &l.ports.etcdPeer, &l.ports.apiServer, &l.ports.controllerManager, &l.ports.kwok} {
		if *port, err = l.held.take(); err != nil {
			return err
		}
	}
	l.addComponent(Etcd, l.ports.etcd, "https://"+address(l.ports.etcd)+"/readyz")
	l.addComponent(APIServer, l.ports.apiServer, "https://"+address(l.ports.apiServer)+"/readyz?verbose")
	l.addComponent(ControllerManager, l.ports.controllerManager, "https://"+address(l.ports.controllerManager)+"/healthz")
	l.addComponent(Kwok, l.ports.kwok, "http://"+address(l.ports.kwok)+"/healthz")
	for _, s := range l.opts.Schedulers {
		port, err := l.held.take()
		if err != nil {
			return err
		}
		ready := "https://" + address(port) + "/readyz?verbose"
		if s.LeaderElect {
			// One that stands by does not watch anything yet, and is fine.
			ready += "&exclude=sched-handler-sync"
		}
		l.addComponent(s.name(), port, ready)
	}

	l.config = l.adminConfig()
	if l.kubeconfig, err = l.writeKubeconfig(l.config.Host, certIdentity(adminUser, creds.admin), "kubeconfig"); err != nil {
		return err
	}
	return l.connect()
}

func (l *Lab) addComponent(name string, port int, readyURL string) {
	l.components[name] = &Component{port: port, ready: l.probe(readyURL), timeout: l.opts.StartTimeout}
	l.components[name].spec.Name, l.components[name].spec.LogFile = name, l.logFile(name)
	l.order = append(l.order, name)
}

func (l *Lab) connect() (err error) {
	protobuf := rest.CopyConfig(l.config)
	protobuf.ContentType = runtime.ContentTypeProtobuf // half the work of JSON for both sides
	if l.client, err = kubernetes.NewForConfig(protobuf); err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	l.Applier, err = NewApplier(l.config)
	return err
}

func (l *Lab) startControlPlane(ctx context.Context) error {
	l.components[Etcd].spec = l.etcdSpec()
	l.components[APIServer].spec = l.apiServerSpec()
	l.held.release(l.ports.etcdPeer)
	for _, name := range []string{Etcd, APIServer} {
		err := l.step(name, func() (string, error) { return "", l.startComponent(ctx, name) })
		if err != nil {
			return err
		}
	}
	return nil
}

// waitForServiceAccount waits until a controller has given the namespace the service
// account without which no pod can be created there.
func (l *Lab) waitForServiceAccount(ctx context.Context, namespace string) error {
	err := wait.PollUntilContextTimeout(ctx, readyPoll, l.opts.StartTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := l.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("namespace %s gets no default service account: %w; see %s", namespace, err, l.logFile(ControllerManager))
	}
	return nil
}

// StartScheduler starts a scheduler that Scheduler.Hold has kept from starting, and
// waits until it is ready.
func (l *Lab) StartScheduler(ctx context.Context, name string) error {
	if l.components[name] == nil {
		return fmt.Errorf("this lab has no scheduler %q", name)
	}
	return l.step(name, func() (string, error) { return "", l.startComponent(ctx, name) })
}

func (l *Lab) startComponent(ctx context.Context, name string) error {
	c := l.components[name]
	l.held.release(c.port)
	return c.Start(ctx)
}

// writeHelpers writes what kube-controller-manager and kwok read. kwok stands in for
// kubelets and may do anything; each controller has a service account of its own, for
// which the controller manager needs the rights of its role.
func (l *Lab) writeHelpers() (kubeconfig, kwokFile string, err error) {
	id, err := l.creds.clientIdentity("podgang-lab:helpers", "system:masters")
	if err != nil {
		return "", "", err
	}
	if kubeconfig, err = l.writeKubeconfig(l.config.Host, id, "helpers.kubeconfig"); err != nil {
		return "", "", err
	}
	kwokFile, err = l.dir.write(kwokConfig, "kwok", "lab.yaml")
	return kubeconfig, kwokFile, err
}

// startSchedulers installs the manifests, then starts the schedulers in parallel.
func (l *Lab) startSchedulers(ctx context.Context) error {
	var inst *installation
	err := l.step("manifests", func() (note string, err error) {
		inst, err = l.install(ctx)
		return "", err
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range l.opts.Schedulers {
		g.Go(func() error {
			return l.step(s.name(), func() (string, error) { return "", l.startScheduler(ctx, s, inst) })
		})
	}
	return g.Wait()
}

func (l *Lab) step(name string, do func() (note string, err error)) error {
	l.report(Step{Name: name})
	begin := time.Now()
	note, err := do()
	if err != nil {
		note = ""
	}
	l.report(Step{Name: name, Note: note, Done: true, Took: time.Since(begin), Err: err})
	return err
}

func (l *Lab) report(s Step) {
	if l.opts.OnStep == nil {
		return
	}
	l.stepMu.Lock()
	defer l.stepMu.Unlock()
	l.opts.OnStep(s)
}

// Stop ends every component, those that write to the API server first. The files in
// the state directory stay, so that logs can be read; Remove deletes them. Stopping a
// stopped lab does nothing.
func (l *Lab) Stop(ctx context.Context) error {
	l.stopOnce.Do(func() {
		var g errgroup.Group
		for _, name := range l.order {
			if name != Etcd && name != APIServer {
				g.Go(func() error { l.components[name].Stop(ctx); return nil })
			}
		}
		_ = g.Wait() // Stop of a component cannot fail
		for _, name := range []string{APIServer, Etcd} {
			if c := l.components[name]; c != nil {
				c.Stop(ctx)
			}
		}
		if l.probes != nil {
			l.probes.CloseIdleConnections()
		}
		l.held.releaseAll()
		l.dir.unlock()
	})
	return nil
}

// RESTConfig is cluster-admin access to the API server, without a client-side rate limit.
func (l *Lab) RESTConfig() *rest.Config { return rest.CopyConfig(l.config) }

// Kubeconfig is the path of a kubeconfig with the same access.
func (l *Lab) Kubeconfig() string { return l.kubeconfig }

// Dir is the state directory.
func (l *Lab) Dir() string { return l.dir.path }

// Component returns the component of that name, or nil when the lab has none.
func (l *Lab) Component(name string) *Component { return l.components[name] }

// Components returns all components in start order.
func (l *Lab) Components() []*Component {
	list := make([]*Component, 0, len(l.order))
	for _, name := range l.order {
		list = append(list, l.components[name])
	}
	return list
}
