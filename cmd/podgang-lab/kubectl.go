// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"

	"github.com/podgang/podgang-scheduler/pkg/lab/supervisor"
)

func (a *app) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl ...",
		Short:              "Run kubectl on the lab, as its administrator",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := supervisor.Connect(a.dir); err != nil && errors.Is(err, supervisor.ErrNotRunning) {
				return err
			}
			if err := os.Setenv("KUBECONFIG", filepath.Join(a.dir, "kubeconfig")); err != nil {
				return err
			}
			// kubectl reads its arguments here, for plugins and aliases.
			os.Args = append([]string{"kubectl"}, args...)
			if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
				// kubectl has shown most errors and ended; the rest are of its flags.
				return err
			}
			return nil
		},
	}
}
