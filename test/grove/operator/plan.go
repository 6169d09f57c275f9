// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// waves is in how many steps the pods of a gang are created at most.
const waves = 3

// Hold is something that the operator can be told to put off.
type Hold string

// What can be put off.
const (
	// References of PodGangs are not written.
	HoldReferences Hold = "references"
	// Initialized does not become True.
	HoldInitialized Hold = "Initialized"
	// Gates are not lifted.
	HoldGates Hold = "gates"
)

// action is one write that is due.
type action struct {
	// text says what it is, with the object's name.
	text string
	do   write
}

// stage are actions whose order among each other does not matter.
type stage []action

// pass finds what is due, from what is wanted and what was last seen. It writes nothing.
type pass struct {
	*Options
	gangs []Gang
	held  map[Hold]bool
	seen  snapshot
}

// plan returns the writes of one pass, in order.
func (p *pass) plan() []stage {
	var stages []stage
	for _, s := range []stage{p.missingGangs(), p.changedGangs(), p.leftovers(), p.missingPods(), p.dueGates()} {
		if len(s) > 0 {
			stages = append(stages, s)
		}
	}
	return stages
}

// podsOf are the pods of a gang that are not being deleted, by name. Failed ones count:
// the operator keeps them.
func (p *pass) podsOf(gang string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range p.seen.pods {
		if pod.DeletionTimestamp == nil && pod.Labels[v1alpha1.LabelPodGang] == gang {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

func inGroup(pods []*corev1.Pod, group string) []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range pods {
		if pod.Labels[v1alpha1.LabelPodClique] == group {
			list = append(list, pod)
		}
	}
	return list
}

func (p *pass) missingGangs() stage {
	var due stage
	for n := range p.gangs {
		g := &p.gangs[n]
		if p.seen.gangs[g.Name] != nil {
			continue
		}
		pg := p.newPodGang(g)
		if p.Generation == GenerationA {
			pods := p.podsOf(g.Name)
			if !p.complete(g, pods) || p.held[HoldReferences] {
				continue
			}
			pg.Spec.PodGroups = p.podGroups(g, pods, p.constraintsOf(g))
			due = append(due, action{"create PodGang " + g.Name, createGang(pg)})
			continue
		}
		due = append(due, action{"create PodGang " + g.Name, inOrder(createGang(pg), patchStatus(g.Name, notInitialized()))})
	}
	return due
}

// complete reports whether every group has all its pods.
func (p *pass) complete(g *Gang, pods []*corev1.Pod) bool {
	for _, group := range g.Groups {
		if len(inGroup(pods, group.Name)) < group.Replicas {
			return false
		}
	}
	return true
}

// changedGangs brings references and status of the PodGangs that exist up to date.
func (p *pass) changedGangs() stage {
	var due stage
	for n := range p.gangs {
		g := &p.gangs[n]
		pg := p.seen.gangs[g.Name]
		if pg == nil {
			continue
		}
		var texts []string
		var writes []write
		pods, c := p.podsOf(g.Name), p.constraintsOf(g)
		if groups := p.podGroups(g, pods, c); !p.held[HoldReferences] && !equality.Semantic.DeepEqual(groups, pg.Spec.PodGroups) {
			texts, writes = append(texts, "references"), append(writes, patchGang(g.Name, map[string]any{"spec": map[string]any{"podgroups": groups}}))
		}
		if !c.are(pg) {
			texts, writes = append(texts, "constraints"), append(writes, patchGang(g.Name, c.patch()))
		}
		if status, what := p.dueStatus(g, pg, pods); status != nil {
			texts, writes = append(texts, what), append(writes, patchStatus(g.Name, status))
		}
		if len(writes) > 0 {
			due = append(due, action{fmt.Sprintf("write %v of PodGang %s", texts, g.Name), inOrder(writes...)})
		}
	}
	return due
}

// dueStatus is what the operator writes to the status of a PodGang now. While it settles
// the condition Initialized it replaces all conditions and resets the phase.
func (p *pass) dueStatus(g *Gang, pg *v1alpha1.PodGang, pods []*corev1.Pod) (status map[string]any, what string) {
	if p.Generation == GenerationA {
		return nil, ""
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionInitialized)
	switch {
	case c == nil:
		return notInitialized(), "Initialized=False"
	case c.Status != metav1.ConditionTrue && p.complete(g, pods) && !p.held[HoldInitialized]:
		return map[string]any{"phase": v1alpha1.PodGangPhasePending, "conditions": []metav1.Condition{initialized(true)}}, "Initialized=True"
	case c.Status == metav1.ConditionTrue && p.Generation == GenerationC:
		return p.dueProgress(pg)
	}
	return nil, ""
}

func notInitialized() map[string]any {
	return map[string]any{"phase": v1alpha1.PodGangPhasePending, "conditions": []metav1.Condition{initialized(false)}}
}

// dueProgress is the conditions Scheduled and Ready, and when they last became True.
func (p *pass) dueProgress(pg *v1alpha1.PodGang) (status map[string]any, what string) {
	conditions := slices.Clone(pg.Status.Conditions)
	status = map[string]any{}
	for _, progress := range []struct{ kind, at, reason string }{
		{v1alpha1.ConditionScheduled, "lastScheduled", string(corev1.PodScheduled)},
		{v1alpha1.ConditionReady, "lastReady", string(corev1.PodReady)},
	} {
		c := metav1.Condition{Type: progress.kind, Status: metav1.ConditionFalse, Reason: "FloorNotReached", Message: "written by the operator"}
		if p.floorsReach(pg, corev1.PodConditionType(progress.reason)) {
			c.Status, c.Reason = metav1.ConditionTrue, "FloorReached"
		}
		if old := meta.FindStatusCondition(conditions, progress.kind); old != nil && old.Status == c.Status {
			continue
		}
		meta.SetStatusCondition(&conditions, c)
		what += progress.kind + "=" + string(c.Status) + " "
		if c.Status == metav1.ConditionTrue {
			status[progress.at] = metav1.Now()
		}
	}
	if what == "" {
		return nil, ""
	}
	status["conditions"] = conditions
	return status, what
}

// floorsReach reports whether in every group of the PodGang as many pods as its floor
// have the condition.
func (p *pass) floorsReach(pg *v1alpha1.PodGang, condition corev1.PodConditionType) bool {
	pods := p.podsOf(pg.Name)
	for _, group := range pg.Spec.PodGroups {
		n := 0
		for _, pod := range inGroup(pods, group.Name) {
			if hasCondition(pod, condition) {
				n++
			}
		}
		if n < int(group.MinReplicas) {
			return false
		}
	}
	return true
}

func hasCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// leftovers are PodGangs and pods that are not wanted any more. They go in any order.
func (p *pass) leftovers() stage {
	var due stage
	wanted := map[string]*Gang{}
	for n := range p.gangs {
		wanted[p.gangs[n].Name] = &p.gangs[n]
	}
	for name, pg := range p.seen.gangs {
		if wanted[name] == nil && pg.DeletionTimestamp == nil {
			due = append(due, action{"delete PodGang " + name, deleteGang(name)})
		}
	}
	for _, pod := range p.seen.pods {
		if pod.DeletionTimestamp == nil && wanted[pod.Labels[v1alpha1.LabelPodGang]] == nil {
			due = append(due, action{"delete pod " + pod.Name, deletePod(pod)})
		}
	}
	for _, g := range wanted {
		pods := p.podsOf(g.Name)
		for _, group := range g.Groups {
			own := inGroup(pods, group.Name)
			if excess := len(own) - group.Replicas; excess > 0 {
				slices.SortStableFunc(own, scaleInOrder)
				for _, pod := range own[:excess] {
					due = append(due, action{"delete pod " + pod.Name, deletePod(pod)})
				}
			}
		}
	}
	return due
}

// scaleInOrder puts the pods that a clique gives up first in front: unassigned, pending,
// not ready, newest.
func scaleInOrder(a, b *corev1.Pod) int {
	return cmp.Or(
		trueFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
		trueFirst(a.Status.Phase == corev1.PodPending, b.Status.Phase == corev1.PodPending),
		trueFirst(!hasCondition(a, corev1.PodReady), !hasCondition(b, corev1.PodReady)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
	)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// missingPods are the next pods to create: of each gang no more than a third at a time.
func (p *pass) missingPods() stage {
	var due stage
	for n := range p.gangs {
		g := &p.gangs[n]
		if p.Generation != GenerationA && p.seen.gangs[g.Name] == nil {
			continue
		}
		pods, left := p.podsOf(g.Name), (g.pods()+waves-1)/waves
		for m := range g.Groups {
			group := &g.Groups[m]
			own := inGroup(pods, group.Name)
			missing := min(group.Replicas-len(own), left)
			for _, index := range freeIndices(own, missing) {
				pod := p.newPod(g, group, index)
				due = append(due, action{fmt.Sprintf("create pod %d of %s", index, group.Name), createPod(pod)})
				left--
			}
		}
	}
	return due
}

// freeIndices are the n lowest pod indices that no pod has.
func freeIndices(pods []*corev1.Pod, n int) []int {
	taken := map[string]bool{}
	for _, pod := range pods {
		taken[pod.Labels[labelPodIndex]] = true
	}
	var free []int
	for i := 0; len(free) < n; i++ {
		if !taken[strconv.Itoa(i)] {
			free = append(free, i)
		}
	}
	return free
}

// dueGates are the gates to lift: of pods that are referenced, when the gang that theirs
// depends on is scheduled.
func (p *pass) dueGates() stage {
	var due stage
	if p.held[HoldGates] {
		return nil
	}
	for n := range p.gangs {
		g := &p.gangs[n]
		pg := p.seen.gangs[g.Name]
		if pg == nil || !p.dependencyScheduled(g) {
			continue
		}
		referenced := map[string]bool{}
		for _, group := range pg.Spec.PodGroups {
			for _, ref := range group.PodReferences {
				referenced[ref.Name] = true
			}
		}
		for _, pod := range p.podsOf(g.Name) {
			if referenced[pod.Name] && gated(pod) {
				due = append(due, action{"lift the gate of pod " + pod.Name, liftGate(pod)})
			}
		}
	}
	return due
}

// dependencyScheduled reports whether the gang that this one depends on is scheduled:
// now, by its pods, or in generation C once, by its status.
func (p *pass) dependencyScheduled(g *Gang) bool {
	if g.DependsOn == "" {
		return true
	}
	base := p.seen.gangs[g.DependsOn]
	switch {
	case base == nil:
		return false
	case p.Generation == GenerationC:
		return base.Status.LastScheduled != nil
	}
	return p.floorsReach(base, corev1.PodScheduled)
}

func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1alpha1.SchedulingGatePodGangPending
	})
}
