// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

func TestSortKeyOrder(t *testing.T) {
	// Each key comes before the next.
	ordered := []struct {
		name string
		key  SortKey
	}{
		{"high priority, however late and whatever rank", SortKey{Priority: 9, Rank: RankExtra, Since: epoch.Add(time.Hour)}},
		{"a gang that is bound in part", SortKey{Rank: RankTopUp, Since: epoch.Add(time.Hour), Gang: "z"}},
		{"an old gang", SortKey{Since: epoch, Rank: RankFloor, Gang: "m"}},
		{"a scaled gang of the same second", SortKey{Since: epoch, Rank: RankFloor, Scaled: true, Gang: "a"}},
		{"a pod in no gang, a second younger", SortKey{Since: epoch.Add(time.Second), Rank: RankFloor}},
		{"a gang of the same second", SortKey{Since: epoch.Add(time.Second), Rank: RankFloor, Gang: "a"}},
		{"a gang of the same second, next by UID", SortKey{Since: epoch.Add(time.Second), Rank: RankFloor, Gang: "b"}},
		{"extras of the oldest gang", SortKey{Since: epoch.Add(-time.Hour), Rank: RankExtra, Gang: "a"}},
		{"low priority", SortKey{Priority: -1, Rank: RankTopUp, Since: epoch.Add(-time.Hour)}},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			got := a.key.Compare(b.key)
			if want := i - j; got < 0 != (want < 0) || got > 0 != (want > 0) {
				t.Errorf("%q against %q: got %d, want the sign of %d", a.name, b.name, got, want)
			}
		}
	}
	t.Run("the name of the priority class says nothing", func(t *testing.T) {
		a, b := SortKey{PriorityClass: "a", Gang: "g"}, SortKey{PriorityClass: "b", Gang: "g"}
		if c := a.Compare(b); c != 0 {
			t.Errorf("got %d, want 0", c)
		}
	})
}

func TestSortKeyIsATotalOrder(t *testing.T) {
	keys := rapid.Custom(func(t *rapid.T) SortKey {
		return SortKey{
			Priority: rapid.Int32Range(-1, 1).Draw(t, "priority"),
			Rank:     Rank(rapid.IntRange(int(RankTopUp), int(RankExtra)).Draw(t, "rank")),
			Since:    epoch.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "age")) * time.Second),
			Scaled:   rapid.Bool().Draw(t, "scaled"),
			Gang:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "gang"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := keys.Draw(t, "a"), keys.Draw(t, "b"), keys.Draw(t, "c")
		if a.Compare(b) != -b.Compare(a) {
			t.Fatalf("a against b is %d, b against a is %d", a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatal("a before b, b before c, and c before a")
		}
		if (a.Compare(b) == 0) != (a == b) {
			t.Fatalf("a and b differ: %v, and compare as %d", a != b, a.Compare(b))
		}
		// What is between two keys of one gang and rank is of that gang and rank.
		if a.Gang == c.Gang && a.Rank == c.Rank && a.Priority == c.Priority && a.Since.Equal(c.Since) && a.Scaled == c.Scaled &&
			a.Compare(b) <= 0 && b.Compare(c) <= 0 && (b.Gang != a.Gang || b.Rank != a.Rank) {
			t.Fatal("b interleaves with a gang")
		}
	})
}

func TestSortKeyOfAMember(t *testing.T) {
	g := inGang("g")
	role := func(role string) func(*v1alpha1.PodGang) {
		return func(pg *v1alpha1.PodGang) { pg.Labels = map[string]string{v1alpha1.LabelPodGangRole: role} }
	}
	two := group("a", 2, "p", "q", "r")
	for _, tc := range []struct {
		name  string
		gangs []*v1alpha1.PodGang
		pods  []*v1.Pod
		want  SortKey
	}{
		{
			"of a gang nobody of which is bound",
			[]*v1alpha1.PodGang{podGang("g", two, created(time.Minute))}, []*v1.Pod{pod("p", g)},
			SortKey{Rank: RankFloor, Since: epoch.Add(time.Minute), Gang: "uid-g"},
		},
		{
			"with a priority class",
			[]*v1alpha1.PodGang{podGang("g", two, func(pg *v1alpha1.PodGang) { pg.Spec.PriorityClassName = "urgent" })}, []*v1.Pod{pod("p", g)},
			SortKey{PriorityClass: "urgent", Rank: RankFloor, Since: epoch, Gang: "uid-g"},
		},
		{
			"of a gang that is bound in part",
			[]*v1alpha1.PodGang{podGang("g", two)}, []*v1.Pod{pod("p", g), pod("q", g, onNode("n"))},
			SortKey{Rank: RankTopUp, Since: epoch, Gang: "uid-g"},
		},
		{
			"beyond the floor",
			[]*v1alpha1.PodGang{podGang("g", two)}, []*v1.Pod{pod("p", g), pod("q", g, onNode("n")), pod("r", g, onNode("n"))},
			SortKey{Rank: RankExtra, Since: epoch, Gang: "uid-g"},
		},
		{
			"of an anchor",
			[]*v1alpha1.PodGang{podGang("g", two, role(v1alpha1.PodGangRoleAnchor))}, []*v1.Pod{pod("p", g)},
			SortKey{Rank: RankFloor, Since: epoch, Gang: "uid-g"},
		},
		{
			"of a scale-out",
			[]*v1alpha1.PodGang{podGang("g", two, role(v1alpha1.PodGangRoleScaleOut))}, []*v1.Pod{pod("p", g)},
			SortKey{Rank: RankFloor, Since: epoch, Scaled: true, Gang: "uid-g"},
		},
		{
			"of a gang that is older than its base: as old as the base",
			[]*v1alpha1.PodGang{podGang("g", two), podGang("base", created(time.Minute))}, []*v1.Pod{pod("p", g, scaledFromBase)},
			SortKey{Rank: RankFloor, Since: epoch.Add(time.Minute), Scaled: true, Gang: "uid-g"},
		},
		{
			"of a gang that is younger than its base",
			[]*v1alpha1.PodGang{podGang("g", two, created(time.Hour)), podGang("base", created(time.Minute))}, []*v1.Pod{pod("p", g, scaledFromBase)},
			SortKey{Rank: RankFloor, Since: epoch.Add(time.Hour), Scaled: true, Gang: "uid-g"},
		},
		{
			"of a gang whose base is unknown",
			[]*v1alpha1.PodGang{podGang("g", two)}, []*v1.Pod{pod("p", g, scaledFromBase)},
			SortKey{Rank: RankFloor, Since: epoch, Scaled: true, Gang: "uid-g"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			for _, pg := range tc.gangs {
				f.SetGang(pg)
			}
			f.putAll(tc.pods...)
			for range 2 { // counted, then cached
				got, ok := f.SortKey(tc.pods[0])
				if !ok {
					t.Fatal("no key")
				}
				expectEqual(t, "key", tc.want, got)
			}
		})
	}
	t.Run("planned beyond the floor", func(t *testing.T) {
		f, _, _ := trio(t)
		for name, want := range map[string]Rank{"p": RankFloor, "r": RankFloor, "x": RankExtra} {
			if key, _ := f.SortKey(f.get(name)); key.Rank != want {
				t.Errorf("pod %s has rank %d, want %d", name, key.Rank, want)
			}
		}
	})
	t.Run("none outside a gang", func(t *testing.T) {
		f := newFixture(t)
		orphan, single := pod("o", inGang("nowhere")), pod("s")
		f.putAll(orphan, single)
		for _, p := range []*v1.Pod{orphan, single, pod("o", inGang("nowhere"), uid("other"))} {
			if key, ok := f.SortKey(p); ok {
				t.Errorf("pod %s has key %+v", p.Name, key)
			}
		}
	})
}

func TestBaseGangComesBeforeItsScaledGangs(t *testing.T) {
	f := newFixture(t)
	f.SetGang(podGang("base", group("a", 1, "b"), created(2*time.Second)))
	f.SetGang(podGang("s1", gangUID("0"), group("a", 1, "s1"), created(time.Second)))
	f.SetGang(podGang("s2", gangUID("1"), group("a", 1, "s2"), created(2*time.Second)))
	f.SetGang(podGang("old", group("a", 1, "o"), created(time.Second)))
	pods := []*v1.Pod{pod("s2", scaledFromBase), pod("s1", scaledFromBase), pod("b"), pod("o")}
	f.putAll(pods...)
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		x, _ := f.SortKey(a)
		y, _ := f.SortKey(b)
		return x.Compare(y)
	})
	var got []string
	for _, p := range pods {
		got = append(got, p.Name)
	}
	expectEqual(t, "order", []string{"o", "b", "s1", "s2"}, got)
}
