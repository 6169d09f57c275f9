// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func TestIndexUnderAnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		t.Repeat(m.actions())
		m.quiesce(t)
		for _, pg := range slices.Collect(maps.Values(m.gangs)) {
			m.deleteGang(pg)
		}
		m.quiesce(t)
		for _, name := range machinePods {
			if pod := m.store.get(testNamespace, name); pod != nil {
				m.deletePod(pod)
			}
		}
		m.quiesce(t)
		expectEmptyIndex(t, m.index)
	})
}

// actions are the steps that a run is made of.
func (m *machine) actions() map[string]func(*rapid.T) {
	someGang := rapid.SampledFrom(machineGangs)
	existing := func(t *rapid.T) *v1.Pod {
		var names []string
		for _, name := range machinePods {
			if m.store.get(testNamespace, name) != nil {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			t.Skip("no pods")
		}
		return m.store.get(testNamespace, rapid.SampledFrom(names).Draw(t, "pod"))
	}
	rarely := func(t *rapid.T) bool { return rapid.IntRange(0, 3).Draw(t, "luck") == 0 }
	one := func(t *rapid.T, of []types.UID) types.UID {
		if len(of) == 0 {
			t.Skip("none")
		}
		return rapid.SampledFrom(of).Draw(t, "pod")
	}
	return map[string]func(*rapid.T){
		"create a pod": func(t *rapid.T) {
			var missing []string
			for _, name := range machinePods {
				if m.store.get(testNamespace, name) == nil {
					missing = append(missing, name)
				}
			}
			if len(missing) == 0 {
				t.Skip("all exist")
			}
			name := rapid.SampledFrom(missing).Draw(t, "pod")
			p := pod(name, uid(name+"-"+m.nextVersion()), inGang(rapid.SampledFrom([]string{"", "g0", "g0", "g1"}).Draw(t, "label")))
			if rapid.IntRange(0, 3).Draw(t, "gated") == 0 {
				gatedBy("wait")(p)
			}
			m.putPod(p)
		},
		"change a pod": func(t *rapid.T) {
			p := existing(t).DeepCopy()
			switch rapid.SampledFrom([]string{"ungate", "ungate", "label", "terminate", "finish", "run", "bind elsewhere"}).Draw(t, "change") {
			case "ungate":
				p.Spec.SchedulingGates = nil
			case "label":
				inGang(rapid.SampledFrom([]string{"", "g0", "g1"}).Draw(t, "label"))(p)
			case "terminate":
				terminating(p)
			case "finish":
				p.Status.Phase = v1.PodFailed
			case "run":
				if p.Spec.NodeName != "" && p.Status.Phase == v1.PodPending {
					p.Status.Phase = v1.PodRunning
				}
			case "bind elsewhere":
				if p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) == 0 {
					p.Spec.NodeName = "elsewhere"
				}
			}
			m.putPod(p)
		},
		"delete a pod": func(t *rapid.T) {
			if pod := existing(t); rarely(t) {
				m.deletePod(pod)
			}
		},
		"set a gang": func(t *rapid.T) {
			name := someGang.Draw(t, "gang")
			pg := podGang(name, gangUID(name+"-"+m.nextVersion()))
			if known := m.gangs[name]; known != nil {
				pg = known.DeepCopy()
			}
			pg.Spec.PodGroups, pg.Status.Conditions = nil, nil
			order := rapid.Permutation(machinePods).Draw(t, "pods")
			cut := rapid.IntRange(0, len(order)).Draw(t, "listed in a")
			group("a", rapid.Int32Range(0, 2).Draw(t, "floor of a"), order[:cut]...)(pg)
			group("b", rapid.Int32Range(0, 2).Draw(t, "floor of b"), order[cut:min(cut+2, len(order))]...)(pg)
			if rapid.IntRange(0, 9).Draw(t, "faulty") == 0 {
				pg.Spec.PodGroups[0].MinReplicas = -1
			}
			if rapid.IntRange(0, 9).Draw(t, "not initialized") == 0 {
				initialized(metav1.ConditionFalse, "Why")(pg)
			}
			m.putGang(pg)
		},
		"delete a gang": func(t *rapid.T) {
			if pg := m.gangs[someGang.Draw(t, "gang")]; pg != nil && rarely(t) {
				m.deleteGang(pg)
			}
		},
		"deliver a pod event":  func(t *rapid.T) { m.deliver(t, &m.podEvents) },
		"deliver a gang event": func(t *rapid.T) { m.deliver(t, &m.gangEvents) },
		"the queue hears of a pod": func(t *rapid.T) {
			m.see(one(t, byUID(m.unseen)))
		},
		"run a scheduling cycle":     func(t *rapid.T) { m.cycle(t, m.queued[one(t, byUID(m.queued))]) },
		"run a scheduling cycle too": func(t *rapid.T) { m.cycle(t, m.queued[one(t, byUID(m.queued))]) },
		"advance a binding cycle": func(t *rapid.T) {
			m.advance(t, m.binding[one(t, byUID(m.binding))])
		},
		"bind a lone pod": func(t *rapid.T) { m.bindAlone(t, m.alone[one(t, byUID(m.alone))]) },
		"end a delay": func(t *rapid.T) {
			if len(m.retries) == 0 {
				t.Skip("none")
			}
			n := rapid.IntRange(0, len(m.retries)-1).Draw(t, "retry")
			pod := m.retries[n]
			m.retries = slices.Delete(m.retries, n, n+1)
			m.activate(pod)
		},
		"an attempt expires": func(t *rapid.T) {
			if len(m.open) == 0 {
				t.Skip("none")
			}
			if n := rapid.IntRange(0, len(m.open)-1).Draw(t, "attempt"); rarely(t) {
				m.expire(t, n)
			}
		},
		"come to rest": func(t *rapid.T) {
			if rarely(t) {
				m.quiesce(t)
			}
		},
		"": m.check,
	}
}
