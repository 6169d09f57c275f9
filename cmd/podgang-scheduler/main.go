// SPDX-License-Identifier: Apache-2.0

// Command podgang-scheduler is the Kubernetes scheduler with the plugins PodGang
// and PodGangResources in it.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of API requests
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric kubernetes_build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "github.com/podgang/podgang-scheduler/pkg/apis/config/scheme" // arguments of the plugins
	"github.com/podgang/podgang-scheduler/plugins"
)

const long = `podgang-scheduler is the Kubernetes scheduler with gang scheduling for Grove's
PodGang objects. It plans a whole gang once, reserves every device of it, and
binds all of it or none of it. Pods outside gangs are scheduled as by
kube-scheduler, whose flags and configuration file it takes.

The configuration has to enable the plugins PodGang, PodGangGate and
PodGangResources and to disable DynamicResources, for which PodGangResources stands in; the one in
manifests/base/config.yaml does.

It is built from Kubernetes 1.37 and works with API servers from 1.34 on. With a
server older than 1.37 set --emulated-version to the server's minor version, for
example --emulated-version=1.36. Otherwise it waits for APIs that the server does
not have, and logs that it cannot list DeviceTaintRule objects.`

func main() {
	os.Exit(cli.Run(newCommand()))
}

// newCommand is the kube-scheduler command under our name.
func newCommand() *cobra.Command {
	command := app.NewSchedulerCommand(plugins.Options()...)
	command.Use = "podgang-scheduler"
	command.Long = long
	return command
}
