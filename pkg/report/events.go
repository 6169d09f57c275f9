// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// noteLimit is what the API allows for the note of an event.
const noteLimit = 1024

// event is to be created on a PodGang.
type event struct {
	kind, reason, note string
}

// writeEvents creates events on the PodGang. They do not go through client-go's
// recorder, which takes an event that differs in its note alone for a repetition
// of the one before, and keeps the old note.
func (r *Reporter) writeEvents(ctx context.Context, pg *v1alpha1.PodGang, due []event) error {
	var errs []error
	for _, e := range due {
		if err := r.writeEvent(ctx, pg, e); err != nil {
			errs = append(errs, fmt.Errorf("create event %s on PodGang %s/%s: %w", e.reason, pg.Namespace, pg.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Reporter) writeEvent(ctx context.Context, pg *v1alpha1.PodGang, e event) error {
	now := r.clock.Now()
	instance, err := os.Hostname()
	if err != nil || instance == "" {
		instance = "unknown"
	}
	_, err = r.client.EventsV1().Events(pg.Namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: pg.Namespace, Name: fmt.Sprintf("%.180s.%s.%x", pg.Name, strings.ToLower(e.reason), now.UnixNano())},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: r.name,
		ReportingInstance:   truncate(r.name+"-"+instance, 128),
		Action:              "Scheduling",
		Type:                e.kind,
		Reason:              e.reason,
		Note:                truncate(e.note, noteLimit),
		Regarding: v1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.PodGangKind.Kind,
			Namespace: pg.Namespace, Name: pg.Name, UID: pg.UID, ResourceVersion: pg.ResourceVersion,
		},
	}, metav1.CreateOptions{})
	return err
}

// truncate shortens a text to a number of bytes.
func truncate(text string, limit int) string {
	const ellipsis = " ..."
	if len(text) <= limit {
		return text
	}
	return text[:limit-len(ellipsis)] + ellipsis
}
