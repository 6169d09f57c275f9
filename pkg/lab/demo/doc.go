// SPDX-License-Identifier: Apache-2.0

// Package demo is the demonstration for newcomers: a gang that is held while it does
// not fit and bound when it does, checked at each step against a real API server.
package demo
