// SPDX-License-Identifier: Apache-2.0

// Package process runs child processes that cannot outlive their parent: when
// the parent ends, even by SIGKILL, the kernel kills every child. Linux only.
package process
