// SPDX-License-Identifier: Apache-2.0

package main

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// Two writes go to each claim, and at each of them the queue would look at every pod that
// waits: with thousands of members that is a sixth of the CPU and a third of the memory
// that is allocated. With this gate, which is alpha in 1.37 and off by default, it looks
// at those that use the claim, and at the leaders of their gangs. --feature-gates can
// switch it off.
func init() {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.OverrideDefault(features.SchedulerPreQueueingHints, true))
}
