// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

func TestClaimsAreToldToThePodsThatUseThem(t *testing.T) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.SchedulerPreQueueingHints) {
		t.Errorf("feature gate %s is off", features.SchedulerPreQueueingHints)
	}
}
