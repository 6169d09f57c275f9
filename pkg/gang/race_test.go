// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Whatever is called at the same time, the Index is not torn, and once all
// objects are deleted and all cycles have ended it is empty.
func TestIndexFromManyGoroutines(t *testing.T) {
	const (
		goroutines = 8
		rounds     = 150
		gangs      = 3
	)
	f := newFixture(t)
	var wg sync.WaitGroup
	for n := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for round := range rounds {
				gangName := fmt.Sprintf("g%d", random.IntN(gangs))
				leader := pod(fmt.Sprintf("p%d", n), inGang(gangName), uid(fmt.Sprintf("%d-%d", n, round)), version(fmt.Sprint(round+1)))
				pg := podGang(gangName, group("a", int32(random.IntN(3)), "p0", "p1", "p2", "p3"), group("b", 1, "p4", "p5", "p6", "p7"))
				pg.ResourceVersion = fmt.Sprint(round + 1)
				f.SetGang(pg)
				f.put(leader)
				f.readEverything(gangName, leader)
				f.runCycle(random, leader)
				if random.IntN(4) == 0 {
					f.DeleteGang(pg)
				}
				f.drop(leader)
			}
		})
	}
	wg.Wait()
	for n := range gangs {
		f.DeleteGang(podGang(fmt.Sprintf("g%d", n)))
	}
	expectEmptyIndex(t, f.Index)
}

func (f *fixture) readEverything(gang string, pod *v1.Pod) {
	f.Keys()
	f.View(keyFor(gang))
	f.SortKey(pod)
	f.GangOf(pod)
	f.IsMember(pod)
	f.RoleOf(pod)
}

// runCycle runs the cycle of a pod as far as it goes without waiting.
func (f *fixture) runCycle(random *rand.Rand, pod *v1.Pod) {
	key, _ := f.GangOf(pod)
	if role, _ := f.Admit(pod); role == RoleLeads {
		snapshot, ok := f.Snapshot(key, pod.UID)
		if !ok {
			return
		}
		var placements []Placement
		for _, group := range snapshot.Groups {
			for _, p := range group.Floors {
				placements = append(placements, Placement{Pod: p, Node: "n", Floor: true})
			}
			for _, p := range group.Extras {
				placements = append(placements, Placement{Pod: p, Node: "n"})
			}
		}
		if attempt, err := f.Begin(key, placements); err == nil {
			defer f.Expire(attempt, "expired")
		}
	}
	ticket := f.Ticket(pod)
	if ticket == nil {
		return
	}
	if f.Enter(ticket) != nil {
		f.Leave(ticket, CauseRefused, "undone")
		return
	}
	if arrival := f.Arrive(ticket); !arrival.Proceed || random.IntN(4) == 0 {
		f.Leave(ticket, CauseRefused, "gave up")
		return
	}
	decided := f.Prepare(ticket)
	select {
	case <-decided:
		if bind, _ := f.Verdict(ticket); bind {
			f.Bound(ticket)
			return
		}
	default:
	}
	f.Leave(ticket, CauseRefused, "gave up")
}
