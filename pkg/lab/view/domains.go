// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulerv1alpha1 "github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// NVLinkDomains returns the NVLink domain of every node that has one: the value of the
// label topology.NVLinkKey.
func (r *Reader) NVLinkDomains(ctx context.Context) (map[string]string, error) {
	list, err := r.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: topology.NVLinkKey})
	if err != nil {
		return nil, fmt.Errorf("cannot list the nodes: %w", err)
	}
	domains := map[string]string{}
	for i := range list.Items {
		domains[list.Items[i].Name] = list.Items[i].Labels[topology.NVLinkKey]
	}
	return domains, nil
}

// PrintDomains prints, after an empty line, how many pods of each PodGang are in each
// NVLink domain, for those with a pod in one. The domain of each node is given.
func (s *State) PrintDomains(out io.Writer, domains map[string]string) {
	t := NewTable("PODGANG", "NVLINK DOMAIN", "PODS", "NODES")
	some := false
	for i := range s.Gangs {
		gang := &s.Gangs[i]
		pods, nodes := s.spread(gang, domains)
		if len(pods) == 0 || len(pods) == 1 && pods[""] > 0 {
			continue
		}
		some = true
		for _, domain := range slices.SortedFunc(maps.Keys(pods), func(a, b string) int {
			return cmp.Or(cmp.Compare(pods[b], pods[a]), cmp.Compare(a, b))
		}) {
			t.Row(gang.Namespace+"/"+gang.Name, domain, pods[domain], len(nodes[domain]))
		}
	}
	if some {
		Println(out, "")
		t.Print(out)
	}
}

// spread counts the bound pods of a gang in each domain, "" for none, and tells the nodes
// that they are on.
func (s *State) spread(gang *schedulerv1alpha1.PodGang, domains map[string]string) (pods map[string]int, nodes map[string]map[string]bool) {
	pods, nodes = map[string]int{}, map[string]map[string]bool{}
	for _, g := range gang.Spec.PodGroups {
		for _, ref := range g.PodReferences {
			pod := s.Pod(gang.Namespace, ref.Name)
			if pod == nil || pod.Spec.NodeName == "" {
				continue
			}
			domain := domains[pod.Spec.NodeName]
			pods[domain]++
			if nodes[domain] == nil {
				nodes[domain] = map[string]bool{}
			}
			nodes[domain][pod.Spec.NodeName] = true
		}
	}
	return pods, nodes
}
