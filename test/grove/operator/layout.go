// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Gang is a PodGang as the workload wants it.
type Gang struct {
	// Name of the PodGang.
	Name string
	// Replica of the PodCliqueSet that it belongs to.
	Replica int
	// DependsOn names the gang that must be scheduled before the gates of this one's
	// pods are lifted; empty for a base gang.
	DependsOn string
	// Role and Epoch are its labels in generation C.
	Role, Epoch string
	// Groups in the order of the PodGang.
	Groups []Group
	// Pack is for all pods of the gang.
	Pack Pack
	// Sets are constraints on several groups together.
	Sets []Set
}

// Set is a number of groups with a constraint in common: those of one replica of a
// PodCliqueScalingGroup.
type Set struct {
	Name   string
	Groups []string
	Pack   Pack
}

// Group is a group of a gang: the pods of one PodClique.
type Group struct {
	// Name is the full object name of the PodClique.
	Name string
	// Replicas is the number of pods, Floor how many must be placed together.
	Replicas, Floor int
	// ScalingGroup is the full object name of the PodCliqueScalingGroup, empty for a
	// clique that stands alone; ScalingGroupReplica is the replica in it.
	ScalingGroup        string
	ScalingGroupReplica int
	// Pack is for the pods of the group.
	Pack Pack

	spec corev1.PodSpec
}

// pods is the number of pods of the gang.
func (g *Gang) pods() int {
	n := 0
	for _, group := range g.Groups {
		n += group.Replicas
	}
	return n
}

// inReplica names a scaling group or a clique in one replica of the PodCliqueSet.
type inReplica struct {
	replica int
	name    string
}

// desired is what is wanted: the workload and how it has been scaled since.
type desired struct {
	generation Generation
	workload   Workload
	// groups and cliques that were scaled, to so many replicas.
	groups, cliques map[inReplica]int
	// epochs of the gangs of generation C, by the name that they would have in
	// generations A and B.
	epochs map[string]epoch
	last   int64
}

type epoch struct {
	value, role string
}

func newDesired(generation Generation, w Workload) *desired {
	return &desired{
		generation: generation, workload: w.withDefaults(),
		groups: map[inReplica]int{}, cliques: map[inReplica]int{}, epochs: map[string]epoch{},
	}
}

// gangs lists the gangs that are wanted now, base gangs before those that scale them.
func (d *desired) gangs() []Gang {
	var all []Gang
	for i := range d.workload.Replicas {
		all = append(all, d.gangsOf(i)...)
	}
	if d.generation == GenerationC {
		d.nameByEpoch(all)
	}
	return all
}

// gangsOf lists the gangs of one replica of the PodCliqueSet, named as in generations A
// and B: the base first.
func (d *desired) gangsOf(i int) []Gang {
	set := fmt.Sprintf("%s-%d", d.workload.Name, i)
	base := Gang{Name: set, Replica: i, Pack: d.workload.Pack}
	for _, c := range d.workload.Cliques {
		group := newGroup(set, c)
		if n, scaled := d.cliques[inReplica{i, c.Name}]; scaled {
			group.Replicas = n
		}
		base.Groups = append(base.Groups, group)
	}
	var scaled []Gang
	for _, sg := range d.workload.ScalingGroups {
		replicas, full := sg.Replicas, set+"-"+sg.Name
		if n, changed := d.groups[inReplica{i, sg.Name}]; changed {
			replicas = n
		}
		for j := range replicas {
			groups, together := groupsOf(sg, full, j)
			if j < sg.MinAvailable {
				base.Groups, base.Sets = append(base.Groups, groups...), append(base.Sets, together...)
				continue
			}
			// The first scaled gang is number 0, although it holds replica minAvailable.
			g := Gang{Name: fmt.Sprintf("%s-%d", full, j-sg.MinAvailable), Replica: i, DependsOn: set, Groups: groups, Pack: d.workload.Pack}
			switch {
			case d.generation == GenerationC:
				g.Sets = together
			case len(together) > 0: // in place of that of the whole
				g.Pack = sg.Pack
			}
			scaled = append(scaled, g)
		}
	}
	return append([]Gang{base}, scaled...)
}

// groupsOf lists the groups of replica j of a scaling group, and the constraint that it
// puts on them together, if any.
func groupsOf(sg ScalingGroup, full string, j int) (groups []Group, together []Set) {
	set := Set{Name: fmt.Sprintf("%s-%d", full, j), Pack: sg.Pack}
	for _, c := range sg.Cliques {
		group := newGroup(set.Name, c)
		group.ScalingGroup, group.ScalingGroupReplica = full, j
		groups = append(groups, group)
		set.Groups = append(set.Groups, group.Name)
	}
	if sg.Pack == (Pack{}) {
		return groups, nil
	}
	return groups, []Set{set}
}

func newGroup(owner string, c Clique) Group {
	return Group{Name: owner + "-" + c.Name, Replicas: c.Replicas, Floor: c.MinAvailable, Pack: c.Pack, spec: c.Spec}
}

// nameByEpoch gives the gangs the names, roles and epochs of generation C. A gang keeps
// its epoch for as long as it is wanted.
func (d *desired) nameByEpoch(all []Gang) {
	wanted, fresh, shared := map[string]epoch{}, map[int]bool{}, map[int]string{}
	anchors := map[int]string{}
	for n := range all {
		g := &all[n]
		e, known := d.epochs[g.Name]
		switch {
		case known:
		case g.DependsOn == "":
			e = epoch{d.nextEpoch(), v1alpha1.PodGangRoleAnchor}
			fresh[g.Replica] = true
		default:
			// Gangs that come at the same time share an entry of the PodGangMap.
			if shared[g.Replica] == "" {
				shared[g.Replica] = d.nextEpoch()
			}
			e = epoch{shared[g.Replica], v1alpha1.PodGangRoleScaleOut}
			if fresh[g.Replica] {
				e.role = v1alpha1.PodGangRoleTail
			}
		}
		wanted[g.Name] = e
		g.Epoch, g.Role = e.value, e.role
		g.Name = fmt.Sprintf("%s-%d-%s", d.workload.Name, g.Replica, e.value)
		if g.DependsOn == "" {
			anchors[g.Replica] = g.Name
			continue
		}
		g.DependsOn = anchors[g.Replica]
		for _, sg := range d.workload.ScalingGroups {
			if g.Groups[0].ScalingGroup == fmt.Sprintf("%s-%d-%s", d.workload.Name, g.Replica, sg.Name) {
				g.Name += fmt.Sprintf("-%s-%d", sg.Name, g.Groups[0].ScalingGroupReplica)
			}
		}
	}
	d.epochs = wanted
}

// nextEpoch is later than every epoch before. It looks like a time and is an order key.
func (d *desired) nextEpoch() string {
	d.last = max(d.last+1, time.Now().UnixNano())
	return strconv.FormatInt(d.last, 10)
}
