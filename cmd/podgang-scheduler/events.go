// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/podgang/podgang-scheduler/pkg/bindevents"
	"github.com/podgang/podgang-scheduler/pkg/inflight"
)

// deferEvents makes the scheduler leave the events of bindings to a writer, for which Run
// has to be called. The writer's client has the limits of the scheduler's, but for itself.
// It must be called before the scheduler runs.
func deferEvents(config *rest.Config, profiles profile.Map) (*bindevents.Writer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build a client for events: %w", err)
	}
	writer := bindevents.NewWriter(client.EventsV1(), inflight.Calm)
	for name, p := range profiles {
		profiles[name] = withRecorder{Framework: p, recorder: writer.Recorder(p.EventRecorder(), name)}
	}
	return writer, nil
}

// withRecorder is a profile that records events elsewhere. Its plugins keep the recorder
// that they were made with.
type withRecorder struct {
	framework.Framework
	recorder events.EventRecorderLogger
}

func (p withRecorder) EventRecorder() events.EventRecorderLogger { return p.recorder }
