// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

func podNames(pods []*v1.Pod) []string {
	names := []string{}
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

func TestBlockersKeepEachPodOnce(t *testing.T) {
	b := blockers{}
	p, q := testPod("p"), testPod("q")
	b.add("NodeResourcesFit", p)
	b.add("NodeResourcesFit", q)
	b.add("NodeResourcesFit", testPod("p"))
	b.add("TaintToleration,NodeAffinity", p)
	got := make(map[string][]string)
	for plugin, pods := range b {
		got[plugin] = podNames(pods)
	}
	want := map[string][]string{"NodeResourcesFit": {"p", "q"}, "TaintToleration": {"p"}, "NodeAffinity": {"p"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blockers (-want +got):\n%s", diff)
	}
}

func TestWaitBook(t *testing.T) {
	g, h := gang.Key{Namespace: "ns", Name: "g"}, gang.Key{Namespace: "ns", Name: "h"}
	lead, next, refused := testPod("lead"), testPod("next"), testPod("refused")
	book := newWaitBook()
	expect := func(what string, key gang.Key, leader *v1.Pod, plugin string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(append([]string{}, want...), podNames(book.blockedBy(key, leader.UID, plugin))); diff != "" {
			t.Errorf("%s: pods refused by %s (-want +got):\n%s", what, plugin, diff)
		}
	}
	expectLeaders := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(append([]string{}, want...), podNames(book.leaders())); diff != "" {
			t.Errorf("leaders (-want +got):\n%s", diff)
		}
	}
	expect("an empty book", g, lead, "A")
	expectLeaders()

	book.set(g, lead, blockers{"A": {refused}, "B": {lead, refused}})
	expect("the leader", g, lead, "A", "refused")
	expect("the leader", g, lead, "B", "lead", "refused")
	expect("a plugin that refused nobody", g, lead, "C")
	expect("another member", g, refused, "A")
	expect("another gang", h, lead, "A")

	book.set(g, next, blockers{"C": {next}})
	expect("the leader before", g, lead, "A")
	expect("the new leader", g, next, "A")
	expect("the new leader", g, next, "C", "next")
	book.set(h, lead, nil)
	expectLeaders("lead", "next")

	book.clear(g)
	expect("a gang that waits no longer", g, next, "C")
	expectLeaders("lead")
	book.clear(g)
	expectLeaders("lead")
}

func TestBystandersAreTakenOnce(t *testing.T) {
	book := newBystanderBook()
	p, q := testPod("p"), testPod("q")
	book.add(p)
	book.add(p)
	book.add(q)
	book.remove(q)
	if diff := cmp.Diff([]string{"p"}, podNames(book.take())); diff != "" {
		t.Errorf("bystanders (-want +got):\n%s", diff)
	}
	if left := book.take(); len(left) > 0 {
		t.Errorf("bystanders are taken again: %v", podNames(left))
	}
}
