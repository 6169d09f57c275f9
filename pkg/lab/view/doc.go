// SPDX-License-Identifier: Apache-2.0

// Package view shows the state of a cluster to a person, as compact tables.
package view
