// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// dirEnv names the environment variable for the default of --dir.
const dirEnv = "PODGANG_LAB_DIR"

// app is what the commands share.
type app struct {
	dir string // state directory, absolute once a command runs
}

func newRootCommand() *cobra.Command {
	a := &app{}
	root := &cobra.Command{
		Use:   "podgang-lab",
		Short: "A GPU cluster on one machine, of real Kubernetes parts and simulated nodes",
		Long: `podgang-lab runs etcd, kube-apiserver, kube-controller-manager, a scheduler, and kwok
in place of kubelets, all on 127.0.0.1, with the nodes and DRA devices of a chosen
shape. Nothing else has to be installed.

  podgang-lab up --shape a
  podgang-lab kubectl get nodes,resourceslices
  podgang-lab run disagg-l40s
  podgang-lab down`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// kubectl takes all flags after its name, so those of this command come before it.
		TraverseChildren: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return a.resolveDir()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&a.dir, "dir", "", "state directory of the lab (default $"+dirEnv+", else ~/.local/state/podgang-lab)")
	root.AddCommand(
		a.upCommand(), a.superviseCommand(), a.downCommand(), a.statusCommand(), a.kubectlCommand(),
		a.restartCommand(), a.killCommand(), a.logsCommand(), shapesCommand(), a.runCommand(), demoCommand(),
	)
	for name := range components {
		// Handled in main; listed so that the name is known, and hidden.
		root.AddCommand(&cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, Run: func(*cobra.Command, []string) {}})
	}
	return root
}

func (a *app) resolveDir() error {
	if a.dir == "" {
		a.dir = os.Getenv(dirEnv)
	}
	if a.dir == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return fmt.Errorf("cannot find a place for the lab's state: %w; choose one with --dir", err)
			}
			state = filepath.Join(home, ".local", "state")
		}
		a.dir = filepath.Join(state, "podgang-lab")
	}
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return fmt.Errorf("cannot use --dir %s: %w", a.dir, err)
	}
	a.dir = dir
	return nil
}
