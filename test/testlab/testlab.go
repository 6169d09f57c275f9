// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// stopTimeout is how long the end of a lab may take. Its processes end with the test's
// in any case.
const stopTimeout = 30 * time.Second

// Lab is a running lab with clients.
type Lab struct {
	*lab.Lab
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Context ends when the lab does.
	Context context.Context

	name, dir string
	cancel    context.CancelFunc
}

// RequireBuilt returns an error unless the binaries that every lab of the tests runs
// have been built.
func RequireBuilt() error {
	for _, name := range []string{lab.MultiCall, lab.Kwok, lab.PodGangScheduler} {
		if _, err := lab.FindBinary("", name); err != nil {
			return fmt.Errorf("these tests run what is built: %w", err)
		}
	}
	return nil
}

// Start starts a lab in a temporary directory called after name, in place of opts.Dir,
// which stays if that fails.
func Start(name string, opts lab.Options) (*Lab, error) {
	dir, err := os.MkdirTemp("", "podgang-"+name+"-")
	if err != nil {
		return nil, err
	}
	opts.Dir = dir
	ctx, cancel := context.WithCancel(context.Background())
	l := &Lab{Context: ctx, name: name, dir: dir, cancel: cancel}
	if l.Lab, err = lab.Start(ctx, opts); err != nil {
		cancel()
		return nil, fmt.Errorf("the lab %q did not start (its logs are in %s/logs): %w", name, dir, err)
	}
	if l.Client, l.Dynamic, err = Clients(l.Lab); err != nil {
		return nil, errors.Join(err, l.End(true))
	}
	return l, nil
}

// Clients returns clients of a running lab.
func Clients(running *lab.Lab) (kubernetes.Interface, dynamic.Interface, error) {
	config := running.RESTConfig()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	return client, dyn, err
}

// End stops the lab. It removes its state, or says where it is kept.
func (l *Lab) End(keep bool) error {
	l.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := l.Stop(ctx)
	if keep {
		fmt.Fprintf(os.Stderr, "logs of the lab %q: %s/logs\n", l.name, l.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}
