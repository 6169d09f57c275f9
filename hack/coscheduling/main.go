// SPDX-License-Identifier: Apache-2.0

// Command coscheduling is kube-scheduler with the coscheduling plugin of
// sigs.k8s.io/scheduler-plugins and no other plugin of that project: one of the
// schedulers that test/perf compares. Its module pins the Kubernetes libraries that
// the plugin is released for.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers the client's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // registers the version metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // the types of the plugin's arguments
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(coscheduling.Name, coscheduling.New))))
}
