// SPDX-License-Identifier: Apache-2.0

// Package figure computes the figures of a run from its journal: throughput, waits,
// the time for which gangs were partly bound, and gangs that are spread over domains.
// It also has the statistics that several runs need: percentiles, medians, and the
// exponent of a growth.
package figure
