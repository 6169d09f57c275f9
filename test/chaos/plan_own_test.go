// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
)

// One seed makes one plan; a plan keeps to its rounds.
func TestPlan(t *testing.T) {
	nodes := []string{"node-0", "node-1"}
	p := newPlan(7, 5*time.Minute, nodes)
	if again := newPlan(7, 5*time.Minute, nodes); again.String() != p.String() {
		t.Error("the same seed has made two plans")
	}
	if other := newPlan(8, 5*time.Minute, nodes); other.String() == p.String() {
		t.Error("two seeds have made the same plan")
	}
	if p.end() != 5*time.Minute {
		t.Errorf("the plan ends at %v", p.end())
	}
	texts := p.String()
	for _, words := range []string{
		"create PodGang", "take the gate off", "move the floor", "replace ", "delete PodGang", "becomes Failed", "in no gang", "create claim",
		"binding: answered with 409", "carried out and cut off", "carried out and answered with 504", "cut off before", "delayed",
		"drop the watches", "hold back the watches", "answered with 410", "take no connections",
		"cordon node", "its pods die", "its pods live on", "remove the ResourceSlices",
		"kill podgang-scheduler", "kill kube-apiserver", "kill kube-controller-manager",
	} {
		if !strings.Contains(texts, words) {
			t.Errorf("nothing like %q is planned in 5 minutes", words)
		}
	}
	last, broken := time.Duration(0), map[time.Duration]int{} // faults of nodes by the end of their round
	for _, s := range p.steps {
		if s.at < last || s.at >= p.end() {
			t.Fatalf("step at %v after %v: %s", s.at, last, s.text)
		}
		last = s.at
		if !strings.HasPrefix(s.track, "node ") {
			continue
		}
		switch verb, _, _ := strings.Cut(s.text, " "); verb {
		case "cordon", "delete", "remove":
			broken[p.roundEnd(s.at)]++
		default:
			broken[p.roundEnd(s.at)]--
		}
	}
	for end, n := range broken {
		if n != 0 {
			t.Errorf("%d faults of nodes are not mended in the round that ends at %v", n, end)
		}
	}
}

// The short run has every kind of fault that ends a process, hits a node, or parts the
// scheduler from the API server.
func TestShortPlan(t *testing.T) {
	cluster, err := shapes.LoadFile(clusterFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	texts := newPlan(shortSeed, shortDuration, nodesOf(cluster)).String()
	for _, words := range []string{
		"binding: ", "write of a claim: ", "carried out and cut off", "cut off before", "delayed",
		"drop the watches", "hold back the watches", "answered with 410", "take no connections",
		"cordon node", "its pods die", "its pods live on", "remove the ResourceSlices",
		"kill podgang-scheduler", "kill kube-apiserver", "kill kube-controller-manager",
	} {
		if !strings.Contains(texts, words) {
			t.Errorf("the short run does not plan %q; choose another seed", words)
		}
	}
}

// backend counts what reaches the API server.
type backend struct{ got atomic.Int32 }

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what is in it does not matter
	b.got.Add(1)
	w.WriteHeader(http.StatusOK)
}

// newHarm starts an injector before a backend, and returns a function that sends a
// binding through it and returns the status, 0 for no answer.
func newHarm(t *testing.T) (*injector, *backend, func() int) {
	b := &backend{}
	server := httptest.NewTLSServer(b)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	i := newInjector(&journal{})
	t.Cleanup(i.Close)
	transport := server.Client().Transport.(*http.Transport).Clone()
	front, err := i.Serve(t.Context(), lab.Upstream{URL: u, Transport: transport, Certificate: server.TLS.Certificates[0]})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return i, b, func() int {
		resp, err := client.Post(front+"/api/v1/namespaces/chaos/pods/g001-a-0/binding", "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0
		}
		_ = resp.Body.Close() // it is empty or a status
		return resp.StatusCode
	}
}

// Each effect does to a request what it says.
func TestInjector(t *testing.T) {
	for _, tc := range []struct {
		name    string
		fault   requestFault
		status  int
		reaches int32
	}{
		{"answered", requestFault{class: binding, effect: answer, code: 409, left: 1}, 409, 0},
		{"cut off before", requestFault{class: binding, effect: cutBefore, left: 1}, 0, 0},
		{"cut off after", requestFault{class: binding, effect: cutAfter, left: 1}, 0, 1},
		{"carried out and answered", requestFault{class: anyWrite, effect: answerAfter, code: 504, left: 1}, 504, 1},
		{"delayed", requestFault{class: binding, effect: slow, wait: time.Millisecond, left: 1}, 200, 1},
		{"another class", requestFault{class: claimWrite, effect: answer, code: 500, left: 1}, 200, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i, b, send := newHarm(t)
			i.arm(tc.fault, time.Minute)
			if status := send(); status != tc.status || b.got.Load() != tc.reaches {
				t.Errorf("the client saw %d, the server %d requests; want %d and %d", status, b.got.Load(), tc.status, tc.reaches)
			}
			if want := btoi(tc.name != "another class"); i.journal.faultCount() != want {
				t.Errorf("%d faults were counted, want %d", i.journal.faultCount(), want)
			}
			if status := send(); status != 200 {
				t.Errorf("then the client saw %d", status)
			}
		})
	}
}

// No request fails for ever, and peace ends it all.
func TestInjectorKnowsMercy(t *testing.T) {
	i, _, send := newHarm(t)
	i.arm(requestFault{class: binding, effect: answer, code: 500, left: 100}, time.Minute)
	for range mostInARow {
		if status := send(); status != 500 {
			t.Fatalf("the client saw %d", status)
		}
	}
	if status := send(); status != 200 {
		t.Errorf("after %d failures the client saw %d", mostInARow, status)
	}
	if status := send(); status != 500 {
		t.Errorf("after a success the client saw %d", status)
	}
	i.outage(time.Hour)
	if status := send(); status != 0 {
		t.Errorf("in an outage the client saw %d", status)
	}
	i.peace()
	if status := send(); status != 200 {
		t.Errorf("in peace the client saw %d", status)
	}
}
