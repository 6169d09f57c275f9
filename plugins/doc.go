// SPDX-License-Identifier: Apache-2.0

// Package plugins registers the plugins of podgang-scheduler with a scheduler
// command. The plugins themselves are in its sub-packages, one each.
package plugins
