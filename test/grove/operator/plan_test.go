// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// world is a workload and what exists of it, changed by hand.
type world struct {
	pass
	desired *desired
}

// newWorld has a workload of a base gang (a: 2 pods, floor 1; b: 2 pods, floor 2) and a
// scaled gang (b: 2 pods, floor 2); nothing exists.
func newWorld(generation Generation) *world {
	w := Workload{
		Name: "w", Replicas: 1,
		Cliques: []Clique{{Name: "a", Replicas: 2, MinAvailable: 1}},
		ScalingGroups: []ScalingGroup{{
			Name: "sg", Replicas: 2, Cliques: []Clique{{Name: "b", Replicas: 2}},
		}},
	}
	opts := &Options{Namespace: "ns", Workload: w, Generation: generation, SchedulerName: "s"}
	d := newDesired(generation, w)
	return &world{desired: d, pass: pass{
		Options: opts, gangs: d.gangs(), held: map[Hold]bool{},
		seen: snapshot{pods: map[string]*corev1.Pod{}, gangs: map[string]*v1alpha1.PodGang{}},
	}}
}

// addPods creates all pods of a gang, named <group>-<index>.
func (w *world) addPods(gang int) {
	g := &w.gangs[gang]
	for n := range g.Groups {
		for index := range g.Groups[n].Replicas {
			pod := w.newPod(g, &g.Groups[n], index)
			pod.Name = fmt.Sprintf("%s-%d", g.Groups[n].Name, index)
			w.seen.pods[pod.Name] = pod
		}
	}
}

// addGang creates the PodGang of a gang, with references to what exists.
func (w *world) addGang(gang int, conditions ...metav1.Condition) {
	g := &w.gangs[gang]
	pg := w.newPodGang(g)
	pg.Spec.PodGroups = w.podGroups(g, w.podsOf(g.Name), w.constraintsOf(g))
	pg.Status.Conditions = conditions
	w.seen.gangs[g.Name] = pg
}

func (w *world) set(pod string, kind corev1.PodConditionType) {
	p := w.seen.pods[pod]
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
}

func (w *world) ungate(pods ...string) {
	for _, pod := range pods {
		w.seen.pods[pod].Spec.SchedulingGates = nil
	}
}

func (w *world) texts() []string {
	var texts []string
	for _, stage := range w.plan() {
		for _, a := range stage {
			texts = append(texts, a.text)
		}
	}
	return texts
}

func (w *world) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.texts(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func TestPodGangComesFirst(t *testing.T) {
	w := newWorld(GenerationB)
	w.expect(t, "at first", "create PodGang w-0", "create PodGang w-0-sg-0")
	w.addGang(0)
	w.addGang(1, initialized(false))
	w.expect(t, "without condition",
		"write [Initialized=False] of PodGang w-0",
		"create pod 0 of w-0-a", "create pod 1 of w-0-a", // 4 pods, in waves of 2
		"create pod 0 of w-0-sg-1-b")
}

func TestPodGangComesLastInGenerationA(t *testing.T) {
	w := newWorld(GenerationA)
	w.expect(t, "at first", "create pod 0 of w-0-a", "create pod 1 of w-0-a", "create pod 0 of w-0-sg-1-b")
	w.addPods(1)
	w.expect(t, "one gang has its pods", "create PodGang w-0-sg-0", "create pod 0 of w-0-a", "create pod 1 of w-0-a")
}

func TestReferencesThenInitializedThenGates(t *testing.T) {
	w := newWorld(GenerationB)
	w.addGang(0, initialized(false))
	w.addGang(1, initialized(false))
	w.addPods(0)
	delete(w.seen.pods, "w-0-a-1")
	w.expect(t, "pods are not referenced: they stay gated",
		"write [references] of PodGang w-0", "create pod 1 of w-0-a", "create pod 0 of w-0-sg-1-b")
	w.addGang(0, initialized(false))
	w.expect(t, "the gang is not initialized: gates fall all the same",
		"create pod 1 of w-0-a", "create pod 0 of w-0-sg-1-b",
		"lift the gate of pod w-0-a-0", "lift the gate of pod w-0-sg-0-b-0", "lift the gate of pod w-0-sg-0-b-1")
	w.addPods(0)
	w.expect(t, "all pods exist: both in one write",
		"write [references Initialized=True] of PodGang w-0", "create pod 0 of w-0-sg-1-b",
		"lift the gate of pod w-0-a-0", "lift the gate of pod w-0-sg-0-b-0", "lift the gate of pod w-0-sg-0-b-1")
	for _, hold := range []Hold{HoldReferences, HoldInitialized, HoldGates} {
		w.held[hold] = true
	}
	w.expect(t, "held", "create pod 0 of w-0-sg-1-b")
}

// complete makes a world in which everything exists and is referenced, and the base is
// ungated.
func complete(generation Generation) *world {
	w := newWorld(generation)
	for n := range w.gangs {
		w.addPods(n)
		if generation == GenerationA {
			w.addGang(n)
		} else {
			w.addGang(n, initialized(true))
		}
	}
	w.ungate("w-0-a-0", "w-0-a-1", "w-0-sg-0-b-0", "w-0-sg-0-b-1")
	return w
}

func TestGatesOfAScaledGangWaitForItsBase(t *testing.T) {
	lifted := []string{"lift the gate of pod w-0-sg-1-b-0", "lift the gate of pod w-0-sg-1-b-1"}
	for _, generation := range []Generation{GenerationA, GenerationB} {
		t.Run(string(generation), func(t *testing.T) {
			w := complete(generation)
			w.expect(t, "nothing is scheduled")
			w.set("w-0-a-1", corev1.PodScheduled)
			w.set("w-0-sg-0-b-0", corev1.PodScheduled)
			w.expect(t, "one floor is missing")
			w.set("w-0-sg-0-b-1", corev1.PodScheduled)
			w.expect(t, "every floor is scheduled", lifted...)
			now := metav1.Now()
			w.seen.pods["w-0-sg-0-b-1"].DeletionTimestamp = &now
			for _, text := range w.texts() {
				if text == lifted[0] {
					t.Errorf("gates are lifted although a floor is missing again")
				}
			}
		})
	}
}

func TestGatesWaitForLastScheduledInGenerationC(t *testing.T) {
	w := complete(GenerationC)
	for _, pod := range []string{"w-0-a-0", "w-0-sg-0-b-0", "w-0-sg-0-b-1"} {
		w.set(pod, corev1.PodScheduled)
	}
	base, scaled := w.gangs[0].Name, w.gangs[1].Name
	w.expect(t, "the floors are scheduled: that is told first",
		"write [Scheduled=True Ready=False ] of PodGang "+base, "write [Scheduled=False Ready=False ] of PodGang "+scaled)
	now := metav1.Now()
	w.seen.gangs[base].Status.LastScheduled = &now
	w.seen.pods["w-0-a-0"].Status.Conditions = nil
	texts := w.texts()
	if len(texts) != 4 || texts[2] != "lift the gate of pod w-0-sg-1-b-0" {
		t.Errorf("a gang that was scheduled once keeps no gate; due is %q", texts)
	}
	for _, pod := range w.seen.pods {
		if _, has := pod.Labels[v1alpha1.LabelBasePodGang]; has {
			t.Errorf("pod %s has label %s", pod.Name, v1alpha1.LabelBasePodGang)
		}
	}
}

func TestPodsAreReplacedAtTheirIndex(t *testing.T) {
	w := complete(GenerationB)
	now := metav1.Now()
	w.seen.pods["w-0-sg-0-b-0"].DeletionTimestamp = &now
	w.expect(t, "a terminating pod is not referenced, and replaced",
		"write [references] of PodGang w-0", "create pod 0 of w-0-sg-0-b")
	w = complete(GenerationB)
	w.seen.pods["w-0-a-0"].Status.Phase = corev1.PodFailed
	w.expect(t, "a failed pod is kept")
}

func TestScalingInDeletesWhatIsLeastOfUse(t *testing.T) {
	w := complete(GenerationB)
	for _, name := range []string{"w-0-a-0", "w-0-a-1"} {
		w.seen.pods[name].Status.Phase = corev1.PodRunning
		w.seen.pods[name].Spec.NodeName = "n"
	}
	w.set("w-0-a-0", corev1.PodReady)
	w.desired.cliques[inReplica{0, "a"}] = 1
	w.gangs = w.desired.gangs()
	w.expect(t, "the pod that is not ready", "delete pod w-0-a-1")
	w.desired.groups[inReplica{0, "sg"}] = 1
	w.gangs = w.desired.gangs()
	texts := w.texts()
	if len(texts) != 4 || texts[0] != "delete PodGang w-0-sg-0" {
		t.Errorf("due is %q, want the scaled gang and its two pods deleted too", texts)
	}
}
