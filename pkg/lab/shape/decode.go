// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is a fault in a shape file.
type Error struct {
	File  string
	Line  int
	Field string // such as "nodeGroups[0].labels"
	Msg   string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Field, e.Msg)
}

// at is a value's place in its file.
type at struct {
	file  string
	line  int
	field string
}

func (a at) errorf(format string, args ...any) error {
	return &Error{File: a.file, Line: a.line, Field: a.field, Msg: fmt.Sprintf(format, args...)}
}

// value is a YAML node with its place. All decoding goes through it, so that every
// fault can be reported with file, line and field.
type value struct {
	at
	node *yaml.Node
}

// parseDocument reads the one document of a file.
func parseDocument(file string, data []byte) (value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		line, msg := splitYAMLError(err)
		return value{}, &Error{File: file, Line: line, Msg: msg}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return value{}, &Error{File: file, Line: 1, Msg: "the file is empty"}
	}
	return value{at{file: file, line: doc.Content[0].Line}, doc.Content[0]}, nil
}

// splitYAMLError takes the line out of the parser's message: "yaml: line 3: ...".
func splitYAMLError(err error) (line int, msg string) {
	msg = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		number, text, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			return n, text
		}
	}
	return 1, msg
}

func (v value) child(name string, node *yaml.Node) value {
	field := name
	if v.field != "" && !strings.HasPrefix(name, "[") {
		field = v.field + "." + name
	} else if v.field != "" {
		field = v.field + name
	}
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return value{at{v.file, node.Line, field}, node}
}

func (v value) is(kind yaml.Kind, what string) error {
	if v.node.Kind == kind {
		return nil
	}
	return v.errorf("expected %s, found %s", what, v.describe())
}

func (v value) describe() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if v.node.Tag == "!!null" {
		return "nothing"
	}
	return strconv.Quote(v.node.Value)
}

// entry is one key of a mapping with its value.
type entry struct {
	key string
	value
}

// entries are the keys of a mapping in file order.
func (v value) entries() ([]entry, error) {
	if v.node.Tag == "!!null" {
		return nil, nil
	}
	if err := v.is(yaml.MappingNode, "a mapping"); err != nil {
		return nil, err
	}
	var list []entry
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		name := key.Value
		if strings.ContainsAny(name, "./") {
			name = fmt.Sprintf("[%q]", name)
		}
		child := v.child(name, v.node.Content[i+1])
		child.line = key.Line
		if slices.ContainsFunc(list, func(e entry) bool { return e.key == key.Value }) {
			return nil, child.errorf("the key is given twice")
		}
		list = append(list, entry{key.Value, child})
	}
	return list, nil
}

// fields decodes a mapping with a fixed set of keys. Unknown keys are refused.
func (v value) fields(known map[string]func(value) error) error {
	entries, err := v.entries()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		decode, ok := known[e.key]
		if !ok {
			errs = append(errs, e.errorf("unknown field; known here: %s", strings.Join(sortedKeys(known), ", ")))
			continue
		}
		errs = append(errs, decode(e.value))
	}
	return errors.Join(errs...)
}

// list decodes each item of a list.
func (v value) list(decode func(value) error) error {
	if v.node.Tag == "!!null" {
		return nil
	}
	if err := v.is(yaml.SequenceNode, "a list"); err != nil {
		return err
	}
	var errs []error
	for i, node := range v.node.Content {
		errs = append(errs, decode(v.child(fmt.Sprintf("[%d]", i), node)))
	}
	return errors.Join(errs...)
}

// text stores a plain string, in which no expression is looked for.
func text(into *string) func(value) error {
	return func(v value) error {
		if err := v.is(yaml.ScalarNode, "a string"); err != nil {
			return err
		}
		*into = v.node.Value
		return nil
	}
}

// texts stores a list of plain strings.
func texts(into *[]string) func(value) error {
	return func(v value) error {
		return v.list(func(item value) error {
			var s string
			if err := text(&s)(item); err != nil {
				return err
			}
			*into = append(*into, s)
			return nil
		})
	}
}

// oneOf stores a string out of a fixed set.
func oneOf(into *string, allowed ...string) func(value) error {
	return func(v value) error {
		if err := text(into)(v); err != nil {
			return err
		}
		if !slices.Contains(allowed, *into) {
			return v.errorf("%q is not one of %s", *into, strings.Join(allowed, ", "))
		}
		return nil
	}
}

// data decodes constants: scalars by their YAML type, lists and mappings of such. Strings
// may hold expressions and are then kept as such.
func data(v value) (any, error) {
	switch v.node.Kind {
	case yaml.SequenceNode:
		var items []any
		err := v.list(func(item value) error {
			x, err := data(item)
			items = append(items, x)
			return err
		})
		return items, err
	case yaml.MappingNode:
		entries, err := v.entries()
		if err != nil {
			return nil, err
		}
		m := map[string]any{}
		for _, e := range entries {
			if m[e.key], err = data(e.value); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return scalar(v)
}

func scalar(v value) (any, error) {
	switch v.node.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		b, err := strconv.ParseBool(strings.ToLower(v.node.Value))
		if err != nil {
			return nil, v.errorf("%q is not true or false", v.node.Value)
		}
		return b, nil
	case "!!int":
		n, err := strconv.ParseInt(v.node.Value, 0, 64)
		if err != nil {
			return nil, v.errorf("%q is not a whole number: write it in quotes if it is a string", v.node.Value)
		}
		return n, nil
	case "!!str":
		return newTemplate(v)
	default:
		return nil, v.errorf("%q would be read as %s: write it in quotes if it is a string", v.node.Value, strings.TrimPrefix(v.node.Tag, "!!"))
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
