// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/podgang/podgang-scheduler/plugins/gangresources"

	"github.com/podgang/podgang-scheduler/pkg/devices"
)

// column is one resource that the search counts.
type column struct {
	// resource is a resource of nodes; empty for devices.
	resource v1.ResourceName
	want     gangresources.Want
	// tally counts the devices; those that stand for the resource, if there are any.
	tally *gangresources.Tally
}

// equal reports whether both are the same resource.
func (c column) equal(other column) bool {
	return c.resource == other.resource && c.want.Class == other.want.Class &&
		devices.SelectorKey(c.want.Selectors) == devices.SelectorKey(other.want.Selectors)
}

// unlimited is the amount of a resource that only the filters know about.
const unlimited = int64(1) << 60

// room is what nodes have and what classes ask for, resource by resource.
type room struct {
	columns []column
}

// add makes sure that there is a column for everything that a class asks for.
func (r *room) add(d *demand) {
	for name := range d.requests {
		r.columnOf(column{resource: name})
	}
	r.columnOf(column{resource: v1.ResourcePods})
	for i := range d.devices {
		r.columnOf(column{want: d.devices[i].want})
	}
}

// addList makes sure that there is a column for each resource of a list.
func (r *room) addList(list v1.ResourceList) {
	for name := range list {
		r.columnOf(column{resource: name})
	}
}

// daemon returns the amounts that a daemon pod with these requests takes.
func (r *room) daemon(requests v1.ResourceList) []int64 {
	return r.requests(&demand{requests: requests})
}

// addAmounts adds b to a.
func addAmounts(a, b []int64) {
	for i, amount := range b {
		a[i] += amount
	}
}

// columnOf returns the index of a column, a new one if there is none like it.
func (r *room) columnOf(c column) int {
	if at := slices.IndexFunc(r.columns, c.equal); at >= 0 {
		return at
	}
	r.columns = append(r.columns, c)
	return len(r.columns) - 1
}

// settle orders the columns, so that nothing depends on the order of a map.
func (r *room) settle() {
	slices.SortFunc(r.columns, compareColumns)
}

func compareColumns(a, b column) int {
	return cmp.Or(
		cmp.Compare(a.resource, b.resource),
		cmp.Compare(a.want.Class, b.want.Class),
		cmp.Compare(devices.SelectorKey(a.want.Selectors), devices.SelectorKey(b.want.Selectors)),
	)
}

// requests returns the amounts that one pod asks for, by column.
func (r *room) requests(d *demand) []int64 {
	amounts := make([]int64, len(r.columns))
	for name, quantity := range d.requests {
		if name == v1.ResourceCPU {
			amounts[r.columnOf(column{resource: name})] += quantity.MilliValue()
		} else {
			amounts[r.columnOf(column{resource: name})] += quantity.Value()
		}
	}
	amounts[r.columnOf(column{resource: v1.ResourcePods})]++
	for i := range d.devices {
		amounts[r.columnOf(column{want: d.devices[i].want})] += d.devices[i].count
	}
	return amounts
}

// count has a session count the devices of the columns.
func (r *room) count(session *gangresources.Session) {
	for i := range r.columns {
		c := &r.columns[i]
		want := c.want
		if c.resource != "" {
			want.Class = session.ClassOfResource(c.resource)
		}
		if c.resource == "" || want.Class != "" {
			c.tally = session.Tally(want)
		}
	}
}

// stock works out what a node has left, and what it would have if it were empty, by
// column. Nominated is what the pods ask for that are on their way to it.
func (r *room) stock(node fwk.NodeInfo, nominated []v1.ResourceList, free, total []int64) {
	for i, c := range r.columns {
		if c.resource == "" {
			total[i], free[i] = c.tally.Supply(node.Node().Name)
			continue
		}
		total[i] = amountOf(node.GetAllocatable(), c.resource)
		used := amountOf(node.GetRequested(), c.resource)
		switch {
		case c.resource == v1.ResourcePods:
			total[i] = int64(node.GetAllocatable().GetAllowedPodNumber())
			used = int64(len(node.GetPods()))
		case total[i] == 0:
			if _, known := node.GetAllocatable().GetScalarResources()[c.resource]; !known && isScalar(c.resource) {
				// Devices stand for it, or nobody counts it.
				total[i], free[i] = c.extended(node.Node().Name)
				continue
			}
		}
		for _, requests := range nominated {
			used += requestOf(requests, c.resource)
		}
		free[i] = max(0, total[i]-used)
	}
}

// extended returns how much there is of an extended resource that the node itself
// does not have.
func (c *column) extended(node string) (total, free int64) {
	if c.tally == nil {
		return unlimited, unlimited
	}
	return c.tally.Supply(node)
}

func isScalar(name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods:
		return false
	}
	return true
}

func amountOf(r fwk.Resource, name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return r.GetMilliCPU()
	case v1.ResourceMemory:
		return r.GetMemory()
	case v1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	}
	return r.GetScalarResources()[name]
}

// requestsOf returns what a pod asks for, the place of one pod among it.
func requestsOf(pod *v1.Pod) v1.ResourceList {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	requests[v1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}

// requestOf returns the amount of a resource in what a pod asks for.
func requestOf(requests v1.ResourceList, name v1.ResourceName) int64 {
	quantity := requests[name]
	if name == v1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// shortfall is what a node has too little of for one pod: the column, and what there is.
type shortfall struct {
	column      int
	free, total int64
}

// short returns the first column of which a node has too little for one pod; none is -1.
func (r *room) short(requests, free, total []int64) shortfall {
	for i := range r.columns {
		if requests[i] > 0 && requests[i] > free[i] {
			return shortfall{column: i, free: free[i], total: total[i]}
		}
	}
	return shortfall{column: -1}
}

// text says what is short, in the words of the filters. exists tells whether there is a
// DeviceClass of a name.
func (r *room) text(s shortfall, exists func(class string) bool) string {
	switch c := r.columns[s.column]; {
	case c.resource == v1.ResourcePods:
		return "Too many pods"
	case c.resource != "":
		return "Insufficient " + string(c.resource)
	case !exists(c.want.Class):
		return fmt.Sprintf("device class %s does not exist", c.want.Class)
	case s.total == 0:
		return "no " + c.want.Class
	default:
		return fmt.Sprintf("cannot allocate all claims, %d of %d %s free", s.free, s.total, c.want.Class)
	}
}
