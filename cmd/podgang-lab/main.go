// SPDX-License-Identifier: Apache-2.0

// Command podgang-lab runs a GPU cluster on one machine, of real Kubernetes parts and
// simulated nodes, to try podgang-scheduler on. It is also the binary of those parts: as
// "podgang-lab kube-apiserver" it is kube-apiserver, and so on.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "time/tzdata" // as in the Kubernetes components

	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the components
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	// A component sets up its own signal handling and exits by itself.
	if len(os.Args) > 1 {
		if run, ok := components[os.Args[1]]; ok {
			os.Exit(run(os.Args[2:]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}
