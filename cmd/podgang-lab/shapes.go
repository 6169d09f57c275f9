// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/pkg/lab/view"
)

func shapesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "shapes",
		Short: "List the clusters that \"up --shape\" knows",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			table := view.NewTable("SHAPE", "NODES", "GPUS", "WHAT IT IS")
			for _, name := range shapes.Names() {
				s, err := shapes.Load(name, nil)
				if err != nil {
					return err
				}
				table.Row(name, len(s.Nodes), s.GPUs(), s.Description)
			}
			table.Print(os.Stdout)
			return nil
		},
	}
}
