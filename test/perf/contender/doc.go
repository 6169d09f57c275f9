// SPDX-License-Identifier: Apache-2.0

// Package contender knows the schedulers that test/perf compares: how each is started
// in a lab, and how a gang and its pods are written for it.
package contender
