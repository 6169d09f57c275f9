// SPDX-License-Identifier: Apache-2.0

// Package grove tests the scheduler against workloads as Grove makes them: the
// gang scenarios GS1 to GS12 and the scenarios of topology-aware scheduling, TAS2 to
// TAS23, of Grove's own end-to-end tests, replayed by the operator of package operator
// on one lab of 28 nodes. Of the latter those are left out that test nothing but the
// operator.
//
// A test has a namespace of its own and, as it says which nodes may be used, the
// whole cluster: tests run one after another. At every checkpoint the numbers of
// running and pending pods are those that Grove asserts; besides, no gang is bound
// in part, whatever waits says why, and the numbers stay when the scheduler has
// nothing left to do.
package grove
