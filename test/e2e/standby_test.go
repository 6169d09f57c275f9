// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
)

// standbyName is the component's name of the second replica.
const standbyName = lab.PodGangScheduler + "-2"

// replica is one of two schedulers of which one leads.
type replica struct {
	*lab.Component
	gate *gate

	mu sync.Mutex // guards writes
	// writes are what the process has written, but for questions about who may call it.
	writes []string
}

const leaseWrite = "PUT /apis/coordination.k8s.io/v1/namespaces/podgang-system/leases/podgang-scheduler"

// record notes a request; it is a match of the gate's that never matches.
func (r *replica) record(request *http.Request) bool {
	switch {
	case request.Method == http.MethodGet, strings.HasSuffix(request.URL.Path, "reviews"):
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writes = append(r.writes, request.Method+" "+request.URL.Path)
	}
	return false
}

// writesBeforeLeading returns what the process has written before it renewed the lease
// for the first time. Who has not led has tried to create the lease, at most.
func (r *replica) writesBeforeLeading() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var early []string
	for _, write := range r.writes {
		if write == leaseWrite {
			break
		}
		if !strings.HasSuffix(write, "/leases") {
			early = append(early, write)
		}
	}
	return early
}

// start starts the process anew if it was killed.
func (r *replica) start(ctx context.Context) error {
	if !r.Running() {
		r.mu.Lock()
		r.writes = nil
		r.mu.Unlock()
	}
	return r.Start(ctx)
}

// startReplicas starts a lab with two schedulers, which ends with the test.
func startReplicas(t *testing.T) (*labSource, []*replica) {
	t.Helper()
	source := &labSource{name: "standby"}
	replicas := []*replica{{gate: newGate()}, {gate: newGate()}}
	source.once.Do(func() { source.err = source.startReplicas(replicas) })
	t.Cleanup(func() {
		if err := source.end(t.Failed() || *keepState); err != nil {
			t.Error(err)
		}
		for _, r := range replicas {
			r.gate.Close()
		}
	})
	source.get(t)
	return source, replicas
}

func (l *labSource) startReplicas(replicas []*replica) error {
	shape, err := shapes.Load("a", nil)
	if err != nil {
		return err
	}
	opts := lab.Options{Shape: shape}
	names := []string{lab.PodGangScheduler, standbyName}
	for i, r := range replicas {
		opts.Schedulers = append(opts.Schedulers, lab.Scheduler{
			Binary: *schedulerBinary, Name: names[i], LeaderElect: true, Server: r.gate.Serve,
			EditConfig: func(config *unstructured.Unstructured) error {
				// The defaults are 15 s, 10 s and 2 s.
				for key, value := range map[string]string{"leaseDuration": "5s", "renewDeadline": "4s", "retryPeriod": "500ms"} {
					if err := unstructured.SetNestedField(config.Object, value, "leaderElection", key); err != nil {
						return err
					}
				}
				return nil
			},
		})
		r.gate.hold(r.record)
	}
	if err := l.run(opts); err != nil {
		return err
	}
	for i, r := range replicas {
		r.Component = l.cluster.Component(names[i])
	}
	return l.cluster.recordGangs(l.cluster.Context)
}

// leader waits until both replicas run and one leads, and returns it and the other.
func (s *scenario) leader(replicas []*replica) (leader, standby *replica) {
	s.t.Helper()
	s.until("a replica leads", func() string {
		leader, standby = nil, nil
		for _, r := range replicas {
			metrics, err := s.scrape(r.Component)
			if err != nil { // it has just started, and knows nobody yet
				return err.Error()
			}
			if sample(metrics, "leader_election_master_status") == 1 {
				leader = r
			} else {
				standby = r
			}
		}
		if leader == nil || standby == nil {
			return "none or both do"
		}
		return ""
	})
	return leader, standby
}

// killReplica ends a replica with SIGKILL. It starts again when the test has ended.
func (s *scenario) killReplica(r *replica) {
	s.t.Helper()
	r.Kill()
	if r.Component == s.scheduler() {
		s.killed++
	}
	s.t.Cleanup(func() { s.startReplica(r) })
}

// startReplica starts a replica again that has ended.
func (s *scenario) startReplica(r *replica) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	if err := r.start(ctx); err != nil {
		s.t.Errorf("the scheduler does not start again: %v", err)
	}
}

// loseLease keeps the leader from renewing its lease, until it has ended by itself. It
// starts again when the test has ended.
func (s *scenario) loseLease(r *replica) {
	s.t.Helper()
	renewals := r.gate.hold(func(request *http.Request) bool { return request.Method+" "+request.URL.Path == leaseWrite })
	s.t.Cleanup(func() {
		renewals.drop()
		s.startReplica(r)
	})
	if r.Component == s.scheduler() {
		s.killed++
	}
	s.until("the leader has ended", func() string {
		if r.Running() {
			return "it runs"
		}
		return ""
	})
}

// bindings are the pods of the scenario that the process has bound, or tried to, once for
// each request.
func (r *replica) bindings(namespace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pods []string
	for _, write := range r.writes {
		pod, found := strings.CutPrefix(write, "POST /api/v1/namespaces/"+namespace+"/pods/")
		if pod, binds := strings.CutSuffix(pod, "/binding"); found && binds {
			pods = append(pods, pod)
		}
	}
	slices.Sort(pods)
	return pods
}

// onlyTheLeaderWrites checks the replica that does not lead.
func (s *scenario) onlyTheLeaderWrites(standby *replica) {
	s.t.Helper()
	if early := standby.writesBeforeLeading(); len(early) > 0 {
		s.t.Errorf("%s wrote before it led: %q", standby.Name(), early)
	}
}

// eventCount is how many event objects on the gang have the words.
func (s *scenario) eventCount(gang string, words ...string) int {
	found := map[string]bool{}
	for _, r := range s.c.history.of(s.ns) {
		if e, ok := r.object.(*eventsv1.Event); ok && e.Regarding.Kind == "PodGang" && e.Regarding.Name == gang && hasWords(e.Note, words) {
			found[e.Name] = true
		}
	}
	return len(found)
}

func TestStandbyTakesOver(t *testing.T) {
	source, replicas := startReplicas(t)

	t.Run("while a gang waits", func(t *testing.T) {
		s := newScenario(t, source)
		leader, standby := s.leader(replicas)
		s.takeGPU("solo")
		pods := names("g", 2)
		s.gang("g", group("w", 2, pods...))
		s.members("g", 2, gpu)
		s.unschedulable(pods, "2 pods", "room for 1")
		s.tells("g", "2 pods", "room for 1")
		s.marker()
		if n := s.eventCount("g", "room for 1"); n != 1 {
			t.Errorf("%d events say why the gang waits, want 1", n)
		}
		s.onlyTheLeaderWrites(standby)
		s.killReplica(leader)
		s.deletePods("solo") // nobody leads
		s.neverBound(pods...)
		s.bound(pods...)
		s.onlyTheLeaderWrites(standby)
		if n := s.eventCount("g", "room for 1"); n != 1 {
			t.Errorf("%d events say that the gang waited, want 1", n)
		}
	})

	t.Run("while a gang is half prepared", func(t *testing.T) {
		s := newScenario(t, source)
		leader, standby := s.leader(replicas)
		pods, write := s.halfPrepared(leader.gate)
		s.onlyTheLeaderWrites(standby)
		s.killReplica(leader)
		write.drop()
		s.neverBound(pods...)
		s.bound(pods...)
		s.haveDevices(1, pods...)
		s.onlyTheLeaderWrites(standby)
	})

	t.Run("while a gang is half prepared and then does not fit", func(t *testing.T) {
		s := newScenario(t, source)
		leader, _ := s.leader(replicas)
		pods, write := s.halfPrepared(leader.gate)
		s.killReplica(leader)
		write.drop()
		s.setFloor("g", 3) // and there are two members
		s.nothingAllocated(pods...)
		s.neverBound(pods...)
		s.gpusUsable(2)
		s.setFloor("g", 2)
		s.bound(pods...)
	})

	t.Run("while a gang is being bound", func(t *testing.T) {
		s := newScenario(t, source)
		leader, standby := s.leader(replicas)
		pods, binding := s.halfBound(leader.gate)
		s.killReplica(leader)
		binding.drop()
		s.pod("rival", gpu)
		s.bound(pods...)
		s.holdsNothing("rival")
		s.onlyTheLeaderWrites(standby)
		s.deletePods(pods...)
		s.bound("rival")
	})
}

// The leader cannot renew its lease, for all that it runs and reaches the API server
// otherwise. It ends, and the other goes on where it was.
func TestStandbyTakesOverFromALeaderWithoutLease(t *testing.T) {
	source, replicas := startReplicas(t)
	pods := names("g", 2)
	for _, tc := range []struct {
		name string
		// stop is a request of the leader's that does not get through; nil for none.
		stop func(s *scenario, leader *replica) *rule
		// reached waits for what is in the API when the lease is lost.
		reached func(s *scenario)
		// first are the bindings that the first leader asks for, second those of the other.
		first, second []string
	}{
		{
			"while a gang waits", nil,
			func(s *scenario) { s.unschedulable(pods, "room for 1") },
			[]string{"solo"}, pods,
		},
		{
			"while a gang is half prepared",
			func(s *scenario, leader *replica) *rule { return leader.gate.hold(claimWrite(s.ns, "g-1-")) },
			func(s *scenario) { s.allocatedFor("g-0") },
			nil, pods,
		},
		{
			"while a gang is prepared",
			func(s *scenario, leader *replica) *rule { return leader.gate.hold(bindingIn(s.ns)) },
			func(s *scenario) { s.allocatedFor(pods...) },
			pods, pods,
		},
		{
			"while a gang is being bound",
			func(s *scenario, leader *replica) *rule { return leader.gate.hold(bindingOf(s.ns, "g-1")) },
			func(s *scenario) { s.bound("g-0") },
			pods, pods[1:],
		},
		{
			"while a gang is bound and no answer comes",
			func(s *scenario, leader *replica) *rule { return leader.gate.loseAnswers(bindingIn(s.ns)) },
			func(s *scenario) { s.bound(pods...) },
			pods, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScenario(t, source)
			leader, standby := s.leader(replicas)
			if tc.stop == nil {
				s.takeGPU("solo")
			} else {
				s.rulesOpen = append(s.rulesOpen, tc.stop(s, leader))
			}
			s.gang("g", group("w", 2, pods...))
			s.members("g", 2, gpu)
			tc.reached(s)
			s.until("the leader has asked for its bindings", func() string {
				if got := leader.bindings(s.ns); !slices.Equal(got, tc.first) {
					return fmt.Sprintf("it has asked for those of %v", got)
				}
				return ""
			})
			s.onlyTheLeaderWrites(standby)
			s.loseLease(leader)
			if tc.stop == nil {
				s.deletePods("solo") // nobody leads
			}
			s.bound(pods...)
			s.waitPhase("g", v1alpha1.PodGangPhaseRunning)
			s.haveDevices(1, pods...)
			s.onlyTheLeaderWrites(standby)
			if got := leader.bindings(s.ns); !slices.Equal(got, tc.first) {
				t.Errorf("the first leader asked for the bindings of %v, want %v", got, tc.first)
			}
			if got := standby.bindings(s.ns); !slices.Equal(got, tc.second) {
				t.Errorf("the second leader asked for the bindings of %v, want %v", got, tc.second)
			}
			s.deletePods(pods...)
			s.gpusUsable(2)
		})
	}
}
