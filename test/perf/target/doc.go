// SPDX-License-Identifier: Apache-2.0

// Package target knows what this project's scheduler is to reach against the others, as
// ratios of medians, which runs that takes, and judges results by it.
package target
