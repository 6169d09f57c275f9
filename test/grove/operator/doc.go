// SPDX-License-Identifier: Apache-2.0

// Package operator plays Grove's operator against an API server: from the
// description of a PodCliqueSet it makes the PodGangs and the pods, in the order
// and with the names, labels, gates and status writes of the generation of Grove
// that it is told to play.
//
// It is level-triggered: each pass compares what is wanted with what informers
// show, and makes the writes that are due. Within one pass they come in the order
// in which Grove's controllers make them, and as there one pass does not see what
// it writes itself:
//
//   - A PodGang is created first, with empty references and Initialized=False
//     (generation A: last, complete, and without that condition).
//   - The pods of a gang are created in up to three waves, gated and labelled, and
//     the references follow in the pass after. So references grow in steps.
//   - Initialized becomes True when all pods exist, and stays that.
//   - A gate is lifted when the pod is referenced and the gang that its own depends
//     on is scheduled. As in Grove, Initialized plays no part in it.
//   - The names of topology domains are translated into label keys with the topology that
//     the workload names, and again whenever that changes. Base gangs have the constraint
//     of the whole, a set for each replica of a scaling group with one, and those of the
//     cliques; scaled gangs that of the scaling group, else that of the whole (generation
//     C: as the base).
//   - A pod that is deleted, or being deleted, is created again: gated, with the
//     same labels and pod index, under another name.
//
// What it leaves out: PodCliques, PodCliqueScalingGroups and PodGangMaps (the
// scheduler does not read them, so the objects here have no owners), rolling
// updates, gang termination, startup order, and shared claims. Grove's
// pod controller does not wake for a binding alone, and requeues after five
// seconds; here every change of a pod wakes the operator.
package operator
