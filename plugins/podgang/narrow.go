// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podgang/podgang-scheduler/pkg/placement"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// shownNodes is how many nodes of a domain are named one by one.
const shownNodes = 4

// narrow says which constraint a class is in the way of, and what the domain lacks
// that comes nearest.
func (w *world) narrow(c *class, shortage *placement.Shortage, room string) string {
	wish := &w.layout.constraints[shortage.Scope]
	level := w.pl.landscape.index.Level(wish.required)
	needs := fmt.Sprintf("%s needs %s in one %s", wish.name, w.podsOf(wish), wish.required)
	if !slices.ContainsFunc(level.Of, func(domain int32) bool { return domain != topology.None }) {
		return fmt.Sprintf("%s, and no node has that label", needs)
	}
	if shortage.Domain == topology.None {
		return fmt.Sprintf("%s: group %s needs %d %s (%s), %s: %s; %s", needs, c.group, shortage.Wanted, plural(shortage.Wanted, "pod"),
			w.needsOf(c), room, w.reasons(c), w.census(level, topology.None))
	}
	about := fmt.Sprintf("%s; best is %s", needs, level.Values[shortage.Domain])
	if pinned := w.pinned(wish, level); len(pinned) > 0 {
		about = fmt.Sprintf("%s; %s", needs, pinned)
	}
	return fmt.Sprintf("%s, where for %d %s of group %s (%s) %s (%s); %s", about, shortage.Wanted, plural(shortage.Wanted, "pod"), c.group,
		w.needsOf(c), room, w.inDomain(c, level, shortage.Domain), w.census(level, shortage.Domain))
}

// podsOf counts the pods that a constraint is about.
func (w *world) podsOf(wish *constraint) string {
	total := 0
	for _, m := range w.members {
		if m.floor && wish.concerns(m.class) {
			total++
		}
	}
	for _, b := range w.layout.bound {
		if wish.concerns(b.class) {
			total++
		}
	}
	return fmt.Sprintf("%d %s", total, plural(total, "pod"))
}

// pinned says where members are that a constraint is about, "" if none has a place.
func (w *world) pinned(wish *constraint, level *topology.Level) string {
	domains := make(map[string]bool)
	for _, b := range w.layout.bound {
		if wish.concerns(b.class) && level.Of[b.node] != topology.None {
			domains[level.Values[level.Of[b.node]]] = true
		}
	}
	if len(domains) == 0 {
		return ""
	}
	return "others are in " + strings.Join(slices.Sorted(maps.Keys(domains)), " and ")
}

// inDomain says what the nodes of a domain lack, those of the same reason together.
func (w *world) inDomain(c *class, level *topology.Level, domain int32) string {
	byReason := make(map[string][]string)
	for n, of := range level.Of {
		if of == domain {
			reason := w.reasonOf(c, n)
			byReason[reason] = append(byReason[reason], w.nodes[n].Node().Name)
		}
	}
	reasons := slices.SortedFunc(maps.Keys(byReason), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byReason[a]), len(byReason[b])), strings.Compare(a, b))
	})
	parts := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		nodes := byReason[reason]
		slices.Sort(nodes)
		if len(nodes) > shownNodes {
			parts = append(parts, fmt.Sprintf("%d nodes: %s", len(nodes), reason))
		} else {
			parts = append(parts, fmt.Sprintf("%s: %s", strings.Join(nodes, ", "), reason))
		}
	}
	return strings.Join(parts, "; ")
}

// census counts all nodes by where they are as far as a level goes.
func (w *world) census(level *topology.Level, domain int32) string {
	in, elsewhere, nowhere := 0, 0, 0
	for _, of := range level.Of {
		switch of {
		case topology.None:
			nowhere++
		case domain:
			in++
		default:
			elsewhere++
		}
	}
	var parts []string
	if domain != topology.None {
		parts = append(parts, fmt.Sprintf("%d in %s", in, level.Values[domain]), fmt.Sprintf("%d in others", elsewhere))
	} else {
		parts = append(parts, fmt.Sprintf("%d with the label", elsewhere))
	}
	parts = append(parts, fmt.Sprintf("%d without the label", nowhere))
	return fmt.Sprintf("of %d nodes %s", len(level.Of), strings.Join(parts, ", "))
}
