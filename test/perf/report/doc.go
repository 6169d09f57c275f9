// SPDX-License-Identifier: Apache-2.0

// Package report shows results to a person: a table for the terminal or in Markdown,
// plots as SVG, and a progress line while runs go on.
package report
