// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"
)

func TestOrderFrom(t *testing.T) {
	order := Order{"zone", "block", "rack", "host"}
	for name, test := range map[string]struct {
		preferred, required string
		want                []string
	}{
		"nothing preferred":                  {"", "zone", nil},
		"nothing required":                   {"rack", "", []string{"rack", "block", "zone"}},
		"up to the required level":           {"host", "block", []string{"host", "rack"}},
		"one above the other":                {"rack", "block", []string{"rack"}},
		"preferred is required":              {"rack", "rack", nil},
		"preferred is broader than required": {"zone", "rack", nil},
		"the broadest":                       {"zone", "", []string{"zone"}},
		"preferred is unknown":               {"row", "zone", []string{"row"}},
		"preferred is unknown, and required": {"row", "row", nil},
		"required is unknown":                {"rack", "row", []string{"rack", "block", "zone"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := order.From(test.preferred, test.required); !slices.Equal(got, test.want) {
				t.Errorf("From(%q, %q) = %q, want %q", test.preferred, test.required, got, test.want)
			}
		})
	}
}
