// SPDX-License-Identifier: Apache-2.0

// Command perf compares schedulers on workloads, each run on a control plane of its own:
//
//	go run ./test/perf -workload dra-500 -scheduler podgang,native,oracle -rounds 3
//
// It needs the binaries that make build and make coscheduling put into bin. Its results
// go to a file of JSON lines, from which "perf report" makes tables and plots and
// "perf targets" tells which of the project's targets are met. docs/performance.md says
// what each workload and column means.
package main
