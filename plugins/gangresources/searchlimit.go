// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// The work of the allocator is counted in looks: one look at one device, to see
// whether it does for a request. That takes about a microsecond.
const (
	// freeLooks are those that every search for devices on a node may take. What
	// one pod asks for is found, or is seen to be missing, in far fewer, unless
	// there are constraints.
	freeLooks = 2000
	// looksPerSearch and looksPerSession are, for each placement in the budget of a
	// session, what one search may take, and what all may take beyond those free.
	looksPerSearch  = 10
	looksPerSession = 30
)

// errCutShort ends a search of the allocator that has used up its limit.
var errCutShort = errors.New("the search for devices was cut short")

// searchLimit bounds how long the allocator looks for devices. It tries all
// combinations (v1.37.2), of which there may be more than it could try in years.
type searchLimit struct {
	// left is how many looks all searches together may take beyond those free.
	left int
	// most is how many looks one search may take.
	most int
	// timeout is how long one search may take; 0 is no limit.
	timeout time.Duration
	// cut tells whether the last search was cut short.
	cut bool
}

func newSearchLimit(budget int, timeout time.Duration) searchLimit {
	return searchLimit{left: budget * looksPerSession, most: max(freeLooks, budget*looksPerSearch), timeout: timeout}
}

// start returns a context for one search in a world of devices, in the goroutine
// of the session.
func (l *searchLimit) start(ctx context.Context, world []*resourceapi.ResourceSlice) *limitedSearch {
	s := &limitedSearch{Context: ctx, limit: l, started: time.Now(), most: min(l.most, freeLooks+l.left)}
	for _, slice := range world {
		s.step += len(slice.Spec.Devices)
	}
	return s
}

// startBrief is start for a search that takes little more than it takes to find
// devices for the claims when no choice has to be taken back.
func (l *searchLimit) startBrief(ctx context.Context, world []*resourceapi.ResourceSlice, claims []*resourceapi.ResourceClaim) *limitedSearch {
	s := l.start(ctx, world)
	s.most = min(s.most, max(freeLooks, 2*questionsFor(claims)*s.step))
	return s
}

// questionsFor returns how often the allocator asks whether the search has ended when
// it finds devices for the claims at once: for each device, and at the end of each
// request and each claim.
func questionsFor(claims []*resourceapi.ResourceClaim) int {
	questions := 1
	for _, claim := range claims {
		questions++
		for i := range claim.Spec.Devices.Requests {
			count := int64(1)
			if exact := claim.Spec.Devices.Requests[i].Exactly; exact != nil {
				count = max(1, exact.Count)
			}
			for _, sub := range claim.Spec.Devices.Requests[i].FirstAvailable {
				count = max(count, sub.Count)
			}
			questions += int(count) + 1
		}
	}
	return questions
}

// limitedSearch is a context that ends when it has been asked too often whether it
// has ended: the allocator (v1.37.2) asks each time before it looks through the
// devices. That makes a limit which does not depend on how busy the machine is.
type limitedSearch struct {
	context.Context
	limit   *searchLimit
	started time.Time
	// step is how many devices there are to look at, between two questions.
	step int
	// looks are those so far; they may be most.
	looks, most int
	questions   int
	// ended is why the search was cut short.
	ended error
}

// Err is nil while the search may go on.
func (s *limitedSearch) Err() error {
	const lookAtClock = 64 // a look at the clock takes as long as a look at a device
	if s.ended != nil {
		return s.ended
	}
	s.looks += s.step
	s.questions++
	switch {
	case s.looks > s.most:
		s.ended = fmt.Errorf("%w after %d looks at devices", errCutShort, s.looks-s.step)
	case s.limit.timeout > 0 && s.questions%lookAtClock == 0 && time.Since(s.started) > s.limit.timeout:
		s.ended = fmt.Errorf("%w after %v", errCutShort, s.limit.timeout)
	default:
		return s.Context.Err()
	}
	return s.ended
}

// done charges the search to the limit of the session. It returns why the search
// was cut short, nil if it was not.
func (s *limitedSearch) done() error {
	s.limit.left -= max(0, min(s.looks, s.most)-freeLooks)
	s.limit.cut = s.ended != nil
	return s.ended
}
