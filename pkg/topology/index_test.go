// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// node returns a node with labels, given as key, value, key, value.
func node(name string, labels ...string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: make(map[string]string)}}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

// indexOf returns an index of nodes.
func indexOf(nodes ...*v1.Node) *Index {
	x := NewIndex()
	x.Sync(len(nodes), func(i int) *v1.Node { return nodes[i] })
	return x
}

// values returns what a level says of each node, "" for none.
func values(l *Level) []string {
	said := make([]string, len(l.Of))
	for i, domain := range l.Of {
		if domain != None {
			said[i] = l.Values[domain]
		}
	}
	return said
}

func TestLevelIsTheValuesOfALabel(t *testing.T) {
	x := indexOf(
		node("n0", "rack", "r1", "zone", "z1"),
		node("n1", "rack", "r2", "zone", "z1"),
		node("n2", "rack", "r1", "zone", "z2"), // the same value under another parent
		node("n3", "rack", ""),
		node("n4"),
	)
	for key, want := range map[string][]string{
		"rack":  {"r1", "r2", "r1", "", ""},
		"zone":  {"z1", "z1", "z2", "", ""},
		"other": {"", "", "", "", ""},
	} {
		level := x.Level(key)
		if got := values(level); level.Key != key || !slices.Equal(got, want) {
			t.Errorf("%s: %s %q, want %q", key, level.Key, got, want)
		}
	}
	if of := x.Level("rack").Of; of[0] != of[2] || of[0] == of[1] || of[3] != None || of[4] != None {
		t.Errorf("racks are %v, want nodes 0 and 2 alone together and 3 and 4 in none", of)
	}
}

// drawNode draws a node, a new object each time.
func drawNode(t *rapid.T, serial int) *v1.Node {
	n := node(fmt.Sprintf("n%d", serial))
	for _, key := range []string{"a", "b", "c"} {
		if rapid.Bool().Draw(t, "carries") {
			n.Labels[key] = rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, key)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "unique") == 0 {
		n.Labels["a"] = n.Name
	}
	return n
}

func TestIndexKeepsUpWithTheNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*v1.Node
		x, serial := NewIndex(), 0
		var old []*Level
		var oldValues [][]string
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				serial++
				nodes = changed(t, nodes, serial)
			}
			x.Sync(len(nodes), func(i int) *v1.Node { return nodes[i] })
			key := rapid.SampledFrom([]string{"a", "b", "c", "none"}).Draw(t, "key")
			level := x.Level(key)
			if got, want := values(level), values(indexOf(nodes...).Level(key)); !slices.Equal(got, want) {
				t.Fatalf("%s = %q, want %q", key, got, want)
			}
			if spare := len(level.Values) - len(nodes); spare > 40 {
				t.Fatalf("%d values are kept that no node has", spare)
			}
			old, oldValues = append(old, level), append(oldValues, values(level))
			for i := range old {
				if got := values(old[i]); !slices.Equal(got, oldValues[i]) {
					t.Fatalf("a level that was handed out was %q, is %q", oldValues[i], got)
				}
			}
		}
	})
}

// changed adds, removes, replaces or moves a node.
func changed(t *rapid.T, nodes []*v1.Node, serial int) []*v1.Node {
	at := rapid.IntRange(0, len(nodes)).Draw(t, "at")
	what := rapid.SampledFrom([]string{"add", "remove", "replace", "move"}).Draw(t, "what")
	if at == len(nodes) {
		what = "add"
	}
	switch what {
	case "add":
		return slices.Insert(nodes, at, drawNode(t, serial))
	case "remove":
		return slices.Delete(slices.Clone(nodes), at, at+1)
	case "replace":
		nodes[at] = drawNode(t, serial)
	case "move":
		to := rapid.IntRange(0, len(nodes)-1).Draw(t, "to")
		nodes[at], nodes[to] = nodes[to], nodes[at]
	}
	return nodes
}

func TestLevelStaysTheSameWhileItsLabelDoes(t *testing.T) {
	nodes := []*v1.Node{node("n0", "rack", "r0", "zone", "z0"), node("n1", "rack", "r0", "zone", "z0")}
	x := indexOf(nodes...)
	rack, zone := x.Level("rack"), x.Level("zone")
	nodes[1] = node("n1", "rack", "r1", "zone", "z0")
	x.Sync(len(nodes), func(i int) *v1.Node { return nodes[i] })
	if x.Level("zone") != zone {
		t.Error("the zones were made anew though none changed")
	}
	if x.Level("rack") == rack {
		t.Error("the racks are those of before node n1 changed its rack")
	}
}

func TestSyncReadsOnlyNodesThatChanged(t *testing.T) {
	nodes := []*v1.Node{node("n0", "rack", "r0"), node("n1", "rack", "r1"), node("n2", "rack", "r2")}
	x := indexOf(nodes...)
	x.Level("rack")
	for _, n := range nodes {
		n.Labels = map[string]string{"rack": "read again"}
	}
	shuffled := []*v1.Node{nodes[2], nodes[0], node("n3", "rack", "r3"), nodes[1]}
	x.Sync(len(shuffled), func(i int) *v1.Node { return shuffled[i] })
	if got, want := values(x.Level("rack")), []string{"r2", "r0", "r3", "r1"}; !slices.Equal(got, want) {
		t.Errorf("racks = %q, want %q", got, want)
	}
}

func TestOverlayGivesNodesWhatTheyLack(t *testing.T) {
	x := indexOf(node("n0"), node("n1", "group", "labelled"), node("n2"))
	x.Level("group")
	x.Overlay("group", map[string]string{"n0": "pg-0", "n1": "pg-0"})
	if got, want := values(x.Level("group")), []string{"pg-0", "labelled", ""}; !slices.Equal(got, want) {
		t.Errorf("groups = %q, want %q", got, want)
	}
	nodes := []*v1.Node{node("n2"), node("n0")}
	x.Sync(len(nodes), func(i int) *v1.Node { return nodes[i] })
	x.Overlay("group", map[string]string{"n2": "pg-1"})
	if got, want := values(x.Level("group")), []string{"pg-1", ""}; !slices.Equal(got, want) {
		t.Errorf("groups = %q, want %q", got, want)
	}
}

func TestNVLinkIsTheCliqueElseTheFirstHint(t *testing.T) {
	nodes := []*v1.Node{
		node("n0", NVLinkKey, "u.1", "hint-a", "a"),
		node("n1", "hint-a", "u.1"), // the value of a clique under another key
		node("n2", "hint-b", "b", "hint-a", "a"),
		node("n3", "hint-b", "b"),
		node("n4"),
		node("n5", NVLinkKey, "u.1"),
		node("n6", "hint-b", "b"),
	}
	x := indexOf(nodes...)
	hints := []string{"hint-a", "hint-b"}
	level := x.NVLink(hints)
	if got, want := values(level), []string{"u.1", "u.1", "a", "b", "", "u.1", "b"}; !slices.Equal(got, want) {
		t.Errorf("domains = %q, want %q", got, want)
	}
	of := level.Of
	if of[0] != of[5] || of[0] == of[1] || of[3] != of[6] {
		t.Errorf("domains are %v: want 0 and 5 together, 3 and 6 together, 1 apart from 0", of)
	}
	if x.NVLink(hints) != level {
		t.Error("the level was made anew though nothing changed")
	}
	nodes[4] = node("n4", NVLinkKey, "u.2")
	x.Sync(len(nodes), func(i int) *v1.Node { return nodes[i] })
	if got := values(x.NVLink(hints))[4]; got != "u.2" {
		t.Errorf("domain of n4 = %q, want u.2", got)
	}
}

func BenchmarkSync(b *testing.B) {
	const count = 5000
	for _, bench := range []struct {
		name    string
		changes int
	}{{"unchanged", 0}, {"one-changed", 1}, {"100-changed", 100}} {
		b.Run(bench.name, func(b *testing.B) {
			nodes := make([]*v1.Node, count)
			for i := range nodes {
				nodes[i] = node(fmt.Sprint(i), "rack", fmt.Sprint(i/80), "block", fmt.Sprint(i/640))
			}
			x := indexOf(nodes...)
			x.Level("rack")
			x.Level("block")
			x.Ladder(DefaultLadders(), nil)
			b.ReportAllocs()
			for b.Loop() {
				for i := range bench.changes {
					nodes[i*count/bench.changes] = nodes[i*count/bench.changes].DeepCopy()
				}
				x.Sync(count, func(i int) *v1.Node { return nodes[i] })
			}
		})
	}
}
