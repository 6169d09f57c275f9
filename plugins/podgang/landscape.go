// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/devices"
	"github.com/podgang/podgang-scheduler/pkg/score"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

// landscape knows the topology of the cluster from one plan to the next. It belongs
// to the goroutine of the scheduling cycle.
type landscape struct {
	index   *topology.Index
	ladders []topology.Ladder
	model   score.Model
	// slices is the generation of ResourceSlices that attributes were read from, "" for
	// none.
	slices string
	// groupOf is the placement group that each slice tells, "" for none.
	groupOf map[*resourceapi.ResourceSlice]string
	// groups are the placement groups that slices tell, by name of the node.
	groups map[string]string
	// known are the nodes of the last snapshot, in its order, byName their indices in the
	// order of their names, and generation is how often something has changed about them
	// that decides how good a placement can be at best.
	known      []*v1.Node
	byName     []int
	generation int64
	// facts are those that were last asked for, made of these levels.
	facts     []score.Facts
	factsFrom []*topology.Level
}

// placementGroup is an attribute of NICs that tells, on Azure, what no node label
// does: between two groups RDMA does not work.
const placementGroup = "azure.dra.net/placementGroupId"

func newLandscape(args *config.PodGangArgs) *landscape {
	return &landscape{index: topology.NewIndex(), ladders: laddersOf(args.Fabrics), model: modelOf(&args.Score)}
}

// laddersOf returns the fabrics of the arguments, and after them the built-in ones
// of other names.
func laddersOf(fabrics []config.Fabric) []topology.Ladder {
	var ladders []topology.Ladder
	for i := range fabrics {
		ladders = append(ladders, topology.Ladder{
			Name: fabrics[i].Name, Keys: fabrics[i].Levels, NVLink: fabrics[i].NVLinkLevels,
			StrictTop: fabrics[i].StrictTop, Tiers: fabrics[i].Bandwidths,
		})
	}
	for _, ladder := range topology.DefaultLadders() {
		if !slices.ContainsFunc(fabrics, func(f config.Fabric) bool { return f.Name == ladder.Name }) {
			ladders = append(ladders, ladder)
		}
	}
	return ladders
}

// modelOf returns the model of the score.
func modelOf(args *config.Score) score.Model {
	return score.Model{
		NVLink: args.NVLinkBandwidth, Tiers: args.FabricBandwidths, Next: args.FabricFalloff, TCP: args.TCPBandwidth,
		UnitWeight: args.CrossUnitWeight, UnitCap: args.CrossUnitBandwidth,
	}
}

// sync takes note of the nodes of a snapshot, once at the start of a plan.
func (l *landscape) sync(nodes []fwk.NodeInfo) {
	l.index.Sync(len(nodes), func(i int) *v1.Node { return nodes[i].Node() })
	renamed := len(nodes) != len(l.known)
	changed := renamed
	if renamed {
		l.known = make([]*v1.Node, len(nodes))
	}
	for i, info := range nodes {
		before, node := l.known[i], info.Node()
		if before == node {
			continue
		}
		if before == nil || before.Name != node.Name {
			renamed = true
		}
		changed = changed || renamed || !alike(before, node)
		l.known[i] = node
	}
	if changed {
		l.generation++
	}
	if renamed {
		l.rename()
	}
}

// rename sorts the nodes by name.
func (l *landscape) rename() {
	l.byName = l.byName[:0]
	for i := range l.known {
		l.byName = append(l.byName, i)
	}
	slices.SortFunc(l.byName, func(a, b int) int { return strings.Compare(l.known[a].Name, l.known[b].Name) })
}

// alike reports whether two versions of a node are the same to a gang on an empty
// cluster.
func alike(a, b *v1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// readSlices takes note of what attributes of devices tell about topology. The
// generation changes whenever ResourceSlices do.
func (l *landscape) readSlices(generation string, all []*resourceapi.ResourceSlice) {
	if generation == l.slices {
		return
	}
	groups := make(map[string]string)
	known := l.groupOf
	l.groupOf = make(map[*resourceapi.ResourceSlice]string, len(all))
	for _, slice := range all {
		if slice.Spec.NodeName == nil {
			continue
		}
		group, same := known[slice]
		if !same {
			group = placementGroupOf(slice)
		}
		l.groupOf[slice] = group
		if group != "" {
			groups[*slice.Spec.NodeName] = group
		}
	}
	if !maps.Equal(groups, l.groups) {
		l.index.Overlay(placementGroup, groups)
		l.groups = groups
	}
	l.slices = generation
}

func placementGroupOf(slice *resourceapi.ResourceSlice) string {
	for i := range slice.Spec.Devices {
		if group := devices.Text(slice.Spec.Driver, &slice.Spec.Devices[i], placementGroup); group != "" {
			return group
		}
	}
	return ""
}

// terrain is what the landscape looks like for one gang.
type terrain struct {
	facts []score.Facts
	// split are the levels to keep pods close by, broad to narrow.
	split []*topology.Level
	model *score.Model
	// top is the broadest level of the fabric, "" if no eligible node carries a label
	// of one.
	top string
}

// terrain returns the facts of all nodes for a gang that can use the eligible ones.
func (l *landscape) terrain(count int, eligible func(i int) bool) *terrain {
	model := l.model
	ladder, labelled := l.index.Ladder(l.ladders, eligible)
	model.Labelled, model.StrictTop = labelled, ladder.StrictTop
	if len(ladder.Tiers) > 0 {
		model.Tiers = ladder.Tiers
	}
	var fabric []*topology.Level
	for _, key := range ladder.Keys {
		fabric = append(fabric, l.index.Level(key))
	}
	t := &terrain{facts: l.factsOf(count, l.index.Level(topology.NVLinkKey), fabric), model: &model}
	if labelled {
		t.top = ladder.Keys[len(ladder.Keys)-1]
	}
	for _, level := range slices.Backward(fabric) {
		t.split = append(t.split, level)
	}
	if nvlink := l.index.NVLink(ladder.NVLink); len(nvlink.Values) > 0 {
		t.split = append(t.split, nvlink)
	}
	return t
}

// factsOf returns the facts of all nodes. Levels never change, so that facts made of the
// same levels are the same.
func (l *landscape) factsOf(count int, clique *topology.Level, fabric []*topology.Level) []score.Facts {
	from := append([]*topology.Level{clique}, fabric...)
	if len(l.facts) != count || !slices.Equal(l.factsFrom, from) {
		l.facts, l.factsFrom = score.FactsOf(count, clique, fabric), from
	}
	return l.facts
}
