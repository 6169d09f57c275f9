// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Faults returns what is wrong with a PodGang so that it cannot be scheduled as
// written, each as a sentence for its author. The API server's schema does not
// refuse these.
func Faults(pg *v1alpha1.PodGang) []string {
	var faults []string
	groupNames := make(map[string]bool, len(pg.Spec.PodGroups))
	groupOfPod := make(map[string]string)
	for i := range pg.Spec.PodGroups {
		group := &pg.Spec.PodGroups[i]
		if groupNames[group.Name] {
			faults = append(faults, fmt.Sprintf("two groups are named %s", group.Name))
		}
		groupNames[group.Name] = true
		if group.MinReplicas < 0 {
			faults = append(faults, fmt.Sprintf("group %s has minReplicas %d, which must not be negative", group.Name, group.MinReplicas))
		}
		for _, ref := range group.PodReferences {
			if ref.Namespace != pg.Namespace {
				faults = append(faults, fmt.Sprintf("group %s lists pod %s/%s, which is not in the namespace of the gang", group.Name, ref.Namespace, ref.Name))
				continue
			}
			if other, listed := groupOfPod[ref.Name]; listed && other != group.Name {
				faults = append(faults, fmt.Sprintf("pod %s is listed in groups %s and %s", ref.Name, other, group.Name))
			}
			groupOfPod[ref.Name] = group.Name
		}
	}
	return faults
}
