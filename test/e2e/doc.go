// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the scheduler on a real control plane: the lab of pkg/lab,
// with etcd, kube-apiserver, kube-controller-manager, and kwok as the kubelets.
//
// A test is a scenario in a namespace of its own. Most share one lab of two
// nodes with one GPU each, those of topology one of two NVL72 racks; a test that
// must own the control plane, or come between the scheduler and the API server,
// says so. What the API server reports is recorded from before the first test on,
// so that a test can tell not only what is, but what has ever been. At the end of
// every scenario the common checks run: see checks_test.go.
//
// The scheduler's queue retries a pod that no event has woken only after five
// minutes. All that a test waits for takes less (-patience), so a pod that no event
// wakes fails the test that waits for it.
//
// With -scheduler=kube-scheduler the stock scheduler answers to the scheduler
// name instead: the tests of gangs then fail.
package e2e
