// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Document is a file by name, for errors, and content.
type Document struct {
	Name    string
	Content []byte
}

// LoadOptions says where a shape file finds what it does not define itself.
type LoadOptions struct {
	// Parameters replace defaults that the file declares.
	Parameters map[string]string
	// Library is searched for deviceClasses, deviceSets and machines.
	Library []Document
	// Base returns the shape file that "extends" names; nil allows none.
	Base func(name string) (Document, error)
}

// maxExtends bounds a chain of files that extend each other.
const maxExtends = 8

// Load reads a shape file and generates its objects. All faults that it finds in one
// pass are returned together, each as an *Error.
func Load(name string, doc Document, opts LoadOptions) (*Shape, error) {
	f, err := parseWithBase(doc, opts.Base, maxExtends)
	if err != nil {
		return nil, err
	}
	for _, lib := range opts.Library {
		l, err := parseFile(lib.Name, lib.Content)
		if err != nil {
			return nil, err
		}
		f.addDefinitions(l)
	}
	scope, err := f.parameterScope(doc.Name, opts.Parameters)
	if err != nil {
		return nil, err
	}
	b := &builder{file: f, shape: &Shape{Name: name, Description: f.description}, nodes: map[string]at{}, usedClasses: map[string]at{}}
	return b.build(scope)
}

func parseWithBase(doc Document, base func(string) (Document, error), depth int) (*file, error) {
	f, err := parseFile(doc.Name, doc.Content)
	if err != nil || !f.extends.given {
		return f, err
	}
	name, _, err := f.extends.str(nil)
	if err != nil {
		return nil, err
	}
	if depth == 0 {
		return nil, f.extends.errorf("shapes extend each other more than %d deep", maxExtends)
	}
	if base == nil {
		return nil, f.extends.errorf("no shape can be extended here")
	}
	baseDoc, err := base(name)
	if err != nil {
		return nil, f.extends.errorf("%v", err)
	}
	b, err := parseWithBase(baseDoc, base, depth-1)
	if err != nil {
		return nil, err
	}
	return f.over(b), nil
}

// over lays the file over its base: own definitions and parameters win, node groups
// and overrides follow those of the base.
func (f *file) over(base *file) *file {
	f.addDefinitions(base)
	if !f.seed.given {
		f.seed = base.seed
	}
	if f.description == "" {
		f.description = base.description
	}
	parameters := slices.Clone(base.parameters)
	for _, own := range f.parameters {
		i := slices.IndexFunc(parameters, func(p keyed) bool { return p.key == own.key })
		if i < 0 {
			parameters = append(parameters, own)
		} else {
			parameters[i] = own
		}
	}
	f.parameters = parameters
	f.groups = append(slices.Clone(base.groups), f.groups...)
	f.overrides = append(slices.Clone(base.overrides), f.overrides...)
	return f
}

// addDefinitions takes over what the file does not define itself.
func (f *file) addDefinitions(from *file) {
	addMissing(f.classes, from.classes)
	addMissing(f.sets, from.sets)
	addMissing(f.machines, from.machines)
}

func addMissing[V any](into, from map[string]V) {
	for k, v := range from {
		if _, ok := into[k]; !ok {
			into[k] = v
		}
	}
}

// parameterScope is the parameters' values: the defaults, replaced by what was given.
func (f *file) parameterScope(fileName string, given map[string]string) (vars, error) {
	scope := vars{}
	for _, p := range f.parameters {
		def, err := p.any(scope)
		if err != nil {
			return nil, err
		}
		scope[p.key] = def
		text, ok := given[p.key]
		if !ok {
			continue
		}
		switch def.(type) {
		case int64:
			scope[p.key], err = strconv.ParseInt(text, 10, 64)
		case bool:
			scope[p.key], err = strconv.ParseBool(text)
		case string:
			scope[p.key] = text
		default:
			err = errors.New("only whole numbers, booleans and strings can be set")
		}
		if err != nil {
			return nil, p.errorf("cannot be set to %q: the default is %v", text, def)
		}
	}
	for _, name := range sortedKeys(given) {
		if _, ok := scope[name]; !ok {
			known := "it has none"
			if len(scope) > 0 {
				known = "it has " + strings.Join(sortedKeys(scope), ", ")
			}
			return nil, fmt.Errorf("%s: the shape has no parameter %q; %s", fileName, name, known)
		}
	}
	return scope, nil
}

// builder generates one shape.
type builder struct {
	*file
	shape       *Shape
	nodes       map[string]at // where each node name comes from
	usedClasses map[string]at // and each needed DeviceClass
	seedValue   int64
}

func (b *builder) build(scope vars) (*Shape, error) {
	seed, err := b.seed.any(scope)
	if err != nil {
		return nil, err
	}
	b.seedValue, _ = seed.(int64)
	var errs []error
	for _, g := range b.groups {
		errs = append(errs, b.group(g, scope))
	}
	for _, o := range b.overrides {
		errs = append(errs, b.override(o, scope))
	}
	errs = append(errs, b.deviceClasses())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b.shape, nil
}

// each calls do once for every combination of the loops' values, the first loop
// outermost, with the variables and then the "with" values in scope.
func each(loops, with []keyed, scope vars, do func(vars) error) error {
	if len(loops) == 0 {
		for _, w := range with {
			x, err := w.any(scope)
			if err != nil {
				return err
			}
			scope = scope.with(w.key, x)
		}
		return do(scope)
	}
	l := loops[0]
	over, err := l.any(scope)
	if err != nil {
		return err
	}
	var items []any
	switch over := over.(type) {
	case int64:
		if over < 0 || over > 100_000 {
			return l.errorf("%d is not a count between 0 and 100000", over)
		}
		for i := range over {
			items = append(items, i)
		}
	case []any:
		items = over
	default:
		return l.errorf("expected a count or a list, found %v", over)
	}
	for _, item := range items {
		if err := each(loops[1:], with, scope.with(l.key, item), do); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) group(g *groupDef, scope vars) error {
	return each(g.loops, g.with, scope, func(scope vars) error {
		if use, err := g.when.boolean(scope, true); err != nil || !use {
			return err
		}
		machine := &groupDef{}
		if name, ok, err := g.machine.str(scope); err != nil {
			return err
		} else if ok {
			if machine = b.machines[name]; machine == nil {
				return g.machine.errorf("no machine is named %q; known: %s", name, strings.Join(sortedKeys(b.machines), ", "))
			}
		}
		name, _, err := g.name.str(scope)
		if err != nil {
			return err
		}
		scope = scope.with("node", name)
		node, err := b.node(g, machine, name, scope)
		if err != nil {
			return err
		}
		if first, ok := b.nodes[name]; ok {
			return g.name.errorf("a node named %q exists already (from line %d); does the name use all variables of \"for\"?", name, first.line)
		}
		b.nodes[name] = g.name.at
		b.shape.Nodes = append(b.shape.Nodes, node)
		return b.nodeDevices(g, machine, name, scope)
	})
}

// node makes the Node as its kubelet would register it: ready, with what can be allocated.
func (b *builder) node(g, machine *groupDef, name string, scope vars) (*corev1.Node, error) {
	if err := checkName(name); err != nil {
		return nil, g.name.errorf("%q cannot be a node's name: %v", name, err)
	}
	arch := g.arch
	if !arch.given {
		arch = machine.arch
	}
	archName, ok, err := arch.str(scope)
	if err != nil {
		return nil, err
	}
	if !ok {
		archName = "amd64"
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelArchStable: archName, corev1.LabelOSStable: "linux",
		},
		Annotations: map[string]string{},
	}}
	for _, from := range []*groupDef{machine, g} {
		if err := setLabels(node.Labels, from.labels, scope); err != nil {
			return nil, err
		}
		if err := setStrings(node.Annotations, from.annotations, scope, checkKey, nil); err != nil {
			return nil, err
		}
		taints, err := makeTaints(from.taints, scope)
		if err != nil {
			return nil, err
		}
		node.Spec.Taints = append(node.Spec.Taints, taints...)
	}
	if node.Spec.Unschedulable, err = g.unschedulable.boolean(scope, false); err != nil {
		return nil, err
	}
	resources, err := makeResources(machine.allocatable, g.allocatable, scope)
	if err != nil {
		return nil, err
	}
	ip, podCIDR := b.nextAddress()
	node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDR, []string{podCIDR}
	node.Status = nodeStatus(name, archName, ip, resources)
	return node, nil
}

// nextAddress gives each node of the shape an address, and a range for its pods.
func (b *builder) nextAddress() (ip, podCIDR string) {
	n := len(b.shape.Nodes) + 1
	return fmt.Sprintf("10.%d.%d.%d", 128+n>>16, n>>8&0xff, n&0xff), fmt.Sprintf("100.%d.%d.0/24", 64+n>>8&0x3f, n&0xff)
}

func nodeStatus(name, arch, ip string, resources corev1.ResourceList) corev1.NodeStatus {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	return corev1.NodeStatus{
		Capacity:    resources,
		Allocatable: resources,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kwok plays the kubelet"),
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", ""),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", ""),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", ""),
			condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "RouteCreated", ""),
		},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}},
		NodeInfo:  corev1.NodeSystemInfo{Architecture: arch, OperatingSystem: "linux", KubeletVersion: "kwok-v0.8.0"},
	}
}

func (b *builder) override(o *overrideDef, scope vars) error {
	pattern, _, err := o.nodes.str(scope)
	if err != nil {
		return err
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return o.nodes.errorf("%q is not a regular expression: %v", pattern, err)
	}
	matched := false
	for _, node := range b.shape.Nodes {
		if !re.MatchString(node.Name) {
			continue
		}
		matched = true
		scope := scope.with("node", node.Name)
		if err := setLabels(node.Labels, o.labels, scope); err != nil {
			return err
		}
		if err := setStrings(node.Annotations, o.annotations, scope, checkKey, nil); err != nil {
			return err
		}
		taints, err := makeTaints(o.taints, scope)
		if err != nil {
			return err
		}
		node.Spec.Taints = append(node.Spec.Taints, taints...)
		if node.Spec.Unschedulable, err = o.unschedulable.boolean(scope, node.Spec.Unschedulable); err != nil {
			return err
		}
	}
	if !matched {
		return o.nodes.errorf("%q matches no node of this shape", pattern)
	}
	return nil
}

// deviceClasses makes every class that a used device set names.
func (b *builder) deviceClasses() error {
	for _, name := range sortedKeys(b.usedClasses) {
		def := b.classes[name]
		if def == nil {
			return b.usedClasses[name].errorf("no DeviceClass is named %q; known: %s", name, strings.Join(sortedKeys(b.classes), ", "))
		}
		if err := checkName(name); err != nil {
			return def.errorf("%q cannot be a DeviceClass's name: %v", name, err)
		}
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, s := range def.selectors {
			class.Spec.Selectors = append(class.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: s}})
		}
		if def.extendedName != "" {
			class.Spec.ExtendedResourceName = &def.extendedName
		}
		b.shape.DeviceClasses = append(b.shape.DeviceClasses, class)
	}
	return nil
}
