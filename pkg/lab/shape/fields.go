// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

func joined(msgs []string) error {
	if len(msgs) == 0 {
		return nil
	}
	return errors.New(strings.Join(msgs, "; "))
}

// checkName is the rule for the names of nodes and classes.
func checkName(s string) error { return joined(validation.IsDNS1123Subdomain(s)) }

// checkLabelName is the rule for the names of devices, counters and counter sets.
func checkLabelName(s string) error { return joined(validation.IsDNS1123Label(s)) }

func checkKey(s string) error { return joined(validation.IsQualifiedName(s)) }

func checkLabelValue(s string) error { return joined(validation.IsValidLabelValue(s)) }

func setLabels(into map[string]string, defs []keyed, scope vars) error {
	return setStrings(into, defs, scope, checkKey, checkLabelValue)
}

// setStrings computes labels or annotations; null takes the key out.
func setStrings(into map[string]string, defs []keyed, scope vars, checkKey, checkValue func(string) error) error {
	for _, d := range defs {
		if err := checkKey(d.key); err != nil {
			return d.errorf("%q is not a valid key: %v", d.key, err)
		}
		s, ok, err := d.str(scope)
		if err != nil {
			return err
		}
		if !ok {
			delete(into, d.key)
			continue
		}
		if checkValue != nil {
			if err := checkValue(s); err != nil {
				return d.errorf("%q is not a valid value: %v", s, err)
			}
		}
		into[d.key] = s
	}
	return nil
}

// fields computes a taint of a node or a device. use is false when its condition is.
func (t *taintDef) fields(scope vars, effects ...string) (key, value, effect string, use bool, err error) {
	if use, err = t.when.boolean(scope, true); err != nil || !use {
		return "", "", "", false, err
	}
	if key, _, err = t.key.str(scope); err != nil {
		return "", "", "", false, err
	}
	if value, _, err = t.value.str(scope); err != nil {
		return "", "", "", false, err
	}
	if effect, _, err = t.effect.str(scope); err != nil {
		return "", "", "", false, err
	}
	if err := checkKey(key); err != nil {
		return "", "", "", false, t.errorf("%q is not a valid key: %v", key, err)
	}
	if err := checkLabelValue(value); err != nil {
		return "", "", "", false, t.errorf("%q is not a valid value: %v", value, err)
	}
	if !slices.Contains(effects, effect) {
		return "", "", "", false, t.errorf("effect %q is not one of %s", effect, strings.Join(effects, ", "))
	}
	return key, value, effect, true, nil
}

func makeTaints(defs []*taintDef, scope vars) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for _, def := range defs {
		key, value, effect, use, err := def.fields(scope, "NoSchedule", "PreferNoSchedule", "NoExecute")
		if err != nil {
			return nil, err
		}
		if use {
			taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return taints, nil
}

// quantity computes a Kubernetes quantity such as 2, 500m or 16Gi.
func (e expr) quantity(scope vars) (resource.Quantity, error) {
	s, ok, err := e.str(scope)
	if err != nil {
		return resource.Quantity{}, err
	}
	if !ok {
		return resource.Quantity{}, e.errorf("a quantity is needed, such as 4 or 16Gi")
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return resource.Quantity{}, e.errorf("%q is not a quantity, such as 4 or 16Gi", s)
	}
	if q.Sign() < 0 {
		return resource.Quantity{}, e.errorf("%q is negative", s)
	}
	return q, nil
}

// defaultResources is what a node can allocate where the shape does not say.
var defaultResources = map[string]string{"cpu": "16", "memory": "64Gi", "ephemeral-storage": "200Gi", "pods": "110"}

func makeResources(machine, group []keyed, scope vars) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for name, q := range defaultResources {
		list[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	for _, k := range slices.Concat(machine, group) {
		if err := checkKey(k.key); err != nil {
			return nil, k.errorf("%q is not a resource name: %v", k.key, err)
		}
		q, err := k.quantity(scope)
		if err != nil {
			return nil, err
		}
		list[corev1.ResourceName(k.key)] = q
	}
	return list, nil
}

// checkQualifiedName is the rule for attributes and capacities: a C identifier, with or
// without a domain before it.
func checkQualifiedName(s string) error {
	domain, id, found := strings.Cut(s, "/")
	if !found {
		domain, id = "", s
	}
	if found {
		if err := checkName(domain); err != nil {
			return err
		}
		if len(domain) > resourcev1.DeviceMaxDomainLength {
			return fmt.Errorf("the domain is longer than %d characters", resourcev1.DeviceMaxDomainLength)
		}
	}
	if len(id) > resourcev1.DeviceMaxIDLength {
		return fmt.Errorf("the name is longer than %d characters", resourcev1.DeviceMaxIDLength)
	}
	return joined(validation.IsCIdentifier(id))
}

func makeAttributes(defs []keyed, scope vars) (map[resourcev1.QualifiedName]resourcev1.DeviceAttribute, error) {
	attributes := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
	for _, d := range defs {
		if err := checkQualifiedName(d.key); err != nil {
			return nil, d.errorf("%q is not an attribute name: %v", d.key, err)
		}
		x, err := d.any(scope)
		if err != nil {
			return nil, err
		}
		if x == nil {
			continue // this device lacks it
		}
		a, err := makeAttribute(d.at, x)
		if err != nil {
			return nil, err
		}
		attributes[resourcev1.QualifiedName(d.key)] = *a
	}
	return attributes, nil
}

func makeAttribute(place at, x any) (*resourcev1.DeviceAttribute, error) {
	switch x := x.(type) {
	case string:
		if len(x) > resourcev1.DeviceAttributeMaxValueLength {
			return nil, place.errorf("%q is longer than %d characters", x, resourcev1.DeviceAttributeMaxValueLength)
		}
		return &resourcev1.DeviceAttribute{StringValue: &x}, nil
	case int64:
		return &resourcev1.DeviceAttribute{IntValue: &x}, nil
	case bool:
		return &resourcev1.DeviceAttribute{BoolValue: &x}, nil
	case []any:
		return makeListAttribute(place, x)
	case map[string]any:
		version, ok := x["version"].(string)
		if !ok || len(x) != 1 {
			return nil, place.errorf("expected a value or {version: \"1.2.3\"}, found %v", x)
		}
		if _, err := semver.Parse(version); err != nil {
			return nil, place.errorf("%q is not a semantic version: %v", version, err)
		}
		return &resourcev1.DeviceAttribute{VersionValue: &version}, nil
	default:
		return nil, place.errorf("%v cannot be an attribute", x)
	}
}

// makeListAttribute makes a list of whole numbers or strings (gate DRAListTypeAttributes).
func makeListAttribute(place at, list []any) (*resourcev1.DeviceAttribute, error) {
	a := &resourcev1.DeviceAttribute{}
	for _, x := range list {
		switch x := x.(type) {
		case int64:
			a.IntValues = append(a.IntValues, x)
		case string:
			a.StringValues = append(a.StringValues, x)
		default:
			return nil, place.errorf("%v cannot be in a list attribute: whole numbers or strings can", x)
		}
	}
	if len(list) == 0 || a.IntValues != nil && a.StringValues != nil {
		return nil, place.errorf("a list attribute needs values, all of one type")
	}
	return a, nil
}

func makeCapacity(defs []keyed, scope vars) (map[resourcev1.QualifiedName]resourcev1.DeviceCapacity, error) {
	capacity := map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}
	for _, d := range defs {
		if err := checkQualifiedName(d.key); err != nil {
			return nil, d.errorf("%q is not a capacity name: %v", d.key, err)
		}
		x, err := d.any(scope)
		if err != nil {
			return nil, err
		}
		if x == nil {
			continue // this device lacks it
		}
		q, err := d.quantity(scope)
		if err != nil {
			return nil, err
		}
		capacity[resourcev1.QualifiedName(d.key)] = resourcev1.DeviceCapacity{Value: q}
	}
	return capacity, nil
}
