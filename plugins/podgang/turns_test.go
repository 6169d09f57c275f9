// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// turnFixture is a book of gangs whose names say how old they are: a is the oldest. One
// with a capital letter is bound in part.
type turnFixture struct {
	*turnBook
	now time.Time
}

func (f *turnFixture) key(pod *v1.Pod) gang.SortKey {
	if pod.Name[0] < 'a' {
		return gang.SortKey{Rank: gang.RankTopUp}
	}
	return gang.SortKey{Rank: gang.RankFloor, Since: f.now.Add(time.Duration(pod.Name[0]-'z') * time.Hour)}
}

func turnPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

func (f *turnFixture) wakeAll(names ...string) {
	for _, name := range names {
		f.wake(gang.Key{Name: name}, turnPod(name))
	}
}

// ask returns the name of the gang that a pod gives way to, "" if it goes on.
func (f *turnFixture) ask(pod string) string {
	key, leader, ok := f.first(f.now, f.key(turnPod(pod)), f.key)
	if ok && leader.Name != key.Name {
		return "the leader of another gang"
	}
	return key.Name
}

func TestPodGivesWayToTheFirstGangThatIsDue(t *testing.T) {
	for _, tc := range []struct {
		name string
		// woken and then began are the gangs in the book.
		woken, began []string
		pod, want    string
	}{
		{"nobody is due", nil, nil, "m", ""},
		{"one is", []string{"c"}, nil, "m", "c"},
		{"the oldest of several", []string{"c", "a", "b"}, nil, "m", "a"},
		{"not to a younger one", []string{"x"}, nil, "m", ""},
		{"to the older of two", []string{"x", "c"}, nil, "m", "c"},
		{"not to one that is being tried", []string{"c"}, []string{"c"}, "m", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &turnFixture{turnBook: newTurnBook(), now: time.Now()}
			f.wakeAll(tc.woken...)
			for _, name := range tc.began {
				f.began(gang.Key{Name: name})
			}
			if got := f.ask(tc.pod); got != tc.want {
				t.Errorf("gives way to %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPodsGiveWayOnceForEachTimeAGangIsWoken(t *testing.T) {
	f := &turnFixture{turnBook: newTurnBook(), now: time.Now()}
	f.wakeAll("a")
	if f.ask("m") != "a" || f.ask("n") != "" {
		t.Fatal("want the first pod alone to give way")
	}
	f.wakeAll("a")
	if got := f.ask("n"); got != "a" {
		t.Errorf("gives way to %q after the gang was woken again, want a", got)
	}
}

func TestPodsGiveWayForATenthOfTheTime(t *testing.T) {
	f := &turnFixture{turnBook: newTurnBook(), now: time.Now()}
	const took = 10 * time.Millisecond
	f.wakeAll("a", "b")
	f.ask("m")
	f.yielded.add(turnPod("m"))
	if pods := f.ended(gang.Key{Name: "a"}, f.now, took); len(pods) != 1 || pods[0].Name != "m" {
		t.Errorf("%v are called for when the gang was tried, want m", pods)
	}
	if got := f.ask("m"); got != "" {
		t.Errorf("gives way to %q at once again", got)
	}
	f.now = f.now.Add(passPause*took - time.Nanosecond)
	if got := f.ask("m"); got != "" {
		t.Errorf("gives way to %q before the pause is over", got)
	}
	f.now = f.now.Add(time.Nanosecond)
	if got := f.ask("m"); got != "b" {
		t.Errorf("gives way to %q after the pause, want b", got)
	}
	// An attempt that nobody gave way to is followed by no pause.
	f.ended(gang.Key{Name: "b"}, f.now, 0)
	f.ended(gang.Key{Name: "other"}, f.now, time.Hour)
	f.wakeAll("a")
	if got := f.ask("m"); got != "a" {
		t.Errorf("gives way to %q, want a", got)
	}
}

func TestPodsGiveWayToAGangBoundInPartAtAnyTime(t *testing.T) {
	f := &turnFixture{turnBook: newTurnBook(), now: time.Now()}
	f.wakeAll("a", "b")
	f.ask("m")
	f.ended(gang.Key{Name: "a"}, f.now, time.Second)
	f.wakeAll("P")
	if got := f.ask("m"); got != "P" {
		t.Errorf("gives way to %q in the pause, want P", got)
	}
	if got := f.ask("m"); got != "" {
		t.Errorf("gives way to %q in the pause", got)
	}
}
