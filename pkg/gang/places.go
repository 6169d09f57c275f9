// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/lru"
)

// formerGangs is of how many gangs the places are remembered that their members have
// left, formerNodes how many nodes of each. It is a memory for hints, which may fail.
const (
	formerGangs = 1024
	formerNodes = 1024
)

// former remembers the nodes that members of gangs have left. Guarded by Index.mu.
type former struct {
	nodes *lru.Cache
}

func newFormer() former { return former{nodes: lru.New(formerGangs)} }

// left notes that a member has left a node.
func (f former) left(key Key, node string) {
	nodes, _ := f.of(key)
	if nodes == nil {
		nodes = sets.New[string]()
		f.nodes.Add(key, nodes)
	}
	if nodes.Len() < formerNodes {
		nodes.Insert(node)
	}
}

func (f former) of(key Key) (sets.Set[string], bool) {
	nodes, known := f.nodes.Get(key)
	if !known {
		return nil, false
	}
	return nodes.(sets.Set[string]), true
}

// PlacesOf returns the nodes where members of a gang have a place, or had one that are
// gone, by name. It is empty for a gang of which nothing is known, such as one that
// was gone when the scheduler started.
func (i *Index) PlacesOf(key Key) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	nodes := sets.New[string]()
	if left, known := i.former.of(key); known {
		maps.Copy(nodes, left)
	}
	if g := i.gangs[key]; g != nil {
		for _, m := range g.members {
			if node := i.placeOf(m); node != "" {
				nodes.Insert(node)
			}
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}
