// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// keepFixture is a book of gangs whose names say how old they are: a is the oldest.
type keepFixture struct {
	*keepBook
	now time.Time
}

const keepAfter = time.Minute

func (f *keepFixture) order(name string) gang.SortKey {
	return gang.SortKey{Rank: gang.RankFloor, Since: start.Add(time.Duration(name[0]) * time.Second), Gang: name}
}

// do carries out a step: "a refused", "a keeps n1,n2", "a opened", "a forgotten",
// "a postponed" for another keepAfter, or "wait" for keepAfter.
func (f *keepFixture) do(t *testing.T, step string) (answer bool) {
	t.Helper()
	name, verb, _ := strings.Cut(step, " ")
	verb, nodes, _ := strings.Cut(verb, " ")
	key := gang.Key{Name: name}
	switch {
	case step == "wait":
		f.now = f.now.Add(keepAfter)
	case verb == "refused":
		_, answer = f.refused(key, f.order(name), f.now)
	case verb == "keeps":
		return f.keep(newKeep(key, f.order(name), start, sets.New(strings.Split(nodes, ",")...)))
	case verb == "opened":
		return f.open(key)
	case verb == "forgotten":
		return f.forget(key)
	case verb == "postponed":
		f.postpone(key, f.now.Add(keepAfter))
	default:
		t.Fatalf("unknown step %q", step)
	}
	return answer
}

func TestNodesAreKeptForTheFirstGangThatHasWaitedForLong(t *testing.T) {
	for _, tc := range []struct {
		name string
		// steps are carried out in order; the answer to the last is want: whether nodes
		// are to be looked for, or whether some are open that were kept.
		steps []string
		want  bool
		// kept is what is kept then, and for whom.
		kept string
	}{
		{"the first refusal", []string{"b refused"}, false, ""},
		{"refused again for long", []string{"b refused", "wait", "b refused"}, true, ""},
		{"refused once long ago, and forgotten since", []string{"b refused", "wait", "b forgotten", "b refused"}, false, ""},
		{"postponed", []string{"b refused", "wait", "b postponed", "b refused"}, false, ""},
		{"postponed, and that is over", []string{"b refused", "wait", "b postponed", "wait", "b refused"}, true, ""},
		{"kept", []string{"b refused", "b keeps n1,n2"}, false, "b n1 n2"},
		{"kept for a gang that is forgotten already", []string{"b refused", "b forgotten", "b keeps n1"}, false, ""},
		{"the same gang may look again", []string{"b refused", "b keeps n1", "wait", "b refused"}, true, "b n1"},
		{"not a younger one meanwhile", []string{"b refused", "c refused", "b keeps n1", "wait", "c refused"}, false, "b n1"},
		{"an older one may", []string{"b refused", "a refused", "b keeps n1", "wait", "a refused"}, true, "b n1"},
		{"a younger one does not get them", []string{"b refused", "c refused", "b keeps n1", "c keeps n2"}, false, "b n1"},
		{"an older one takes over, and nodes are open", []string{"b refused", "a refused", "b keeps n1,n2", "a keeps n2,n3"}, true, "a n2 n3"},
		{"the older one has all nodes of the younger one", []string{"b refused", "a refused", "b keeps n1", "a keeps n1,n2"}, false, "a n1 n2"},
		{"placed", []string{"b refused", "b keeps n1", "b opened"}, true, ""},
		{"placed, and then refused after all", []string{"b refused", "wait", "b keeps n1", "b opened", "b refused"}, true, ""},
		{"another is placed", []string{"b refused", "b keeps n1", "a opened"}, false, "b n1"},
		{"gone", []string{"b refused", "b keeps n1", "b forgotten"}, true, ""},
		{"another is gone", []string{"b refused", "b keeps n1", "c forgotten"}, false, "b n1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &keepFixture{keepBook: newKeepBook(keepAfter), now: start}
			var got bool
			for _, step := range tc.steps {
				got = f.do(t, step)
			}
			if got != tc.want {
				t.Errorf("the answer is %v, want %v", got, tc.want)
			}
			kept := ""
			if k := f.current.Load(); k != nil {
				kept = k.key.Name + " " + strings.Join(slices.Sorted(slices.Values(k.nodes.UnsortedList())), " ")
			}
			if kept != tc.kept {
				t.Errorf("%q is kept, want %q", kept, tc.kept)
			}
		})
	}
}

func TestNodesAreNotKeptWithoutStarvationAfter(t *testing.T) {
	f := &keepFixture{keepBook: newKeepBook(0), now: start}
	f.do(t, "a refused")
	f.now = f.now.Add(1000 * time.Hour)
	if f.do(t, "a refused") || f.hungry[gang.Key{Name: "a"}] != nil {
		t.Error("nodes are to be kept, want never")
	}
}
