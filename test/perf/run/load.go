// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// writers create objects at the same time; more are no faster on 2 cores.
const writers = 16

// prepareNamespace makes the namespace and the claim templates, and waits for the
// service account without which no pod can be created.
func (r *run) prepareNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workload.Namespace}}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot create the namespace: %w", err)
	}
	batches := r.Workload.Load
	if r.Workload.Churn != nil {
		batches = r.Workload.Churn.Mix
	}
	for _, b := range batches {
		if b.By != workload.ByClaim || b.GPUs == 0 {
			continue
		}
		_, err := r.client.ResourceV1().ResourceClaimTemplates(workload.Namespace).Create(ctx, workload.Template(b.GPUs), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cannot create a claim template: %w", err)
		}
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := r.client.CoreV1().ServiceAccounts(workload.Namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// create makes the gangs, then their pods, then the pods outside gangs.
func (r *run) create(ctx context.Context, set *workload.Set) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range set.Gangs {
		if r.Contender.Gang != nil {
			g.Go(func() error { return r.createGang(gctx, &set.Gangs[i]) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for _, pod := range set.Pods() {
		g.Go(func() error {
			_, err := r.client.CoreV1().Pods(workload.Namespace).Create(gctx, r.Contender.Pod(&pod), metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("cannot create pod %s: %w", pod.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (r *run) createGang(ctx context.Context, gang *workload.Gang) error {
	obj := r.Contender.Gang(gang)
	client, err := r.lab.ResourceFor(obj)
	if err == nil {
		_, err = client.Create(ctx, obj, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("cannot create the object of gang %s: %w", gang.Name, err)
	}
	return nil
}

// createAndWait makes the load and waits until all of it is seen, claims included.
func (r *run) createAndWait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	pods := r.set.Pods()
	claims := 0
	for i := range pods {
		if pods[i].Claims() {
			claims++
		}
	}
	r.progress("creating %d gangs, %d pods", len(r.set.Gangs), len(pods))
	if err := r.create(ctx, &r.set); err != nil {
		return err
	}
	err := r.record.WaitFor(ctx, func(c journal.Counts) bool { return c.Created >= len(pods) && c.WithClaims >= claims })
	if err != nil {
		counts, _ := r.record.Counts()
		return fmt.Errorf("the load is not complete: %d of %d pods, claims of %d of %d: %w", counts.Created, len(pods), counts.WithClaims, claims, err)
	}
	return nil
}

// capacity is how many GPUs each node has by device plugin, as the ledger names them.
func capacity(cluster *shape.Shape) map[string]int {
	gpus := map[string]int{}
	for _, n := range cluster.Nodes {
		quantity := n.Status.Allocatable[workload.GPUResource]
		gpus[journal.NodeGPUs(n.Name)] = int(quantity.Value())
	}
	return gpus
}
