// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestView(t *testing.T) {
	g := inGang("g")
	const (
		short    = "PodGang ns/g waits for members: group a has 1 of 2 present"
		unlisted = "pod z is not listed in the podReferences of PodGang ns/g"
	)
	for _, tc := range []struct {
		name    string
		pods    []*v1.Pod
		want    View
		waiting map[string]string
	}{
		{
			name: "nobody",
			want: View{Blocked: "PodGang ns/g waits for members: group a has 0 of 2 present"},
		},
		{
			name: "nobody is bound", pods: []*v1.Pod{pod("p", g), pod("q", g), pod("r", g)},
			want: View{Ours: true}, waiting: map[string]string{"p": "", "q": "", "r": ""},
		},
		{
			name: "members that somebody else holds or places are left out",
			pods: []*v1.Pod{pod("p", g), pod("q", g), pod("r", g, gatedBy("x")), pod("s", g, forAnotherScheduler), pod("t", g, terminating)},
			want: View{Ours: true}, waiting: map[string]string{"p": "", "q": ""},
		},
		{
			name: "a member without its claim waits with the others",
			pods: []*v1.Pod{pod("p", g), pod("q", g, claimingFrom("t"))},
			want: View{Ours: true, Blocked: short + " (pod q has no claim gpu yet (ResourceClaimTemplate t))"},
			waiting: map[string]string{
				"p": short + " (pod q has no claim gpu yet (ResourceClaimTemplate t))",
				"q": short + " (pod q has no claim gpu yet (ResourceClaimTemplate t))",
			},
		},
		{
			name: "a member that is not listed has a reason of its own",
			pods: []*v1.Pod{pod("p", g), pod("q", g), pod("z", g)},
			want: View{Ours: true}, waiting: map[string]string{"p": "", "q": "", "z": unlisted},
		},
		{
			name: "below the floor", pods: []*v1.Pod{pod("p", g, onNode("n")), pod("q", g)},
			want: View{AnyBound: true, Ours: true}, waiting: map[string]string{"q": ""},
		},
		{
			name: "at the floor", pods: []*v1.Pod{pod("p", g, onNode("n")), pod("q", g, running), pod("r", g)},
			want: View{AnyBound: true, Satisfied: true, Ours: true}, waiting: map[string]string{"r": ""},
		},
		{
			name: "the floor runs", pods: []*v1.Pod{pod("p", g, running), pod("q", g, running), pod("r", g, onNode("n"))},
			want: View{AnyBound: true, Satisfied: true, Running: true, Ours: true},
		},
		{
			name: "a terminating member does not run", pods: []*v1.Pod{pod("p", g, running, terminating), pod("q", g, running)},
			want: View{Blocked: short, AnyBound: true, Ours: true},
		},
		{
			name: "all members are another scheduler's", pods: []*v1.Pod{pod("p", g, running, forAnotherScheduler), pod("q", g, onNode("n"), forAnotherScheduler)},
			want: View{AnyBound: true, Satisfied: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			pg := podGang("g", group("a", 2, "p", "q", "r", "s", "t"))
			f.SetGang(pg)
			f.putAll(tc.pods...)
			got, ok := f.View(keyFor("g"))
			if !ok || got.Object != pg {
				t.Fatalf("got view %+v, %v; want one of the PodGang", got, ok)
			}
			expectEqual(t, "members that wait", tc.waiting, waitingOf(got))
			got.Object, got.Waiting = nil, nil
			expectEqual(t, "view", tc.want, got)
		})
	}
}

func waitingOf(view View) map[string]string {
	var waiting map[string]string
	for _, w := range view.Waiting {
		if waiting == nil {
			waiting = make(map[string]string)
		}
		waiting[w.Pod.Name] = w.Reason
	}
	return waiting
}

func TestViewOfUnusualGangs(t *testing.T) {
	t.Run("floors of 0 do not run while nobody is bound", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 0, "p")))
		got, _ := f.View(keyFor("g"))
		got.Object = nil
		expectEqual(t, "view", View{Satisfied: true}, got)
	})
	t.Run("a member that runs is told", func(t *testing.T) {
		f := newFixture(t)
		f.SetGang(podGang("g", group("a", 1, "p")))
		p := pod("p", onNode("n"))
		f.put(p)
		expectEffects(t, "running", f.put(changed(p, running)), outcome{Changed: []string{"g"}})
		if view, _ := f.View(keyFor("g")); !view.Running {
			t.Error("the gang does not run")
		}
	})
	t.Run("without PodGang its members wait for it", func(t *testing.T) {
		f := newFixture(t)
		f.putAll(pod("p", inGang("g")), pod("q", inGang("g"), onNode("n")))
		got, ok := f.View(keyFor("g"))
		if !ok {
			t.Fatal("no view")
		}
		const reason = "PodGang ns/g does not exist"
		expectEqual(t, "members that wait", map[string]string{"p": reason}, waitingOf(got))
		got.Waiting = nil
		expectEqual(t, "view", View{Blocked: reason, Ours: true}, got)
	})
	t.Run("of a gang with faults all members have that reason", func(t *testing.T) {
		f := newFixture(t)
		f.SetUnreadable(podGang("g"), "it cannot be read")
		f.put(pod("p", inGang("g")))
		got, _ := f.View(keyFor("g"))
		expectEqual(t, "members that wait", map[string]string{"p": "PodGang ns/g is wrong: it cannot be read"}, waitingOf(got))
	})
	t.Run("none without PodGang and members", func(t *testing.T) {
		f := newFixture(t)
		if view, ok := f.View(keyFor("g")); ok {
			t.Errorf("got %+v", view)
		}
	})
}
