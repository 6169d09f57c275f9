// SPDX-License-Identifier: Apache-2.0

// Package probe reads what the processes of a run have used: CPU time and memory from
// /proc, and their metrics and profiles from the ports that they serve.
package probe
