// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// pool is what one driver publishes for one node.
type pool struct {
	driver   string
	slices   []*resourcev1.ResourceSlice
	devices  map[string]at                            // by name
	counters map[string]map[string]resourcev1.Counter // counter set → counter
}

// nodeDevices makes the ResourceSlices of one node: one pool for each driver, named
// like the node, as node-local drivers publish them.
func (b *builder) nodeDevices(g, machine *groupDef, node string, scope vars) error {
	sets := machine.devices
	if g.devicesGiven {
		sets = g.devices
	}
	pools := map[string]*pool{}
	for _, e := range sets {
		name, ok, err := e.str(scope)
		if err != nil {
			return err
		}
		if !ok || name == "" {
			continue // switched off by an expression
		}
		set := b.sets[name]
		if set == nil {
			return e.errorf("no device set is named %q; known: %s", name, strings.Join(sortedKeys(b.sets), ", "))
		}
		for _, class := range set.classes {
			if _, ok := b.usedClasses[class]; !ok {
				b.usedClasses[class] = set.at
			}
		}
		p := pools[set.driver]
		if p == nil {
			p = &pool{driver: set.driver, devices: map[string]at{}, counters: map[string]map[string]resourcev1.Counter{}}
			pools[set.driver] = p
		}
		if err := b.addSet(p, set, node, scope); err != nil {
			return err
		}
	}
	for _, driver := range sortedKeys(pools) {
		p := pools[driver]
		for i, slice := range p.slices {
			slice.Name = sliceName(node, driver, i)
			slice.Spec.Pool.ResourceSliceCount = int64(len(p.slices))
		}
		b.shape.Slices = append(b.shape.Slices, p.slices...)
	}
	return b.taken(g, pools, node, scope)
}

// sliceName has the form that kubelet plugins get from generateName.
func sliceName(node, driver string, i int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	sum := hash64(node, driver, strconv.Itoa(i))
	suffix := make([]byte, 5)
	for j := range suffix {
		suffix[j] = letters[sum%uint64(len(letters))]
		sum /= uint64(len(letters))
	}
	return node + "-" + driver + "-" + string(suffix)
}

func hash64(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

func (b *builder) addSet(p *pool, set *setDef, node string, scope vars) error {
	for _, def := range set.slices {
		err := each(def.loops, def.with, scope, func(scope vars) error {
			slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
				Driver:   set.driver,
				NodeName: &node,
				Pool:     resourcev1.ResourcePool{Name: node, Generation: 1},
			}}
			for _, c := range def.counters {
				if err := addCounters(p, slice, c, scope); err != nil {
					return err
				}
			}
			for _, d := range def.devices {
				if err := addDevices(p, slice, d, scope); err != nil {
					return err
				}
			}
			if len(slice.Spec.Devices) == 0 && len(slice.Spec.SharedCounters) == 0 {
				return def.errorf("the slice of node %s would be empty", node)
			}
			b.order(slice, set.order, len(p.slices))
			p.slices = append(p.slices, slice)
			return checkSlice(def.at, slice)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// order arranges the devices of a slice. A random order depends on the seed, node and
// driver alone, so that a shape is the same each time.
func (b *builder) order(slice *resourcev1.ResourceSlice, order string, index int) {
	devices := slice.Spec.Devices
	switch order {
	case orderName:
		slices.SortFunc(devices, func(x, y resourcev1.Device) int { return cmp.Compare(x.Name, y.Name) })
	case orderRandom:
		var seed [32]byte
		binary.LittleEndian.PutUint64(seed[:], uint64(b.seedValue))
		binary.LittleEndian.PutUint64(seed[8:], hash64(*slice.Spec.NodeName, slice.Spec.Driver, strconv.Itoa(index)))
		r := rand.New(rand.NewChaCha8(seed))
		r.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
	}
}

func addCounters(p *pool, slice *resourcev1.ResourceSlice, def *counterSetDef, scope vars) error {
	return each(def.loops, def.with, scope, func(scope vars) error {
		name, ok, err := def.name.str(scope)
		if err != nil {
			return err
		}
		if !ok || checkLabelName(name) != nil {
			return def.errorf("a counter set needs a name of lower case letters, digits and dashes, not %q", name)
		}
		if _, ok := p.counters[name]; ok {
			return def.errorf("a second counter set named %q", name)
		}
		counters, err := makeCounters(def.counters, scope)
		if err != nil {
			return err
		}
		p.counters[name] = counters
		slice.Spec.SharedCounters = append(slice.Spec.SharedCounters, resourcev1.CounterSet{Name: name, Counters: counters})
		return nil
	})
}

func makeCounters(defs []keyed, scope vars) (map[string]resourcev1.Counter, error) {
	counters := map[string]resourcev1.Counter{}
	for _, c := range defs {
		if x, err := c.any(scope); err != nil {
			return nil, err
		} else if x == nil {
			continue // left out
		}
		q, err := c.quantity(scope)
		if err != nil {
			return nil, err
		}
		if err := checkLabelName(c.key); err != nil {
			return nil, c.errorf("%q cannot be a counter's name: %v", c.key, err)
		}
		counters[c.key] = resourcev1.Counter{Value: q}
	}
	return counters, nil
}

func addDevices(p *pool, slice *resourcev1.ResourceSlice, def *deviceDef, scope vars) error {
	return each(def.loops, def.with, scope, func(scope vars) error {
		if use, err := def.when.boolean(scope, true); err != nil || !use {
			return err
		}
		device, err := makeDevice(p, def, scope)
		if err != nil {
			return err
		}
		if first, ok := p.devices[device.Name]; ok {
			return def.name.errorf("the pool has a device %q already (from line %d); does the name use all variables of \"for\"?", device.Name, first.line)
		}
		p.devices[device.Name] = def.name.at
		slice.Spec.Devices = append(slice.Spec.Devices, *device)
		return nil
	})
}

func makeDevice(p *pool, def *deviceDef, scope vars) (*resourcev1.Device, error) {
	name, _, err := def.name.str(scope)
	if err != nil {
		return nil, err
	}
	if err := checkLabelName(name); err != nil {
		return nil, def.name.errorf("%q cannot be a device's name: %v", name, err)
	}
	device := &resourcev1.Device{Name: name}
	if device.Attributes, err = makeAttributes(def.attributes, scope); err != nil {
		return nil, err
	}
	if device.Capacity, err = makeCapacity(def.capacity, scope); err != nil {
		return nil, err
	}
	if n := len(device.Attributes) + len(device.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		return nil, def.errorf("device %s has %d attributes and capacities; the API allows %d", name, n, resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	}
	for _, c := range def.consumes {
		consumption, err := makeConsumption(p, c, scope)
		if err != nil {
			return nil, err
		}
		device.ConsumesCounters = append(device.ConsumesCounters, *consumption)
	}
	if device.Taints, err = makeDeviceTaints(def.taints, scope); err != nil {
		return nil, err
	}
	multiple, err := def.allowMultiple.boolean(scope, false)
	if err != nil {
		return nil, err
	}
	if multiple {
		device.AllowMultipleAllocations = &multiple
	}
	return device, nil
}

func makeConsumption(p *pool, def *consumeDef, scope vars) (*resourcev1.DeviceCounterConsumption, error) {
	name, _, err := def.counterSet.str(scope)
	if err != nil {
		return nil, err
	}
	set, ok := p.counters[name]
	if !ok {
		return nil, def.counterSet.errorf("no counter set %q in the pool of %s; known: %s", name, p.driver, strings.Join(sortedKeys(p.counters), ", "))
	}
	counters, err := makeCounters(def.counters, scope)
	if err != nil {
		return nil, err
	}
	for _, counter := range sortedKeys(counters) {
		if _, ok := set[counter]; !ok {
			return nil, def.errorf("counter set %s has no counter %q; it has %s", name, counter, strings.Join(sortedKeys(set), ", "))
		}
	}
	return &resourcev1.DeviceCounterConsumption{CounterSet: name, Counters: counters}, nil
}

func makeDeviceTaints(defs []*taintDef, scope vars) ([]resourcev1.DeviceTaint, error) {
	var taints []resourcev1.DeviceTaint
	for _, def := range defs {
		key, value, effect, use, err := def.fields(scope, "None", "NoSchedule", "NoExecute")
		if err != nil {
			return nil, err
		}
		if use {
			taints = append(taints, resourcev1.DeviceTaint{Key: key, Value: value, Effect: resourcev1.DeviceTaintEffect(effect)})
		}
	}
	return taints, nil
}

// taken notes which devices of the node are in use from the start.
func (b *builder) taken(g *groupDef, pools map[string]*pool, node string, scope vars) error {
	for i, def := range g.taken {
		use, err := def.when.boolean(scope, true)
		if err != nil {
			return err
		}
		if !use {
			continue
		}
		class, _, err := def.class.str(scope)
		if err != nil {
			return err
		}
		driver, _, err := def.driver.str(scope)
		if err != nil {
			return err
		}
		p := pools[driver]
		if p == nil {
			return def.errorf("node %s has no devices of driver %q", node, driver)
		}
		if _, ok := b.usedClasses[class]; !ok {
			return def.errorf("deviceClass %q is none of those of the node's devices", class)
		}
		names, err := def.devices.any(scope)
		if err != nil {
			return err
		}
		list, ok := names.([]any)
		if !ok || len(list) == 0 || len(list) > resourcev1.AllocationResultsMaxSize {
			return def.devices.errorf("expected a list of 1 to %d device names", resourcev1.AllocationResultsMaxSize)
		}
		taken := Taken{Name: node + "-taken-" + strconv.Itoa(i), Node: node, DeviceClass: class, Driver: driver}
		for _, x := range list {
			device, ok := x.(string)
			if !ok {
				return def.devices.errorf("expected device names, found %v", x)
			}
			if _, ok := p.devices[device]; !ok {
				return def.devices.errorf("node %s has no device %q of driver %s", node, device, driver)
			}
			taken.Devices = append(taken.Devices, device)
		}
		b.shape.Taken = append(b.shape.Taken, taken)
	}
	return nil
}

// checkSlice applies the API's limits on one slice.
func checkSlice(place at, slice *resourcev1.ResourceSlice) error {
	spec := slice.Spec
	if len(spec.Devices) > 0 && len(spec.SharedCounters) > 0 {
		return place.errorf("a slice holds either sharedCounters or devices: put the counters in a slice of their own")
	}
	limit, why := resourcev1.ResourceSliceMaxDevices, ""
	for i := range spec.Devices {
		if d := &spec.Devices[i]; len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 || hasList(d) {
			limit, why = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures, " when one has taints, counters or list attributes"
			break
		}
	}
	if n := len(spec.Devices); n > limit {
		return place.errorf("the slice of node %s would have %d devices; the API allows %d%s", *spec.NodeName, n, limit, why)
	}
	if n := len(spec.SharedCounters); n > resourcev1.ResourceSliceMaxCounterSets {
		return place.errorf("the slice of node %s would have %d counter sets; the API allows %d", *spec.NodeName, n, resourcev1.ResourceSliceMaxCounterSets)
	}
	for _, set := range spec.SharedCounters {
		if n := len(set.Counters); n > resourcev1.ResourceSliceMaxCountersPerCounterSet {
			return place.errorf("counter set %s has %d counters; the API allows %d", set.Name, n, resourcev1.ResourceSliceMaxCountersPerCounterSet)
		}
	}
	return nil
}

func hasList(d *resourcev1.Device) bool {
	for _, a := range d.Attributes {
		if a.IntValues != nil || a.StringValues != nil || a.BoolValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}
