// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/demo"
)

func demoCommand() *cobra.Command {
	opts := demo.Options{Out: os.Stdout}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a gang that is held until all of it fits, in a lab of its own",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.Scheduler != lab.PodGangScheduler && opts.Scheduler != lab.KubeScheduler {
				return fmt.Errorf("--scheduler %q is neither %s nor %s", opts.Scheduler, lab.PodGangScheduler, lab.KubeScheduler)
			}
			steps := newSteps(os.Stdout)
			defer steps.close()
			opts.OnStep = steps.report
			if err := demo.Run(cmd.Context(), opts); err != nil {
				return fmt.Errorf("the demo did not go as it should: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.Scheduler, "scheduler", lab.PodGangScheduler, "what schedules; with kube-scheduler the demo shows what it does not do, and fails")
	return cmd
}
