// SPDX-License-Identifier: Apache-2.0

// Package inflight bounds how many claims and bindings the scheduler writes to the API
// server at a time.
//
// All members of a gang are written at once, and a few gangs make a thousand requests.
// The API server's priority and fairness turns away what does not fit into its queues
// (429), and the client comes back a second later: the gang takes longer, and the server
// has worked for nothing. Requests that wait here cost neither.
//
// Calm tells those whose own writes are not urgent when there are no such writes, and Easy
// those who plan further writes when few are left to be made.
package inflight
