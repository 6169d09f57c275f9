// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func example() Workload {
	return Workload{
		Name: "w", Replicas: 1,
		Cliques: []Clique{{Name: "a", Replicas: 2, MinAvailable: 1}},
		ScalingGroups: []ScalingGroup{{
			Name: "sg", Replicas: 3,
			Cliques: []Clique{{Name: "b"}, {Name: "c", Replicas: 3}},
		}},
	}
}

// lines describe gangs: name, what it depends on, and group:pods/floor.
func lines(gangs []Gang) []string {
	var list []string
	for _, g := range gangs {
		line := g.Name
		if g.Role != "" {
			line += " " + g.Role
		}
		if g.DependsOn != "" {
			line += " after " + g.DependsOn
		}
		for _, group := range g.Groups {
			line += fmt.Sprintf(" %s:%d/%d", group.Name, group.Replicas, group.Floor)
		}
		list = append(list, line)
	}
	return list
}

func TestLayout(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*desired)
		want   []string
	}{
		{
			name:   "base and scaled gangs",
			change: func(*desired) {},
			want: []string{
				"w-0 w-0-a:2/1 w-0-sg-0-b:1/1 w-0-sg-0-c:3/3",
				"w-0-sg-0 after w-0 w-0-sg-1-b:1/1 w-0-sg-1-c:3/3", // number 0 holds replica 1
				"w-0-sg-1 after w-0 w-0-sg-2-b:1/1 w-0-sg-2-c:3/3",
			},
		},
		{
			name:   "minAvailable replicas are in the base",
			change: func(d *desired) { d.workload.ScalingGroups[0].MinAvailable = 2 },
			want: []string{
				"w-0 w-0-a:2/1 w-0-sg-0-b:1/1 w-0-sg-0-c:3/3 w-0-sg-1-b:1/1 w-0-sg-1-c:3/3",
				"w-0-sg-0 after w-0 w-0-sg-2-b:1/1 w-0-sg-2-c:3/3",
			},
		},
		{
			name: "scaled in one replica",
			change: func(d *desired) {
				d.workload.Replicas = 2
				d.groups[inReplica{1, "sg"}] = 1
				d.cliques[inReplica{0, "a"}] = 4
				d.groups[inReplica{0, "sg"}] = 1
			},
			want: []string{
				"w-0 w-0-a:4/1 w-0-sg-0-b:1/1 w-0-sg-0-c:3/3",
				"w-1 w-1-a:2/1 w-1-sg-0-b:1/1 w-1-sg-0-c:3/3",
			},
		},
		{name: "no replica", change: func(d *desired) { d.workload.Replicas = 0 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDesired(GenerationB, example())
			tc.change(d)
			if diff := cmp.Diff(tc.want, lines(d.gangs())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// nameless replaces epochs by letters, in their order of appearance.
func nameless(gangs []Gang) []string {
	text := strings.Join(lines(gangs), "\n")
	letters := map[string]string{}
	text = regexp.MustCompile(`\d{15,}`).ReplaceAllStringFunc(text, func(epoch string) string {
		if letters[epoch] == "" {
			letters[epoch] = string(rune('A' + len(letters)))
		}
		return letters[epoch]
	})
	return strings.Split(text, "\n")
}

func TestLayoutByEpoch(t *testing.T) {
	d := newDesired(GenerationC, example())
	first := d.gangs()
	want := []string{
		"w-0-A Anchor w-0-a:2/1 w-0-sg-0-b:1/1 w-0-sg-0-c:3/3",
		"w-0-B-sg-1 Tail after w-0-A w-0-sg-1-b:1/1 w-0-sg-1-c:3/3", // the replica, not the number
		"w-0-B-sg-2 Tail after w-0-A w-0-sg-2-b:1/1 w-0-sg-2-c:3/3",
	}
	if diff := cmp.Diff(want, nameless(first)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(lines(first), lines(d.gangs())); diff != "" {
		t.Errorf("the names do not stay: %s", diff)
	}

	d.groups[inReplica{0, "sg"}] = 4
	grown := d.gangs()
	if diff := cmp.Diff(lines(first), lines(grown[:3])); diff != "" {
		t.Errorf("scaling out renames gangs: %s", diff)
	}
	if got := nameless(grown)[3]; got != "w-0-C-sg-3 ScaleOut after w-0-A w-0-sg-3-b:1/1 w-0-sg-3-c:3/3" {
		t.Errorf("the new gang is %s", got)
	}
	d.groups[inReplica{0, "sg"}] = 3
	d.gangs()
	d.groups[inReplica{0, "sg"}] = 4
	if again := d.gangs()[3]; again.Epoch <= grown[3].Epoch {
		t.Errorf("a gang that comes again has epoch %s, want one after %s", again.Epoch, grown[3].Epoch)
	}
}
