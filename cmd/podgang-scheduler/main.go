// SPDX-License-Identifier: Apache-2.0

// Command podgang-scheduler is the Kubernetes scheduler with the plugins PodGang
// and PodGangResources in it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of API requests
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric kubernetes_build_info

	_ "github.com/podgang/podgang-scheduler/pkg/apis/config/scheme" // arguments of the plugins
)

func main() {
	os.Exit(cli.Run(newCommand()))
}
