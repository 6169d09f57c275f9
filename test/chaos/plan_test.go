// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// plan is everything that is going to happen in a run, made from the seed.
type plan struct {
	seed uint64
	// rounds are the ends of the rounds, on the plan's clock, which stands still
	// between rounds.
	rounds []time.Duration
	// steps by time.
	steps []step
	// gangs is how many gangs are created.
	gangs int
}

// step is one thing that is done at a time. Steps of one track are done one after the
// other; a step whose time has come waits for the one before it.
type step struct {
	at    time.Duration
	track string
	text  string
	do    func(ctx context.Context, r *run) error
}

// roundLength is about how long a round is.
const roundLength = 35 * time.Second

// newPlan plans a run on the nodes with that much time under fire.
func newPlan(seed uint64, duration time.Duration, nodes []string) *plan {
	p := &plan{seed: seed}
	rounds := max(1, int((duration+roundLength/2)/roundLength))
	for i := range rounds {
		p.rounds = append(p.rounds, duration*time.Duration(i+1)/time.Duration(rounds))
	}
	// Each part has its own source, so that a change to one leaves the others as they are.
	p.planWork(rand.New(rand.NewPCG(seed, 1)))
	p.planRequestFaults(rand.New(rand.NewPCG(seed, 2)))
	p.planNodeFaults(rand.New(rand.NewPCG(seed, 3)), nodes)
	p.planKills(rand.New(rand.NewPCG(seed, 4)))
	slices.SortStableFunc(p.steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for i, s := range p.steps {
		if s.at >= p.end() {
			p.steps = p.steps[:i]
			break
		}
	}
	return p
}

func (p *plan) end() time.Duration { return p.rounds[len(p.rounds)-1] }

// roundEnd is the end of the round that a time lies in.
func (p *plan) roundEnd(at time.Duration) time.Duration {
	for _, end := range p.rounds {
		if at < end {
			return end
		}
	}
	return p.end()
}

func (p *plan) add(at time.Duration, track, text string, do func(ctx context.Context, r *run) error) {
	p.steps = append(p.steps, step{at: at, track: track, text: text, do: do})
}

// String lists the steps.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, rounds end at %v\n", p.seed, p.rounds)
	for _, s := range p.steps {
		fmt.Fprintf(&b, "%8.3f  %-18s %s\n", s.at.Seconds(), s.track, s.text)
	}
	return b.String()
}

// between is a random time from low up to high.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

// every calls do at random times that are mean apart on average.
func (p *plan) every(rng *rand.Rand, mean time.Duration, do func(at time.Duration)) {
	for at := between(rng, 0, mean); at < p.end(); at += between(rng, mean/5, mean*9/5) {
		do(at)
	}
}

// pick chooses one of the items.
func pick[T any](rng *rand.Rand, items ...T) T { return items[rng.IntN(len(items))] }

// chance is true with a probability in percent.
func chance(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }
