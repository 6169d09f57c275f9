// SPDX-License-Identifier: Apache-2.0

// Package gang knows which pod belongs to which PodGang, whether a gang has the
// members that its floors ask for, and how far an attempt to place it has come.
//
// Index is the one owner of that state. It is fed by informer events and by the
// scheduler's own progress, calls nobody, and answers with what follows from an
// event as a value (Effects), so that its lock is never held while somebody
// else's is taken: the scheduling queue calls into the Index under its own lock.
//
// # Membership
//
// A pod belongs to PodGang ns/name when its label grove.io/podgang names it, or,
// for a pod without that label, when a podgroup's podReferences lists it. Its
// group is the podgroup that lists it; a labelled pod that is not listed waits.
// Names are never parsed.
//
// # Floors
//
// The floor of a group is its minReplicas. Bound members count towards it,
// whichever scheduler bound them, and so do pending members that carry no
// scheduling gate. Failed, succeeded and terminating pods never count.
//
// # An attempt
//
//	Collecting ── whole floor at Permit ──▶ Preparing ── whole floor prepared ──▶ Binding
//	     │                                      │
//	     └── a floor member fails or vanishes ──┴──▶ RolledBack
//
// Until Binding a failure of one floor member undoes the attempt for all. From
// Binding on, a member that fails is retried alone.
package gang
