// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// phaseOf returns the phase of a gang: Pending until a member is bound, Running
// while every group has its floor running, Starting in between.
func phaseOf(view gang.View) v1alpha1.PodGangPhase {
	switch {
	case view.Running:
		return v1alpha1.PodGangPhaseRunning
	case view.AnyBound:
		return v1alpha1.PodGangPhaseStarting
	}
	return v1alpha1.PodGangPhasePending
}

const (
	// settle is how long a gang may take to be bound before it is called Starting: it is
	// then bound as a rule, and the phase is written together with the score.
	settle = time.Second
	// unseen is how long a gang that has no phase may wait to be looked at before it is
	// called Pending: nearly all are bound or refused before, however long the queue is.
	unseen = 30 * time.Second
)

// passing is a state that a gang goes through: it is bound in part or not at all, and
// nobody has said that it must wait.
type passing struct {
	bound bool
	// since is zero when the gang is in no such state.
	since time.Time
}

// passes returns how long the status of the gang is not to be written yet, as another is
// likely to follow.
func (n *note) passes(view gang.View, now time.Time) time.Duration {
	if view.Satisfied || view.Blocked != "" || n.verdict.reason != "" || view.Object == nil {
		n.passing = passing{}
		return 0
	}
	if n.passing.since.IsZero() || n.passing.bound != view.AnyBound {
		n.passing = passing{bound: view.AnyBound, since: now}
	}
	switch {
	case view.AnyBound:
		return max(0, n.passing.since.Add(settle).Sub(now))
	case view.Object.Status.Phase == "":
		return max(0, n.passing.since.Add(unseen).Sub(now))
	}
	return 0
}

// mayWriteStatus reports whether the status of the PodGang is the scheduler's to
// write to: Grove's operator owns it until it has set Initialized to True; a gang
// without that condition was written by hand or by an operator that leaves the
// status alone.
func mayWriteStatus(pg *v1alpha1.PodGang) bool {
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionInitialized)
	return c == nil || c.Status == metav1.ConditionTrue
}

// statusPatch holds the keys of a PodGang's status that are to be written.
type statusPatch struct {
	phase v1alpha1.PodGangPhase
	// score is to be written if rated is set; nil clears it.
	rated bool
	score *float64
}

// version names the patch to one version of the object.
func (p *statusPatch) version(pg *v1alpha1.PodGang) string {
	version := pg.ResourceVersion + "/" + string(p.phase)
	if p.rated {
		version += "/" + scoreText(p.score)
	}
	return version
}

func scoreText(score *float64) string {
	if score == nil {
		return "none"
	}
	return strconv.FormatFloat(*score, 'g', -1, 64)
}

// duePatch returns what is to be written to the status of a PodGang, nil for
// nothing. rated is the score of the placement, nil if none is known.
func duePatch(policy config.StatusPolicy, view gang.View, rated *float64) *statusPatch {
	status := &view.Object.Status
	if !mayWriteStatus(view.Object) {
		return nil
	}
	var due statusPatch
	if phase := phaseOf(view); policy == config.StatusPolicyFull && phase != status.Phase {
		due.phase = phase
	}
	switch {
	case !view.AnyBound:
		due.rated = status.PlacementScore != nil
	case view.Satisfied && rated != nil && (status.PlacementScore == nil || *status.PlacementScore != *rated):
		due.rated, due.score = true, rated
	}
	if due.rated && due.phase == "" && status.Phase == "" {
		// The API server wants one with any status.
		due.phase = v1alpha1.PodGangPhasePending
	}
	if due.phase == "" && !due.rated {
		return nil
	}
	return &due
}

// writeStatus writes phase and placement score where they differ, once for each
// version of the object: where another writer resets them, its next version is
// written again. The merge patch holds no other key, since the rest of the status is
// others'.
func (r *Reporter) writeStatus(ctx context.Context, key gang.Key, view gang.View) error {
	var rated *float64
	var patched string
	r.update(key, func(n *note) { rated, patched = n.score, n.patched })
	due := duePatch(r.policy, view, rated)
	if due == nil || due.version(view.Object) == patched {
		return nil
	}
	status := make(map[string]any)
	if due.phase != "" {
		status["phase"] = due.phase
	}
	if due.rated {
		status["placementScore"] = due.score
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if _, err := r.gangs.Resource(v1alpha1.PodGangResource).Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("write status %s of PodGang %s: %w", patch, key, err)
	}
	if due.rated && due.score != nil {
		placementScore.Observe(*due.score)
	}
	r.update(key, func(n *note) { n.patched = due.version(view.Object) })
	return nil
}
