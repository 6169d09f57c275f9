// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

const (
	// writers is how many writes of one stage are made at once.
	writers = 8
	// showTime is how long the informers may take to show what was written. After it the
	// pass is made again.
	showTime = 10 * time.Second
	// retryTime is when a pass that failed is made again, if nothing changes before.
	retryTime = 500 * time.Millisecond
)

// Options say what an operator plays.
type Options struct {
	// Namespace of all objects. It must exist.
	Namespace string
	// Workload as it is at first.
	Workload Workload
	// Generation of Grove that is played.
	Generation Generation
	// SchedulerName of the pods.
	SchedulerName string
	// Held is put off from the start.
	Held []Hold
}

// Operator looks after one workload.
type Operator struct {
	opts   Options
	writer *writer
	store  *store
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex // guards everything below
	wanted *desired
	held   map[Hold]bool
	failed error // of the last pass
}

// Start starts an operator. It works until Stop, or until the context ends.
func Start(ctx context.Context, client kubernetes.Interface, dyn dynamic.Interface, opts Options) (*Operator, error) {
	o := &Operator{
		opts: opts, writer: newWriter(client, dyn, opts.Namespace),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		wanted: newDesired(opts.Generation, opts.Workload), held: map[Hold]bool{},
	}
	for _, hold := range opts.Held {
		o.held[hold] = true
	}
	ctx, o.cancel = context.WithCancel(ctx)
	var err error
	if o.store, err = newStore(ctx, client, dyn, &o.opts, o.wakeUp); err != nil {
		o.cancel()
		return nil, err
	}
	go o.run(ctx)
	o.wakeUp()
	return o, nil
}

// Stop ends the operator. What it has made stays.
func (o *Operator) Stop() {
	o.cancel()
	<-o.done
}

// Scale sets the replicas of the PodCliqueSet.
func (o *Operator) Scale(replicas int) {
	o.change(func() { o.wanted.workload.Replicas = replicas })
}

// ScaleGroup sets the replicas of a scaling group in one replica of the PodCliqueSet.
func (o *Operator) ScaleGroup(replica int, group string, replicas int) {
	o.change(func() { o.wanted.groups[inReplica{replica, group}] = replicas })
}

// ScaleClique sets the replicas of a stand-alone clique in one replica of the
// PodCliqueSet. Its floor stays.
func (o *Operator) ScaleClique(replica int, clique string, replicas int) {
	o.change(func() { o.wanted.cliques[inReplica{replica, clique}] = replicas })
}

// Hold puts something off until Release.
func (o *Operator) Hold(what Hold) {
	o.change(func() { o.held[what] = true })
}

// Release does what was put off.
func (o *Operator) Release(what Hold) {
	o.change(func() { delete(o.held, what) })
}

func (o *Operator) change(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	o.wakeUp()
}

// Gangs are the gangs that are wanted now, base gangs before those that scale them.
func (o *Operator) Gangs() []Gang {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wanted.gangs()
}

// HasTopology reports whether the topology that the workload names exists, as far as the
// operator knows.
func (o *Operator) HasTopology() bool { return o.store.snapshot().levels != nil }

// Unfinished says what the operator has to do now, "" for nothing. Pods that stay gated
// until another gang is scheduled, and what is held, are nothing to do now.
func (o *Operator) Unfinished() string {
	var texts []string
	for _, stage := range o.plan() {
		for _, a := range stage {
			texts = append(texts, a.text)
		}
	}
	o.mu.Lock()
	failed := o.failed
	o.mu.Unlock()
	if len(texts) > 0 && failed != nil {
		texts = append(texts, fmt.Sprintf("the last pass failed: %v", failed))
	}
	if len(texts) == 0 {
		return ""
	}
	return "the operator is to " + strings.Join(texts, ", ")
}

func (o *Operator) plan() []stage {
	seen := o.store.snapshot()
	o.mu.Lock()
	defer o.mu.Unlock()
	held := make(map[Hold]bool, len(o.held))
	for hold := range o.held {
		held[hold] = true
	}
	p := &pass{Options: &o.opts, gangs: o.wanted.gangs(), held: held, seen: seen}
	return p.plan()
}

func (o *Operator) wakeUp() {
	select {
	case o.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (o *Operator) run(ctx context.Context) {
	defer close(o.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		err := o.pass(ctx)
		o.mu.Lock()
		o.failed = err
		o.mu.Unlock()
		if err != nil {
			time.AfterFunc(retryTime, o.wakeUp)
		}
	}
}

// pass makes the writes that are due, and returns when the informers show them.
func (o *Operator) pass(ctx context.Context) error {
	var (
		mu    sync.Mutex // guards await and errs
		await []func(*store) bool
		errs  []error
	)
	for _, stage := range o.plan() {
		var g errgroup.Group
		g.SetLimit(writers)
		for _, a := range stage {
			g.Go(func() error {
				shown, err := a.do(ctx, o.writer)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", a.text, err))
					return nil // the others do not depend on it
				}
				await = append(await, shown)
				return nil
			})
		}
		_ = g.Wait() // no member returns an error
	}
	for _, shown := range await {
		if err := o.store.wait(ctx, showTime, shown); err != nil {
			errs = append(errs, fmt.Errorf("wait until the informers show what was written: %w", err))
			break
		}
	}
	return errors.Join(errs...)
}
