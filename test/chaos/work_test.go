// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// How often work comes, on average. Gangs ask for about twice of what there is.
const (
	gangInterval  = 1300 * time.Millisecond
	plainInterval = 4 * time.Second
)

// gangDraft is a gang while its story is planned.
type gangDraft struct {
	p        *plan
	rng      *rand.Rand
	name     string
	priority string
	// labelled gangs are known by the label on their pods.
	labelled bool
	grace    int64
	groups   []*groupDraft
	// shared is a claim that all pods name; it has as many GPUs as sharedGPUs.
	shared     string
	sharedGPUs int64
	ownsShared bool
	// finished are pods that have Succeeded or Failed.
	finished map[string]bool
}

type groupDraft struct {
	name  string
	floor int
	pods  []string // listed and not deleted
	made  int
	gpus  int64
	cpu   string
}

// planWork plans the gangs and the pods outside gangs.
func (p *plan) planWork(rng *rand.Rand) {
	shared := ""
	sharedUntil := time.Duration(0)
	p.every(rng, gangInterval, func(at time.Duration) {
		p.gangs++
		g := &gangDraft{
			p: p, rng: rng, name: fmt.Sprintf("g%03d", p.gangs), finished: map[string]bool{},
			priority: pick(rng, "", "", "", "low", "high"), labelled: chance(rng, 90), grace: pick(rng, int64(0), 0, 1),
		}
		g.draw()
		if g.shared != "" {
			if at < sharedUntil && chance(rng, 40) {
				g.shared, g.ownsShared = shared, false
			} else {
				shared = g.shared
			}
		}
		end := g.story(at)
		if g.ownsShared {
			sharedUntil = end
		}
	})
	n := 0
	p.every(rng, plainInterval, func(at time.Duration) {
		n++
		p.planPlain(rng, fmt.Sprintf("p%03d", n), at)
	})
}

// draw chooses what the gang is made of.
func (g *gangDraft) draw() {
	rng := g.rng
	group := func(floor int, gpus int64, cpu string) {
		g.groups = append(g.groups, &groupDraft{name: string(rune('a' + len(g.groups))), floor: floor, gpus: gpus, cpu: cpu})
	}
	switch kind := rng.IntN(100); {
	case kind < 60: // some groups of GPU pods, at times with one of CPU pods
		gpus := int64(0)
		for range 1 + rng.IntN(3) {
			floor, each := 1+rng.IntN(3), pick(rng, int64(1), 1, 1, 2, 2, 4, 8)
			if gpus+int64(floor)*each > 32 {
				floor, each = 1, 1
			}
			gpus += int64(floor) * each
			group(floor, each, "500m")
		}
		if chance(rng, 20) {
			group(1+rng.IntN(2), 0, "1")
		}
	case kind < 70: // whole nodes
		group(2+rng.IntN(4), 8, "2")
	case kind < 80: // no GPU
		group(1+rng.IntN(8), 0, pick(rng, "1", "2", "4"))
	case kind < 90: // one claim for all
		group(2+rng.IntN(3), 0, "1")
		g.shared, g.sharedGPUs, g.ownsShared = g.name+"-shared", int64(1+rng.IntN(2)), true
	case kind < 94: // more than the cluster has
		group(6+rng.IntN(3), 8, "1")
	case kind < 97: // more than a node has
		group(1, 9, "1")
		group(2, 1, "1")
	default: // nothing but extras
		group(0, 1, "1")
	}
	for _, group := range g.groups {
		for range group.floor + pick(rng, 0, 0, 0, 1, 2) + btoi(group.floor == 0) {
			group.next(g.name)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// next lists one more pod and returns its name.
func (gr *groupDraft) next(gang string) string {
	name := fmt.Sprintf("%s-%s-%d", gang, gr.name, gr.made)
	gr.made++
	gr.pods = append(gr.pods, name)
	return name
}

// spec is the PodGang as the draft has it now.
func (g *gangDraft) spec(listed bool) v1alpha1.PodGangSpec {
	spec := v1alpha1.PodGangSpec{PriorityClassName: g.priority}
	for _, group := range g.groups {
		refs := []v1alpha1.NamespacedName{} // null is refused
		for _, pod := range group.pods {
			if listed {
				refs = append(refs, v1alpha1.NamespacedName{Namespace: namespace, Name: pod})
			}
		}
		spec.PodGroups = append(spec.PodGroups, v1alpha1.PodGroup{Name: group.name, MinReplicas: int32(group.floor), PodReferences: refs})
	}
	return spec
}

// describe says what the gang is: "a: floor 2 of 3 × 4 GPUs".
func describe(spec v1alpha1.PodGangSpec) string {
	var parts []string
	for _, g := range spec.PodGroups {
		parts = append(parts, fmt.Sprintf("%s: floor %d, lists %d", g.Name, g.MinReplicas, len(g.PodReferences)))
	}
	return strings.Join(parts, "; ")
}

func (g *gangDraft) put(at time.Duration, why string, listed bool) {
	name, spec := g.name, g.spec(listed)
	g.p.add(at, g.name, fmt.Sprintf("%s PodGang %s {%s} priority %q", why, name, describe(spec), g.priority), putGang(name, spec))
}

func (g *gangDraft) createPod(at time.Duration, group *groupDraft, name string, gated bool) {
	o := podOptions{name: name, gpus: group.gpus, cpu: group.cpu, claim: g.shared, grace: g.grace, gated: gated}
	if g.labelled {
		o.gang = g.name
	}
	g.p.add(at, g.name, fmt.Sprintf("create pod %s (%d GPUs, %s cpu, claim %q, gang %q, gated %t)", name, o.gpus, o.cpu, o.claim, o.gang, gated), createPod(o))
}

// story plans the life of the gang from its creation on, and returns its end.
func (g *gangDraft) story(at time.Duration) time.Duration {
	rng := g.rng
	if g.ownsShared {
		name, gpus := g.shared, g.sharedGPUs
		g.p.add(at, g.name, fmt.Sprintf("create claim %s for %d GPUs", name, gpus), createClaim(name, gpus))
	}
	at = g.creation(at)
	life := between(rng, 3*time.Second, 22*time.Second)
	var middle []func(time.Duration) time.Duration // each returns its end
	if chance(rng, 35) {
		middle = append(middle, g.loseMember)
	}
	if chance(rng, 15) {
		middle = append(middle, g.loseMember)
	}
	if chance(rng, 15) {
		middle = append(middle, func(at time.Duration) time.Duration { return g.moveFloor(at, 1+rng.IntN(2)) })
	}
	if chance(rng, 10) {
		middle = append(middle, func(at time.Duration) time.Duration { return g.moveFloor(at, -1) })
	}
	if chance(rng, 12) && g.shared == "" { // see ending
		middle = append(middle, func(at time.Duration) time.Duration {
			return g.finishMember(at, pick(rng, corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodFailed))
		})
	}
	// Half of it happens while the gang is being scheduled.
	times := make([]time.Duration, len(middle))
	for i := range middle {
		times[i] = between(rng, 0, pick(rng, life, 500*time.Millisecond, 1500*time.Millisecond))
	}
	slices.Sort(times)
	end := at + life
	for i, do := range middle {
		at = do(max(at, end-life+times[i]))
	}
	end = max(end, at)
	g.ending(end)
	return end
}

// creation plans in which order the PodGang and its pods come to be.
func (g *gangDraft) creation(at time.Duration) time.Duration {
	rng := g.rng
	pods := func(gated bool) {
		for _, group := range g.groups {
			for _, pod := range group.pods {
				at += between(rng, 0, 40*time.Millisecond)
				g.createPod(at, group, pod, gated)
			}
		}
	}
	switch order := rng.IntN(3); {
	case !g.labelled:
		// What tells members is their PodGang alone, and the scheduler's watches of pods
		// and of PodGangs have no order: it must know the PodGang for sure.
		g.put(at, "create", true)
		at += lag + time.Second
		pods(false)
	case order == 0:
		g.put(at, "create", true)
		pods(false)
	case order == 1: // the pods wait for their gang
		pods(false)
		at += between(rng, 0, time.Second)
		g.put(at, "create", true)
	default: // as Grove does it
		g.put(at, "create", false)
		pods(true)
		at += between(rng, 0, 500*time.Millisecond)
		g.put(at, "fill in the references of", true)
		for _, group := range g.groups {
			for _, pod := range group.pods {
				at += between(rng, 0, 40*time.Millisecond)
				g.p.add(at, g.name, "take the gate off pod "+pod, ungate(pod))
			}
		}
	}
	return at
}

// anyMember chooses a pod that has not finished.
func (g *gangDraft) anyMember() (*groupDraft, string) {
	for _, n := range g.rng.Perm(len(g.groups)) {
		group := g.groups[n]
		for _, i := range g.rng.Perm(len(group.pods)) {
			if pod := group.pods[i]; !g.finished[pod] {
				return group, pod
			}
		}
	}
	return nil, ""
}

// loseMember deletes a member, and mostly puts a new one in its place, as Grove does.
func (g *gangDraft) loseMember(at time.Duration) time.Duration {
	group, pod := g.anyMember()
	replaced, pause := chance(g.rng, 70), between(g.rng, 0, 1500*time.Millisecond)
	if group == nil {
		return at
	}
	g.p.add(at, g.name, "delete pod "+pod, deletePod(pod))
	group.pods = slices.DeleteFunc(group.pods, func(name string) bool { return name == pod })
	if replaced {
		at += pause
		name := group.next(g.name)
		g.put(at, "replace "+pod+" by "+name+" in", true)
		if !g.labelled {
			at += lag + time.Second // see creation
		}
		g.createPod(at, group, name, false)
	}
	return at
}

// moveFloor raises or lowers the floor of a group.
func (g *gangDraft) moveFloor(at time.Duration, by int) time.Duration {
	group := g.groups[g.rng.IntN(len(g.groups))]
	group.floor = max(0, group.floor+by)
	g.put(at, fmt.Sprintf("move the floor of group %s by %+d in", group.name, by), true)
	return at
}

func (g *gangDraft) finishMember(at time.Duration, phase corev1.PodPhase) time.Duration {
	if _, pod := g.anyMember(); pod != "" {
		g.finished[pod] = true
		g.p.add(at, g.name, fmt.Sprintf("pod %s becomes %s, if it runs", pod, phase), finishPod(pod, phase))
	}
	return at
}

// ending plans how the gang goes.
func (g *gangDraft) ending(at time.Duration) {
	name := g.name
	delGang := func(at time.Duration) { g.p.add(at, name, "delete PodGang "+name, deleteGang(name)) }
	each := func(at time.Duration, text string, do func(pod string) doFunc) {
		for _, group := range g.groups {
			for _, pod := range group.pods {
				g.p.add(at, name, fmt.Sprintf(text, pod), do(pod))
			}
		}
	}
	deletion := func(at time.Duration) { each(at, "delete pod %s", deletePod) }
	end := g.rng.IntN(10)
	if g.shared != "" {
		// kube-controller-manager 1.37 reserves a claim with a name for a bound pod that has
		// finished, and takes the reservation back, without end.
		end %= 6
	}
	switch {
	case end < 3:
		deletion(at)
		delGang(at)
	case end < 6: // the PodGang goes first, and its pods wait without it
		delGang(at)
		at += between(g.rng, 0, 3*time.Second)
		deletion(at)
	default: // the pods finish
		each(at, "pod %s becomes Succeeded, if it runs", func(pod string) doFunc { return finishPod(pod, corev1.PodSucceeded) })
		at += between(g.rng, 500*time.Millisecond, 2*time.Second)
		deletion(at)
		delGang(at)
	}
	if g.ownsShared {
		claim := g.shared
		g.p.add(at, name, "delete claim "+claim, deleteClaim(claim))
	}
}

// planPlain plans a pod that is in no gang.
func (p *plan) planPlain(rng *rand.Rand, name string, at time.Duration) {
	o := podOptions{name: name, gpus: pick(rng, int64(0), 1, 1, 2), cpu: "500m"}
	end := at + between(rng, 2*time.Second, 14*time.Second)
	p.add(at, name, fmt.Sprintf("create pod %s (%d GPUs), in no gang", name, o.gpus), createPod(o))
	if chance(rng, 50) {
		p.add(end, name, fmt.Sprintf("pod %s becomes Succeeded, if it runs", name), finishPod(name, corev1.PodSucceeded))
		end += time.Second
	}
	p.add(end, name, "delete pod "+name, deletePod(name))
}
