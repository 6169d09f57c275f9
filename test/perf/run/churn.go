// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/test/perf/figure"
	"github.com/podgang/podgang-scheduler/test/perf/journal"
	"github.com/podgang/podgang-scheduler/test/perf/oracle"
	"github.com/podgang/podgang-scheduler/test/perf/result"
	"github.com/podgang/podgang-scheduler/test/perf/workload"
)

// mill makes gangs come and go.
type mill struct {
	*run
	draw *rand.Rand
	// alive are the gangs that are there, in the order in which they came.
	alive []workload.Gang
	// asked is how many GPUs the gangs that are there ask for, of limit.
	asked, limit int
	// waiting came first and does not fit below the limit yet.
	waiting *workload.Gang
	stats   result.Churn
}

// churn has gangs come and go while the scheduler runs, and looks at the end at what is
// still free.
func (r *run) churn(ctx context.Context) (err error) {
	spec := r.Workload.Churn
	duration := spec.Duration.Duration
	if r.Long {
		duration = spec.LongDuration.Duration
	}
	m := &mill{run: r, draw: rand.New(rand.NewPCG(spec.Seed, 0)), limit: r.cluster.GPUs() * spec.UsePercent / 100}
	r.out.Churn = &m.stats
	if err := r.startScheduler(ctx); err != nil {
		return err
	}
	if r.before, err = r.requests(ctx); err != nil {
		return err
	}
	profiled := r.profile(ctx)
	r.begin = time.Now()
	if err := m.turn(ctx, duration); err != nil {
		return err
	}
	r.out.Gangs, r.out.Pods = m.stats.Came, len(r.set.Pods())
	m.rest(ctx)
	if err := r.quieten(ctx); err != nil {
		return err
	}
	if profiled != nil {
		if err := <-profiled; err != nil {
			return err
		}
	}
	m.leftOver()
	return r.sumUp(ctx)
}

// turn lets gangs come and go for the time.
func (m *mill) turn(ctx context.Context, duration time.Duration) error {
	spec := m.Workload.Churn
	ticker := time.NewTicker(spec.Interval.Duration)
	defer ticker.Stop()
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if err := m.arrivals(ctx); err != nil {
			return err
		}
		counts, _ := m.record.Counts()
		m.progress("%d gangs came, %d went, %d of %d GPUs asked for, %d pods bound, %.0f s left",
			m.stats.Came, m.stats.Went, m.asked, m.limit, counts.Bound, time.Until(end).Seconds())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.scheduler().Exited():
			return fmt.Errorf("%w: %w", errEnded, m.scheduler().Err())
		case <-ticker.C:
		}
		if err := m.departure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// arrivals creates gangs up to the limit.
func (m *mill) arrivals(ctx context.Context) error {
	mix := m.Workload.Churn.Mix
	for {
		if m.waiting == nil {
			kind := &mix[m.draw.IntN(len(mix))]
			g := kind.Gang(m.stats.Came, kind.Size)
			m.waiting = &g
		}
		gpus := gpusOf(m.waiting)
		if m.asked+gpus > m.limit {
			return nil
		}
		g := *m.waiting
		if err := m.create(ctx, &workload.Set{Gangs: []workload.Gang{g}}); err != nil {
			return err
		}
		m.waiting, m.asked, m.alive = nil, m.asked+gpus, append(m.alive, g)
		m.set.Gangs = append(m.set.Gangs, g)
		m.stats.Came++
	}
}

func gpusOf(g *workload.Gang) int {
	n := 0
	for i := range g.Pods {
		n += g.Pods[i].Needs.GPUs
	}
	return n
}

// departure deletes a gang that is whole, one drawn from the older half.
func (m *mill) departure(ctx context.Context) error {
	whole := m.whole()
	if len(whole) == 0 {
		return nil
	}
	i := whole[m.draw.IntN((len(whole)+1)/2)]
	g := m.alive[i]
	m.alive = append(m.alive[:i:i], m.alive[i+1:]...)
	m.asked -= gpusOf(&g)
	m.stats.Went++
	return m.remove(ctx, &g)
}

// whole are the indices of the gangs all of whose pods are bound.
func (m *mill) whole() []int {
	bound := map[string]int{}
	for _, e := range m.record.Entries() {
		if !e.Bound.IsZero() {
			bound[e.Gang]++
		}
	}
	var indices []int
	for i := range m.alive {
		if bound[m.alive[i].Name] == len(m.alive[i].Pods) {
			indices = append(indices, i)
		}
	}
	return indices
}

func (m *mill) remove(ctx context.Context, g *workload.Gang) error {
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	for i := range g.Pods {
		group.Go(func() error {
			err := m.client.CoreV1().Pods(workload.Namespace).Delete(gctx, g.Pods[i].Name, now)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("cannot delete pod %s: %w", g.Pods[i].Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil || m.Contender.Gang == nil {
		return err
	}
	obj := m.Contender.Gang(g)
	client, err := m.lab.ResourceFor(obj)
	if err == nil {
		err = client.Delete(ctx, g.Name, now)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete the object of gang %s: %w", g.Name, err)
	}
	return nil
}

// rest waits until every gang that is there is whole.
func (m *mill) rest(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, m.timeout())
	defer cancel()
	err := m.record.WaitFor(limit, func(journal.Counts) bool { return len(m.whole()) == len(m.alive) })
	m.out.Finished = err == nil
	if err != nil {
		m.out.Error = fmt.Sprintf("%d of %d gangs are whole %v after the last departure", len(m.whole()), len(m.alive), m.timeout())
	}
}

// leftOver looks at the free GPUs at the end.
func (m *mill) leftOver() {
	free := map[string]int{}
	for _, slice := range m.cluster.Slices {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if shape.IsGPU(slice.Spec.Driver, d) && m.record.Ledger.Used(oracle.GPUDriver+"/"+slice.Spec.Pool.Name+"/"+d.Name) == 0 {
				free[slice.Spec.Pool.Name]++
			}
		}
	}
	var byNode []int
	for _, n := range free {
		byNode = append(byNode, n)
		m.stats.FreeGPUs += n
	}
	const whole = 8
	m.stats.WholeFit, m.stats.BestFit = figure.LargestFit(byNode, whole), m.stats.FreeGPUs/whole
}
