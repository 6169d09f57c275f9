// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Here a scenario asks whether pods are bound, and where.

// bound waits until all pods have a node.
func (s *scenario) bound(list ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%v are bound", list), func() string {
		var missing []string
		for _, name := range list {
			if pod := s.getPod(name); pod == nil || pod.Spec.NodeName == "" {
				missing = append(missing, s.describe(name))
			}
		}
		return strings.Join(missing, "; ")
	})
}

// boundOf waits until exactly n of the pods are bound.
func (s *scenario) boundOf(n int, pods ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d of %v are bound", n, pods), func() string {
		if got := s.boundCount(pods...); got != n {
			return fmt.Sprintf("%d are; %s", got, s.describe(pods[0]))
		}
		return ""
	})
}

// oneOfEachBound waits until exactly one pod of each group is bound.
func (s *scenario) oneOfEachBound(groups ...[]string) {
	s.t.Helper()
	s.until(fmt.Sprintf("one of each of %v is bound", groups), func() string {
		for _, pods := range groups {
			if n := s.boundCount(pods...); n != 1 {
				return fmt.Sprintf("%d of %v are", n, pods)
			}
		}
		return ""
	})
}

// neverBound checks that none of the pods has ever had a node.
func (s *scenario) neverBound(list ...string) {
	s.t.Helper()
	for _, name := range list {
		if s.c.history.saw(s.ns, func(r record) bool {
			pod, ok := r.object.(*corev1.Pod)
			return ok && pod.Name == name && pod.Spec.NodeName != ""
		}) {
			s.t.Fatalf("pod %s has been bound", name)
		}
	}
}

// boundCount is how many of the pods have a node.
func (s *scenario) boundCount(list ...string) int {
	n := 0
	for _, name := range list {
		if pod := s.getPod(name); pod != nil && pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// gangBefore checks that the members of a gang have the cluster's GPUs, one each, and that
// a pod which wanted one meanwhile has never held anything and gets it after them.
func (s *scenario) gangBefore(rival string, pods ...string) {
	s.t.Helper()
	s.holdsNothing(rival)
	s.haveDevices(1, pods...)
	s.deletePods(pods...)
	s.bound(rival)
	s.gpusUsable(1)
}

// onNode checks where the pods are.
func (s *scenario) onNode(node string, pods ...string) {
	s.t.Helper()
	for _, name := range pods {
		if got := s.getPod(name).Spec.NodeName; got != node {
			s.t.Errorf("pod %s is on %s, want %s", name, got, node)
		}
	}
}
