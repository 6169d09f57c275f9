// SPDX-License-Identifier: Apache-2.0

// Package lab runs a GPU cluster on one machine, of real parts: etcd,
// kube-apiserver, kube-controller-manager, the schedulers under test, and kwok
// in place of the kubelets. Nodes and their devices come from a shape.
//
// Every component is a child process with its own log; it can be killed and
// started again alone, and none outlives the process that started the lab.
package lab
