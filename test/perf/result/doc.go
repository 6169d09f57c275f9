// SPDX-License-Identifier: Apache-2.0

// Package result is what a run has measured, and how it is kept: one line of JSON for
// each run, in files that several invocations append to.
package result
