// SPDX-License-Identifier: Apache-2.0

// Package report tells people and other programs how a gang is doing: the phase
// of its PodGang, an event on the PodGang when the reason for waiting changes,
// and the same reason in the condition PodScheduled of every member that waits
// (cluster autoscalers read that).
//
// Everything is written in the background. Callers on the scheduling path only
// leave a note. What is written is derived from the state of the gang at that
// time, so that a lost or repeated note does no harm. A phase that is about to be another
// one is not written (phase.go): a PodGang costs the API server more than a binding.
package report
