// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"fmt"

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

// mayWritePhase reports whether the phase of the PodGang is the scheduler's to
// write: Grove's operator owns the status until it has set Initialized to True;
// a gang without that condition was written by hand or by an operator that
// leaves the status alone.
func mayWritePhase(policy config.StatusPolicy, pg *v1alpha1.PodGang) bool {
	if policy != config.StatusPolicyFull {
		return false
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionInitialized)
	return c == nil || c.Status == metav1.ConditionTrue
}

// writePhase writes the phase if it differs, once for each version of the
// object: where another writer resets it, its next version is written again. The
// merge patch holds no other key, since the rest of the status is others'.
func (r *Reporter) writePhase(ctx context.Context, key gang.Key, view gang.View) error {
	phase := phaseOf(view)
	if view.Object.Status.Phase == phase || !mayWritePhase(r.policy, view.Object) {
		return nil
	}
	version := view.Object.ResourceVersion + "/" + string(phase)
	done := false
	r.update(key, func(n *note) { done = n.patched == version })
	if done {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"phase": phase}})
	if err != nil {
		return err
	}
	if _, err := r.gangs.Resource(v1alpha1.PodGangResource).Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("write phase %s of PodGang %s: %w", phase, key, err)
	}
	r.update(key, func(n *note) { n.patched = version })
	return nil
}
