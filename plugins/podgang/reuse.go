// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"fmt"
	"slices"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// placesToReuse returns the nodes of the gang that the PodGang's reuseReservationRef
// names, and why there are none although it names one. A gang comes back to them where
// no better place is free; it never waits for them.
func (pl *Plugin) placesToReuse(snapshot gang.Snapshot) (nodes []string, ignored string) {
	ref := snapshot.Object.Spec.ReuseReservationRef
	switch {
	case ref == nil:
		return nil, ""
	case ref.Namespace != snapshot.Key.Namespace:
		return nil, fmt.Sprintf("reuseReservationRef is ignored: PodGang %s/%s is in another namespace", ref.Namespace, ref.Name)
	}
	nodes = pl.index.PlacesOf(gang.Key{Namespace: ref.Namespace, Name: ref.Name})
	if len(nodes) == 0 {
		return nil, fmt.Sprintf("reuseReservationRef is ignored: no place of PodGang %s/%s is known (places of gangs that are gone are forgotten when the scheduler restarts)", ref.Namespace, ref.Name)
	}
	return nodes, ""
}

// prefer has the classes try these nodes first, by name, and the search prefer them
// among equals.
func (w *world) prefer(names []string) {
	if len(names) == 0 {
		return
	}
	wanted := make([]bool, len(w.nodes))
	for n, node := range w.nodes {
		if _, found := slices.BinarySearch(names, node.Node().Name); found {
			wanted[n] = true
			w.layout.reuse = append(w.layout.reuse, n)
		}
	}
	for _, c := range w.classes {
		slices.SortStableFunc(c.nodes, func(a, b int) int {
			switch {
			case wanted[a] == wanted[b]:
				return 0
			case wanted[a]:
				return -1
			}
			return 1
		})
	}
}
