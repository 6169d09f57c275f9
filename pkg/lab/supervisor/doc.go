// SPDX-License-Identifier: Apache-2.0

// Package supervisor keeps a lab running in a process of its own, and lets other
// processes look at it and end or restart its components through a socket in the
// lab's state directory.
package supervisor
