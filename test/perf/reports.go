// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/podgang/podgang-scheduler/test/perf/report"
	"github.com/podgang/podgang-scheduler/test/perf/result"
)

// reportCommand makes tables and plots of results.
func reportCommand(_ context.Context, args []string) error {
	set := flag.NewFlagSet("perf report", flag.ContinueOnError)
	markdown := set.Bool("markdown", false, "write the tables in Markdown")
	plots := set.String("plots", "", "directory for plots as SVG")
	if err := set.Parse(args); err != nil {
		return err
	}
	files := set.Args()
	if len(files) == 0 {
		files = []string{defaultOut}
	}
	results, err := result.Read(files...)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return errors.New("there are no results: name the files that runs have written")
	}
	return show(os.Stdout, results, *plots, *markdown)
}

// show writes the tables, and plots if there is a directory for them, of the newest build
// of each scheduler.
func show(w io.Writer, results []result.Result, plots string, markdown bool) error {
	if len(results) == 0 {
		return nil
	}
	results = result.Newest(results)
	for _, table := range []*report.Table{report.Runs(results), report.Special(results)} {
		if len(table.Rows) == 0 {
			continue
		}
		if err := writeTable(w, table, markdown); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, report.Setting(results))
	if err != nil || plots == "" {
		return err
	}
	return report.Plots(plots, results)
}

func writeTable(w io.Writer, table *report.Table, markdown bool) error {
	write := table.Text
	if markdown {
		write = table.Markdown
	}
	if err := write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
