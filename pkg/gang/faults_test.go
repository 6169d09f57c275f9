// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		gang *v1alpha1.PodGang
		want []string
	}{
		{"none in a gang without groups", podGang("g"), nil},
		{"none in a sound gang", podGang("g", group("a", 1, "p", "q"), group("b", 0, "r")), nil},
		{"none where one group lists a pod twice", podGang("g", group("a", 1, "p", "p")), nil},
		{"none where a floor is above the references", podGang("g", group("a", 3, "p")), nil},
		{
			"two groups of one name",
			podGang("g", group("a", 1, "p"), group("a", 1, "q")),
			[]string{"two groups are named a"},
		},
		{
			"a negative floor",
			podGang("g", group("a", -2, "p")),
			[]string{"group a has minReplicas -2, which must not be negative"},
		},
		{
			"a pod in two groups",
			podGang("g", group("a", 1, "p", "q"), group("b", 1, "q")),
			[]string{"pod q is listed in groups a and b"},
		},
		{
			"a pod of another namespace",
			podGang("g", group("a", 1, "p"), func(pg *v1alpha1.PodGang) { pg.Spec.PodGroups[0].PodReferences[0].Namespace = "other" }),
			[]string{"group a lists pod other/p, which is not in the namespace of the gang"},
		},
		{
			"all of them are named, in the order of the groups",
			podGang("g", group("a", -1, "p"), group("a", 0), group("b", 0, "p")),
			[]string{
				"group a has minReplicas -1, which must not be negative",
				"two groups are named a",
				"pod p is listed in groups a and b",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Faults(tc.gang)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
