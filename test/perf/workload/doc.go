// SPDX-License-Identifier: Apache-2.0

// Package workload reads the loads of test/perf from their data files: a cluster's
// shape, the gangs and pods that ask for it, and how the run goes. It expands a load
// at a scale into the list of its gangs and pods, and makes the pods.
package workload
