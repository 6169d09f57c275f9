// SPDX-License-Identifier: Apache-2.0

package report

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "podgang_scheduler"

// Results of a plan, for metrics.
const (
	// ResultPlanned: every member of the floor has a place.
	ResultPlanned = "planned"
	// ResultUnschedulable: the gang does not fit.
	ResultUnschedulable = "unschedulable"
	// ResultError: the plan failed for a reason that is not the gang's.
	ResultError = "error"
)

var (
	planDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem:      subsystem,
		Name:           "plan_duration_seconds",
		Help:           "Time to plan a whole gang, by result: planned, unschedulable or error. Its count is the number of attempts.",
		Buckets:        metrics.ExponentialBuckets(0.0005, 2, 16),
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})

	gangWait = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      subsystem,
		Name:           "gang_wait_duration_seconds",
		Help:           "Time from when a gang had its members until every group had its floor bound.",
		Buckets:        metrics.ExponentialBuckets(0.1, 2, 18),
		StabilityLevel: metrics.ALPHA,
	})

	rollbacks = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      subsystem,
		Name:           "rollbacks_total",
		Help:           "Attempts to place a gang that were undone after they were planned, by cause: changed (the gang or a member), refused (by the planned node), unprepared (claims or volumes), conflict (a device was given to two claims), timeout.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"cause"})

	placementScore = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      subsystem,
		Name:           "placement_score",
		Help:           "Placement score of gangs whose floor is bound: 1 is the best placement that the cluster allows if it is empty.",
		Buckets:        metrics.LinearBuckets(0.1, 0.1, 10),
		StabilityLevel: metrics.ALPHA,
	})

	registerOnce sync.Once
)

// registerMetrics adds the metrics to those that the scheduler serves.
func registerMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(planDuration, gangWait, rollbacks, placementScore)
	})
}

// ObservePlan records one plan of a gang.
func (r *Reporter) ObservePlan(result string, took time.Duration) {
	planDuration.WithLabelValues(result).Observe(took.Seconds())
}
