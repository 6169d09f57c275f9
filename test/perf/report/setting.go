// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podgang/podgang-scheduler/test/perf/result"
)

// Setting says on what the results were measured, each difference among them included.
func Setting(results []result.Result) string {
	var machines, versions []string
	for i := range results {
		m, v := results[i].Machine, results[i].Versions
		machine := fmt.Sprintf("%d × %s, %.0f GB, %s", m.Cores, m.CPU, float64(m.Memory)/1e9, m.OS)
		version := fmt.Sprintf("commit %s, Kubernetes %s, %s", v.Commit, v.Kubernetes, v.Go)
		if !slices.Contains(machines, machine) {
			machines = append(machines, machine)
		}
		if !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	var loads []float64
	for i := range results {
		loads = append(loads, results[i].Machine.Load)
	}
	return fmt.Sprintf("Machine: %s. Versions: %s. Load average before runs: %s to %s.",
		strings.Join(machines, " and "), strings.Join(versions, " and "), Number(slices.Min(loads)), Number(slices.Max(loads)))
}
