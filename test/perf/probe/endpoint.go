// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"
)

// Endpoint is the port of a component on this machine.
type Endpoint struct {
	client *http.Client
	base   string
}

// NewEndpoint reaches the port with the credentials of the lab's administrator.
func NewEndpoint(admin *rest.Config, port int) (*Endpoint, error) {
	client, err := rest.HTTPClientFor(admin)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	return &Endpoint{client: client, base: fmt.Sprintf("https://127.0.0.1:%d", port)}, nil
}

// Get reads a path that answers 200.
func (e *Endpoint) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read to the end, or not worth an error
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s answers %s: %.200s", e.base, path, response.Status, body)
	}
	return body, nil
}

// Metrics reads /metrics.
func (e *Endpoint) Metrics(ctx context.Context) (Metrics, error) {
	body, err := e.Get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("cannot read metrics: %w", err)
	}
	return ParseMetrics(body)
}

// Metrics are all samples of a component, by name.
type Metrics testutil.Metrics

// ParseMetrics reads the text format of Prometheus.
func ParseMetrics(text []byte) (Metrics, error) {
	metrics := testutil.NewMetrics()
	if err := testutil.ParseMetrics(string(text), &metrics); err != nil {
		return nil, fmt.Errorf("cannot read metrics: %w", err)
	}
	return Metrics(metrics), nil
}

// Sum adds up all samples of a metric.
func (m Metrics) Sum(name string) float64 {
	sum := 0.0
	for _, sample := range m[name] {
		sum += float64(sample.Value)
	}
	return sum
}

// Requests counts the API server's requests so far, by verb and resource: "PUT
// resourceclaims/status". Long-running ones (WATCH, CONNECT) are left out: they are
// counted when they end.
func (m Metrics) Requests() map[string]int {
	counts := map[string]int{}
	for _, sample := range m["apiserver_request_total"] {
		verb, resource := string(sample.Metric["verb"]), string(sample.Metric["resource"])
		if verb == "WATCH" || verb == "CONNECT" || resource == "" {
			continue
		}
		if sub := string(sample.Metric["subresource"]); sub != "" {
			resource += "/" + sub
		}
		counts[verb+" "+resource] += int(sample.Value)
	}
	return counts
}

// Since is what was added to counts after the earlier ones; what stayed is left out.
func Since(earlier, later map[string]int) map[string]int {
	added := map[string]int{}
	for key, n := range later {
		if n > earlier[key] {
			added[key] = n - earlier[key]
		}
	}
	return added
}

// Writes is how many of the requests change something. Those to resources that
// are left out do not count.
func Writes(requests map[string]int, leftOut ...string) int {
	writes := 0
	for request, n := range requests {
		switch verb, resource, _ := strings.Cut(request, " "); verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
			if !slices.Contains(leftOut, resource) {
				writes += n
			}
		}
	}
	return writes
}
