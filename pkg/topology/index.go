// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Index knows the levels of a cluster and keeps them up to date from one snapshot
// of its nodes to the next. It belongs to one goroutine; the levels that it hands
// out never change and may be read by any.
type Index struct {
	nodes    []*v1.Node
	at       map[*v1.Node]int32
	levels   map[string]*indexed
	overlays map[string]map[string]string
	nvlink   map[string]*nvlinkLevel
}

// indexed is a level in use, and what it takes to keep it up to date.
type indexed struct {
	*Level
	ids   map[string]int32
	sizes []int32 // nodes by domain
	live  int     // domains with nodes
}

// nvlinkLevel is a level made of others, and which ones.
type nvlinkLevel struct {
	level *Level
	from  []*Level
}

// NewIndex returns an Index of a cluster without nodes.
func NewIndex() *Index {
	return &Index{
		at:       make(map[*v1.Node]int32),
		levels:   make(map[string]*indexed),
		overlays: make(map[string]map[string]string),
		nvlink:   make(map[string]*nvlinkLevel),
	}
}

// Sync takes note of the nodes of a snapshot: at(i) for each i below count. A node
// object that was in the snapshot before is taken to be unchanged, whatever its
// place; labels are read only of those that were not.
func (x *Index) Sync(count int, at func(i int) *v1.Node) {
	var changes []change
	for i := range count {
		node := at(i)
		if i < len(x.nodes) && x.nodes[i] == node {
			continue
		}
		from, known := x.at[node]
		if !known {
			from = None
		}
		changes = append(changes, change{index: i, from: from, node: node})
	}
	if len(changes) == 0 && count == len(x.nodes) {
		return
	}
	for _, c := range changes {
		if c.index < len(x.nodes) {
			delete(x.at, x.nodes[c.index])
		}
	}
	for i := count; i < len(x.nodes); i++ {
		delete(x.at, x.nodes[i])
		x.nodes[i] = nil
	}
	x.nodes = slices.Grow(x.nodes[:min(count, len(x.nodes))], max(0, count-len(x.nodes)))[:count]
	for _, c := range changes {
		x.nodes[c.index] = c.node
		x.at[c.node] = int32(c.index)
	}
	for key, level := range x.levels {
		x.update(key, level, changes)
	}
}

// change is a place in the snapshot that another node has now: the one that was at
// from, or one that is new.
type change struct {
	index int
	from  int32
	node  *v1.Node
}

// update replaces a level by what it is after the changes, if they touch it.
func (x *Index) update(key string, level *indexed, changes []change) {
	published, old := level.Level, level.Of
	next := *published
	if len(x.nodes) != len(old) {
		next.Of = make([]int32, len(x.nodes))
		copy(next.Of, old)
	}
	for i := len(x.nodes); i < len(old); i++ {
		level.leave(old[i])
	}
	touched := len(x.nodes) != len(old)
	level.Level = &next
	for _, c := range changes {
		was := None
		if c.index < len(old) {
			was = old[c.index]
		}
		var is int32
		if c.from != None {
			is = old[c.from]
		} else {
			is = level.id(x.value(key, c.node))
		}
		if !touched && is != was {
			touched = true
			next.Of = append([]int32(nil), old...)
		}
		if touched {
			next.Of[c.index] = is
		}
		level.leave(was)
		level.enter(is)
	}
	if dead := len(level.Values) - level.live; dead > 16 && dead > level.live {
		*level = *x.read(key)
	} else if !touched {
		level.Level = published
	}
}

// Level returns the level of a label key. It is built when first asked for.
func (x *Index) Level(key string) *Level {
	return x.level(key).Level
}

func (x *Index) level(key string) *indexed {
	level := x.levels[key]
	if level == nil {
		level = x.read(key)
		x.levels[key] = level
	}
	return level
}

// read makes a level from scratch.
func (x *Index) read(key string) *indexed {
	level := &indexed{Level: &Level{Key: key, Of: make([]int32, len(x.nodes))}, ids: make(map[string]int32)}
	for i, node := range x.nodes {
		domain := level.id(x.value(key, node))
		level.Of[i] = domain
		level.enter(domain)
	}
	return level
}

// value is what a node says of a key; an empty value is none.
func (x *Index) value(key string, node *v1.Node) string {
	if value := node.Labels[key]; value != "" {
		return value
	}
	return x.overlays[key][node.Name]
}

// Overlay gives nodes that lack a label the value that they would have, by node
// name. It is for what clusters tell elsewhere, such as in attributes of NICs. The
// values replace those given for the key before; the map must not change after.
func (x *Index) Overlay(key string, values map[string]string) {
	x.overlays[key] = values
	if x.levels[key] != nil {
		*x.levels[key] = *x.read(key)
	}
}

// NVLink returns the level of the NVLink domains: NVLinkKey, and of nodes without
// it the first hint that they carry. A domain that comes from a hint promises no
// NVLink; it is for packing alone. Equal values of two keys are two domains.
func (x *Index) NVLink(hints []string) *Level {
	from := make([]*Level, 0, 1+len(hints))
	from = append(from, x.Level(NVLinkKey))
	id := ""
	for _, key := range hints {
		if x.level(key).live > 0 {
			from = append(from, x.Level(key))
		}
		id += key + "\n"
	}
	if made := x.nvlink[id]; made != nil && slices.Equal(made.from, from) {
		return made.level
	}
	made := &nvlinkLevel{level: firstOf(from), from: from}
	x.nvlink[id] = made
	return made.level
}

// firstOf is the level in which each node is in the domain that the first of the
// levels to know it says.
func firstOf(levels []*Level) *Level {
	if len(levels) == 1 {
		return levels[0]
	}
	first := &Level{Key: levels[0].Key, Of: append([]int32(nil), levels[0].Of...)}
	first.Values = append(first.Values, levels[0].Values...)
	for _, level := range levels[1:] {
		base := int32(len(first.Values))
		first.Values = append(first.Values, level.Values...)
		for i, domain := range level.Of {
			if first.Of[i] == None && domain != None {
				first.Of[i] = base + domain
			}
		}
	}
	return first
}

// id returns the domain of a value.
func (l *indexed) id(value string) int32 {
	if value == "" {
		return None
	}
	id, known := l.ids[value]
	if !known {
		id = int32(len(l.Values))
		l.ids[value] = id
		l.Values = append(l.Values, value)
		l.sizes = append(l.sizes, 0)
	}
	return id
}

func (l *indexed) enter(domain int32) {
	if domain == None {
		return
	}
	if l.sizes[domain]++; l.sizes[domain] == 1 {
		l.live++
	}
}

func (l *indexed) leave(domain int32) {
	if domain == None {
		return
	}
	if l.sizes[domain]--; l.sizes[domain] == 0 {
		l.live--
	}
}
