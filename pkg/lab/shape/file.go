// SPDX-License-Identifier: Apache-2.0

package shape

import "fmt"

// file is one decoded shape file; nothing in it is computed yet.
type file struct {
	description string
	extends     expr
	seed        expr
	parameters  []keyed
	classes     map[string]*classDef
	sets        map[string]*setDef
	machines    map[string]*groupDef
	groups      []*groupDef
	overrides   []*overrideDef
}

// expr is a constant or a template, with its place. The zero value is "not given".
type expr struct {
	at
	raw      any
	given    bool
	computed bool // raw holds a template somewhere
}

// keyed is one entry of a mapping with free keys. As a variable of "for" its value is
// a count, for 0 to count-1, or a list of items.
type keyed struct {
	key string
	expr
}

type classDef struct {
	at
	selectors    []string
	extendedName string
}

// groupDef is a node group, or a machine, which is a group's defaults.
type groupDef struct {
	at
	name, machine, when, arch, unschedulable expr
	loops, with                              []keyed
	labels, annotations, allocatable         []keyed
	taints                                   []*taintDef
	devices                                  []expr // names of device sets
	devicesGiven                             bool
	taken                                    []*takenDef
}

type taintDef struct {
	at
	key, value, effect, when expr
}

type takenDef struct {
	at
	class, driver, devices, when expr
}

// overrideDef changes nodes that the groups have made.
type overrideDef struct {
	at
	nodes, unschedulable expr
	labels, annotations  []keyed
	taints               []*taintDef
}

// setDef is a set of devices that a node can have.
type setDef struct {
	at
	driver  string
	order   string
	classes []string
	slices  []*sliceDef
}

// sliceDef makes one ResourceSlice, or one for each value of its loops.
type sliceDef struct {
	at
	loops, with []keyed
	counters    []*counterSetDef
	devices     []*deviceDef
}

type counterSetDef struct {
	at
	name        expr
	loops, with []keyed
	counters    []keyed
}

type deviceDef struct {
	at
	name, when, allowMultiple expr
	loops, with               []keyed
	attributes, capacity      []keyed
	consumes                  []*consumeDef
	taints                    []*taintDef
}

type consumeDef struct {
	at
	counterSet expr
	counters   []keyed
}

func parseFile(name string, content []byte) (*file, error) {
	doc, err := parseDocument(name, content)
	if err != nil {
		return nil, err
	}
	f := &file{classes: map[string]*classDef{}, sets: map[string]*setDef{}, machines: map[string]*groupDef{}}
	err = doc.fields(map[string]func(value) error{
		"description":   text(&f.description),
		"extends":       expression(&f.extends),
		"seed":          expression(&f.seed),
		"parameters":    keyedList(&f.parameters),
		"deviceClasses": named(f.classes, decodeClass),
		"deviceSets":    named(f.sets, decodeSet),
		"machines":      named(f.machines, decodeMachine),
		"nodeGroups":    listOf(&f.groups, decodeGroup),
		"overrides":     listOf(&f.overrides, decodeOverride),
	})
	return f, err
}

func expression(into *expr) func(value) error {
	return func(v value) error {
		raw, err := data(v)
		*into = expr{at: v.at, raw: raw, given: true, computed: holdsTemplate(raw)}
		return err
	}
}

func keyedList(into *[]keyed) func(value) error {
	return func(v value) error {
		entries, err := v.entries()
		if err != nil {
			return err
		}
		for _, e := range entries {
			k := keyed{key: e.key}
			if err := expression(&k.expr)(e.value); err != nil {
				return err
			}
			*into = append(*into, k)
		}
		return nil
	}
}

func listOf[T any](into *[]*T, decode func(value) (*T, error)) func(value) error {
	return func(v value) error {
		return v.list(func(item value) error {
			x, err := decode(item)
			*into = append(*into, x)
			return err
		})
	}
}

func named[T any](into map[string]*T, decode func(value) (*T, error)) func(value) error {
	return func(v value) error {
		entries, err := v.entries()
		if err != nil {
			return err
		}
		for _, e := range entries {
			if into[e.key], err = decode(e.value); err != nil {
				return err
			}
		}
		return nil
	}
}

func decodeClass(v value) (*classDef, error) {
	c := &classDef{at: v.at}
	return c, v.fields(map[string]func(value) error{
		"selectors":            texts(&c.selectors),
		"extendedResourceName": text(&c.extendedName),
	})
}

func machineFields(g *groupDef) map[string]func(value) error {
	return map[string]func(value) error{
		"arch":        expression(&g.arch),
		"labels":      keyedList(&g.labels),
		"annotations": keyedList(&g.annotations),
		"allocatable": keyedList(&g.allocatable),
		"taints":      listOf(&g.taints, decodeTaint),
		"devices": func(v value) error {
			g.devicesGiven = true
			return v.list(func(item value) error {
				var e expr
				err := expression(&e)(item)
				g.devices = append(g.devices, e)
				return err
			})
		},
	}
}

func decodeMachine(v value) (*groupDef, error) {
	g := &groupDef{at: v.at}
	return g, v.fields(machineFields(g))
}

func decodeGroup(v value) (*groupDef, error) {
	g := &groupDef{at: v.at}
	known := machineFields(g)
	known["name"] = expression(&g.name)
	known["for"] = keyedList(&g.loops)
	known["with"] = keyedList(&g.with)
	known["when"] = expression(&g.when)
	known["machine"] = expression(&g.machine)
	known["unschedulable"] = expression(&g.unschedulable)
	known["taken"] = listOf(&g.taken, decodeTaken)
	if err := v.fields(known); err != nil {
		return g, err
	}
	if !g.name.given {
		return g, v.errorf("a name is needed, such as node-${n}")
	}
	return g, nil
}

func decodeTaint(v value) (*taintDef, error) {
	t := &taintDef{at: v.at}
	return t, v.fields(map[string]func(value) error{
		"key": expression(&t.key), "value": expression(&t.value), "effect": expression(&t.effect), "when": expression(&t.when),
	})
}

func decodeTaken(v value) (*takenDef, error) {
	t := &takenDef{at: v.at}
	return t, v.fields(map[string]func(value) error{
		"deviceClass": expression(&t.class), "driver": expression(&t.driver), "devices": expression(&t.devices), "when": expression(&t.when),
	})
}

func decodeOverride(v value) (*overrideDef, error) {
	o := &overrideDef{at: v.at}
	err := v.fields(map[string]func(value) error{
		"nodes":         expression(&o.nodes),
		"unschedulable": expression(&o.unschedulable),
		"labels":        keyedList(&o.labels),
		"annotations":   keyedList(&o.annotations),
		"taints":        listOf(&o.taints, decodeTaint),
	})
	if err == nil && !o.nodes.given {
		err = v.errorf("nodes is needed: a regular expression for the names of the nodes to change")
	}
	return o, err
}

// Orders in which a set's devices are listed in its slice.
const (
	orderListed = "listed"
	orderName   = "name"
	orderRandom = "random"
)

func decodeSet(v value) (*setDef, error) {
	s := &setDef{at: v.at, order: orderListed}
	single := &sliceDef{at: v.at}
	err := v.fields(map[string]func(value) error{
		"driver":        text(&s.driver),
		"deviceClasses": texts(&s.classes),
		"order":         oneOf(&s.order, orderListed, orderName, orderRandom),
		"slices":        listOf(&s.slices, decodeSlice),
		"devices":       listOf(&single.devices, decodeDevice),
	})
	if err != nil {
		return s, err
	}
	switch {
	case s.driver == "":
		return s, v.errorf("driver is needed")
	case len(single.devices) > 0 && len(s.slices) > 0:
		return s, v.errorf("give either devices (one slice) or slices")
	case len(single.devices) > 0:
		s.slices = []*sliceDef{single}
	case len(s.slices) == 0:
		return s, v.errorf("devices or slices are needed")
	}
	return s, nil
}

func decodeSlice(v value) (*sliceDef, error) {
	s := &sliceDef{at: v.at}
	return s, v.fields(map[string]func(value) error{
		"for":            keyedList(&s.loops),
		"with":           keyedList(&s.with),
		"sharedCounters": listOf(&s.counters, decodeCounterSet),
		"devices":        listOf(&s.devices, decodeDevice),
	})
}

func decodeCounterSet(v value) (*counterSetDef, error) {
	c := &counterSetDef{at: v.at}
	return c, v.fields(map[string]func(value) error{
		"name": expression(&c.name), "for": keyedList(&c.loops), "with": keyedList(&c.with), "counters": keyedList(&c.counters),
	})
}

func decodeDevice(v value) (*deviceDef, error) {
	d := &deviceDef{at: v.at}
	err := v.fields(map[string]func(value) error{
		"name":                     expression(&d.name),
		"for":                      keyedList(&d.loops),
		"with":                     keyedList(&d.with),
		"when":                     expression(&d.when),
		"attributes":               keyedList(&d.attributes),
		"capacity":                 keyedList(&d.capacity),
		"consumesCounters":         listOf(&d.consumes, decodeConsume),
		"taints":                   listOf(&d.taints, decodeTaint),
		"allowMultipleAllocations": expression(&d.allowMultiple),
	})
	if err == nil && !d.name.given {
		err = v.errorf("a name is needed, such as gpu-${i}")
	}
	return d, err
}

func decodeConsume(v value) (*consumeDef, error) {
	c := &consumeDef{at: v.at}
	return c, v.fields(map[string]func(value) error{"counterSet": expression(&c.counterSet), "counters": keyedList(&c.counters)})
}

// any computes the value; nil when it is not given or gives null.
func (e expr) any(scope vars) (any, error) {
	if !e.given {
		return nil, nil
	}
	if !e.computed {
		return e.raw, nil
	}
	return resolve(e.raw, scope)
}

// str computes a string; whole numbers and booleans are written out. ok is false when
// the value is not given or null.
func (e expr) str(scope vars) (s string, ok bool, err error) {
	x, err := e.any(scope)
	if err != nil || x == nil {
		return "", false, err
	}
	switch x := x.(type) {
	case string:
		return x, true, nil
	case int64, bool:
		return fmt.Sprint(x), true, nil
	default:
		return "", false, e.errorf("expected a string, found %v", x)
	}
}

// boolean computes a condition; def when it is not given.
func (e expr) boolean(scope vars, def bool) (bool, error) {
	x, err := e.any(scope)
	if err != nil || x == nil {
		return def, err
	}
	b, ok := x.(bool)
	if !ok {
		return false, e.errorf("expected true or false, found %v", x)
	}
	return b, nil
}
