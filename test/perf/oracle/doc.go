// SPDX-License-Identifier: Apache-2.0

// Package oracle is what a scheduler can at best be: it knows the placement before it
// starts and only makes the writes that binding needs. Its speed is that of the API
// server on the machine.
package oracle
