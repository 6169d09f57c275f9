// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// tally is the count of a gang's members, by group.
type tally struct {
	groups []groupTally
	// blocked says why the gang cannot be scheduled at all for now; empty if it
	// can as far as its members go.
	blocked string
}

// groupTally counts the members of one group.
type groupTally struct {
	name    string
	floor   int
	listed  int
	bound   int
	running int
	pending int
	held    int
	// heldReason is why one of the held members is held.
	heldReason string
}

// need is how many pending members the group lacks to its floor.
func (t *groupTally) need() int {
	return max(0, t.floor-t.bound)
}

// countOf returns the tally of a gang.
func (i *Index) countOf(g *gang) *tally {
	if g.tally == nil {
		g.tally = i.count(g)
	}
	return g.tally
}

func (i *Index) count(g *gang) *tally {
	t := &tally{}
	if g.object == nil {
		t.blocked = fmt.Sprintf("PodGang %s does not exist", g.key)
		return t
	}
	groups := g.object.Spec.PodGroups
	t.groups = make([]groupTally, len(groups))
	for n := range groups {
		t.groups[n] = groupTally{name: groups[n].Name, floor: int(groups[n].MinReplicas), listed: len(groups[n].PodReferences)}
	}
	// Members are visited by name so that the reason does not depend on the order
	// of a map.
	for _, name := range sortedNames(g.members) {
		if group, listed := g.groupOf[name]; listed {
			t.groups[group].add(g.members[name], i.schedulerName)
		}
	}
	t.blocked = t.blockedBy(g)
	return t
}

func (t *groupTally) add(m *member, schedulerName string) {
	state, reason := m.stateOf(schedulerName)
	switch state {
	case stateBound:
		t.bound++
		if m.running() {
			t.running++
		}
	case statePending:
		t.pending++
	case stateHeld:
		t.held++
		if t.heldReason == "" {
			t.heldReason = reason
		}
	case stateGone:
	}
}

// isInitialized reports whether nothing says that the PodGang is not complete yet.
func isInitialized(pg *v1alpha1.PodGang) bool {
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionInitialized)
	return c == nil || c.Status == metav1.ConditionTrue
}

// blockedBy returns why the gang is not ready, "" if it is.
func (t *tally) blockedBy(g *gang) string {
	if len(g.faults) > 0 {
		return fmt.Sprintf("PodGang %s is wrong: %s", g.key, strings.Join(g.faults, "; "))
	}
	if !isInitialized(g.object) {
		c := meta.FindStatusCondition(g.object.Status.Conditions, v1alpha1.ConditionInitialized)
		return fmt.Sprintf("PodGang %s is not initialized yet: condition Initialized is %s (%s)", g.key, c.Status, c.Reason)
	}
	var short []string
	for n := range t.groups {
		if s := t.groups[n].shortage(); s != "" {
			short = append(short, s)
		}
	}
	if len(short) > 0 {
		return fmt.Sprintf("PodGang %s waits for members: %s", g.key, strings.Join(short, "; "))
	}
	return ""
}

// shortage says what the group lacks to its floor, "" if nothing.
func (t *groupTally) shortage() string {
	present := t.bound + t.pending
	if present >= t.floor {
		return ""
	}
	s := fmt.Sprintf("group %s has %d of %d present", t.name, present, t.floor)
	switch {
	case t.heldReason != "" && t.held > 1:
		s += fmt.Sprintf(" (%d held, the first because %s)", t.held, t.heldReason)
	case t.heldReason != "":
		s += fmt.Sprintf(" (%s)", t.heldReason)
	case t.listed < t.floor:
		s += fmt.Sprintf(" (%d listed in podReferences)", t.listed)
	}
	return s
}

// satisfied reports whether every group has its floor bound.
func (t *tally) satisfied() bool {
	return !slices.ContainsFunc(t.groups, func(g groupTally) bool { return g.need() > 0 })
}

// anyBound reports whether a member is bound.
func (t *tally) anyBound() bool {
	return slices.ContainsFunc(t.groups, func(g groupTally) bool { return g.bound > 0 })
}

// allRunning reports whether every group has its floor running.
func (t *tally) allRunning() bool {
	return !slices.ContainsFunc(t.groups, func(g groupTally) bool { return g.running < g.floor })
}

// pendingMembers returns the pending members of the groups that the filter
// accepts, by name.
func (i *Index) pendingMembers(g *gang, accept func(*groupTally) bool) []*v1.Pod {
	t := i.countOf(g)
	var pods []*v1.Pod
	for _, name := range sortedNames(g.members) {
		group, listed := g.groupOf[name]
		if !listed || !accept(&t.groups[group]) {
			continue
		}
		if state, _ := g.members[name].stateOf(i.schedulerName); state == statePending {
			pods = append(pods, g.members[name].pod)
		}
	}
	return pods
}

func sortedNames(members map[string]*member) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
