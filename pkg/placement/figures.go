// SPDX-License-Identifier: Apache-2.0

package placement

// figures is a Cluster that knows only the limits and the free resources of the
// field. What it refuses, the real one refuses too, and it costs next to nothing.
type figures struct {
	f    *field
	used *usage
}

func newFigures(f *field) *figures {
	return &figures{f: f, used: (*usage)(nil).clone()}
}

// Count is the limit of the class.
func (c *figures) Count(class, node int) int { return int(c.f.limit[class][node]) }

// Align is not known.
func (c *figures) Align(int) float64 { return 1 }

// Place takes the resources of the pod from the node.
func (c *figures) Place(pod, node int) (func(), bool) {
	class := c.f.p.Pods[pod]
	if c.used.pods(class, node) >= int(c.f.limit[class][node]) ||
		fits(c.used.left(c.f, node), c.f.p.Classes[class].Requests, 1) < 1 {
		return nil, false
	}
	c.used.add(c.f, class, node, 1)
	return func() { c.used.add(c.f, class, node, -1) }, true
}
