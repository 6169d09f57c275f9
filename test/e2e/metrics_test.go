// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// metric reads a metric of a component, as sample does.
func (s *scenario) metric(component *lab.Component, name string, labels ...string) float64 {
	s.t.Helper()
	metrics, err := s.scrape(component)
	s.must(err)
	return sample(metrics, name, labels...)
}

// sample is the sum of all samples of a metric that have the labels, given as name and
// value in turn. A histogram has the metrics <name>_count and <name>_sum. What has not
// been counted yet is 0.
func sample(metrics testutil.Metrics, name string, labels ...string) float64 {
	sum := 0.0
	for _, sample := range metrics[name] {
		matches := true
		for i := 0; i+1 < len(labels); i += 2 {
			matches = matches && string(sample.Metric[testutil.LabelName(labels[i])]) == labels[i+1]
		}
		if matches {
			sum += float64(sample.Value)
		}
	}
	return sum
}

// scrape reads all metrics of a component, as the lab's administrator.
func (s *scenario) scrape(component *lab.Component) (testutil.Metrics, error) {
	client, err := rest.HTTPClientFor(s.c.RESTConfig())
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", component.Port()), nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read to the end, or not worth an error
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of %s: %s: %.200s", component.Name(), response.Status, body)
	}
	metrics := testutil.NewMetrics()
	return metrics, testutil.ParseMetrics(string(body), &metrics)
}
