// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
)

// vars are the names that an expression may use.
type vars map[string]any

// with returns a copy with one more name.
func (v vars) with(name string, x any) vars {
	c := make(vars, len(v)+1)
	for k, y := range v {
		c[k] = y
	}
	c[name] = x
	return c
}

// template is a string with ${expressions} in it.
type template struct {
	at
	source string
	parts  []part
}

// part is literal text, or an expression when prog is set.
type part struct {
	text string
	prog cel.Program
}

// celEnv has the CEL standard library, its string functions, and hex and uuid.
var celEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		ext.Strings(),
		cel.Function("hex", cel.Overload("hex_int_int", []*cel.Type{cel.IntType, cel.IntType}, cel.StringType, cel.BinaryBinding(celHex))),
		cel.Function("uuid", cel.Overload("uuid_string", []*cel.Type{cel.StringType}, cel.StringType, cel.UnaryBinding(celUUID))),
	)
})

// celHex writes a number in lower case hexadecimal, padded with zeros to a width.
func celHex(n, width ref.Val) ref.Val {
	x, ok := n.(types.Int)
	w, ok2 := width.(types.Int)
	if !ok || !ok2 {
		return types.NewErr("hex takes two whole numbers: value and width")
	}
	return types.String(fmt.Sprintf("%0*x", int(w), int64(x)))
}

// celUUID makes the same identifier, of UUID form, from the same text.
func celUUID(text ref.Val) ref.Val {
	s, ok := text.(types.String)
	if !ok {
		return types.NewErr("uuid takes a string")
	}
	b := sha256.Sum256([]byte(s))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.String(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16]))
}

// newTemplate compiles the expressions of a string. A string without any is returned as it is.
func newTemplate(v value) (any, error) {
	source := v.node.Value
	if !strings.Contains(source, "${") {
		return source, nil
	}
	t := &template{at: v.at, source: source}
	for rest := source; rest != ""; {
		before, after, found := strings.Cut(rest, "${")
		if before != "" {
			t.parts = append(t.parts, part{text: before})
		}
		if !found {
			break
		}
		end := closingBrace(after)
		if end < 0 {
			return nil, v.errorf("no closing } for the expression in %q", source)
		}
		prog, err := compile(after[:end])
		if err != nil {
			return nil, v.errorf("${%s} is not a valid expression: %v", after[:end], err)
		}
		t.parts = append(t.parts, part{text: after[:end], prog: prog})
		rest = after[end+1:]
	}
	return t, nil
}

// closingBrace finds the } that ends an expression, past braces and strings inside it.
func closingBrace(s string) int {
	depth := 0
	var quote rune
	for i, c := range s {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}':
			return i
		}
	}
	return -1
}

// compile parses without checking types: the variables are known only when a node is
// generated, and a fault then still has the place of the expression.
func compile(expression string) (cel.Program, error) {
	env, err := celEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(issues.Errors()[0].Message, "\n", " "))
	}
	return env.Program(ast)
}

// eval computes a template. One that is a single expression keeps the type of its
// result; any other becomes a string.
func (t *template) eval(scope vars) (any, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.prog == nil {
			b.WriteString(p.text)
			continue
		}
		out, _, err := p.prog.Eval(map[string]any(scope))
		if err != nil {
			return nil, t.errorf("${%s}: %v", p.text, explain(err))
		}
		x, err := native(out)
		if err != nil {
			return nil, t.errorf("${%s}: %v", p.text, err)
		}
		if len(t.parts) == 1 {
			return x, nil
		}
		switch x := x.(type) {
		case string:
			b.WriteString(x)
		case int64:
			b.WriteString(strconv.FormatInt(x, 10))
		case bool:
			b.WriteString(strconv.FormatBool(x))
		default:
			return nil, t.errorf("${%s} gives %v, which cannot stand inside a string", p.text, out.Type().TypeName())
		}
	}
	return b.String(), nil
}

// explain makes CEL's message for an unknown name readable.
func explain(err error) string {
	if name, ok := strings.CutPrefix(err.Error(), "no such attribute(s): "); ok {
		return "nothing is named " + name + " here"
	}
	return err.Error()
}

// native turns a CEL value into string, int64, bool, nil or a list of those.
func native(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Int:
		return int64(v), nil
	case types.Bool:
		return bool(v), nil
	case types.Null:
		return nil, nil
	case traits.Lister:
		var list []any
		for it := v.Iterator(); it.HasNext() == types.True; {
			x, err := native(it.Next())
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return list, nil
	default:
		return nil, fmt.Errorf("the result is of type %s; string, int, bool, null or a list is needed", v.Type().TypeName())
	}
}

func holdsTemplate(x any) bool {
	switch x := x.(type) {
	case *template:
		return true
	case []any:
		return slices.ContainsFunc(x, holdsTemplate)
	case map[string]any:
		for _, y := range x {
			if holdsTemplate(y) {
				return true
			}
		}
	}
	return false
}

// resolve computes all templates inside a decoded constant.
func resolve(x any, scope vars) (any, error) {
	switch x := x.(type) {
	case *template:
		return x.eval(scope)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			var err error
			if out[i], err = resolve(x[i], scope); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(x))
		for k := range x {
			var err error
			if out[k], err = resolve(x[k], scope); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		return x, nil
	}
}
