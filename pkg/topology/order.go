// SPDX-License-Identifier: Apache-2.0

package topology

import "slices"

// Order is the label keys of the levels of a cluster, the broadest first. It comes
// from a ClusterTopologyBinding or from the plugin's arguments.
type Order []string

// From returns the keys that a preference is tried with, the best first: the
// preferred one, then each broader one up to the required one, which holds in any
// case and is left out. An empty required key means that nothing is required.
//
// A preference for the required level or a broader one asks for nothing more, so
// the result is empty. Of a preferred key that the order does not know nothing is
// known to be broader: the result is that key alone.
func (o Order) From(preferred, required string) []string {
	if preferred == "" || preferred == required {
		return nil
	}
	at := slices.Index(o, preferred)
	if at < 0 {
		return []string{preferred}
	}
	floor := -1
	if required != "" {
		floor = slices.Index(o, required)
	}
	if at < floor {
		return nil
	}
	keys := make([]string, 0, at-floor)
	for i := at; i > floor; i-- {
		keys = append(keys, o[i])
	}
	return keys
}
