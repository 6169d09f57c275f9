// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// components are the servers in this binary, by the first argument. Their command
// objects are made only for the one that runs: they share global feature gates.
var components = map[string]func(args []string) int{
	lab.Etcd: func(args []string) int {
		etcdmain.Main(append([]string{lab.Etcd}, args...))
		return 0
	},
	lab.APIServer:         kubernetesMain(apiserver.NewAPIServerCommand),
	lab.ControllerManager: kubernetesMain(controllermanager.NewControllerManagerCommand),
	lab.KubeScheduler:     kubernetesMain(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
}

func kubernetesMain(command func() *cobra.Command) func([]string) int {
	return func(args []string) int {
		c := command()
		c.SetArgs(args)
		return cli.Run(c)
	}
}
