// SPDX-License-Identifier: Apache-2.0

// Package bindevents writes the events that tell of bindings when the bindings are done.
//
// The scheduler makes an event "Scheduled" for every pod that it has bound: half of all
// that it writes for a pod without claims. While a gang is being bound, these events take
// the API server's time from the bindings of the others, and nobody waits for them. Here
// they wait in a queue, with the time at which they were made, until no claim or binding is
// being written, but no longer than MaxDelay. All other events go their usual way.
package bindevents
