package parse

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Conditions of #if have C's operators with C's precedence, of 64 bits, and what is not evaluated does no harm.

// A cnode is an expression as a tree.
type cnode struct {
	op   string // "": a number; "?": a choice
	n    int64
	args []*cnode
}

var errDivision = errors.New("division by zero")

// precedences are C's, the greater binds the tighter.
var precedences = map[string]int{
	"?": 1, "||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, ">": 8, "<=": 8, ">=": 8, "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11,
}

const unaryPrecedence = 12

func drawNode(t *rapid.T, depth int) *cnode {
	if depth == 0 || rapid.IntRange(0, 5).Draw(t, "leaf") == 0 {
		return &cnode{n: rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1<<40)).Draw(t, "number")}
	}
	op := rapid.SampledFrom([]string{"?", "||", "&&", "|", "^", "&", "==", "!=", "<", ">", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "!", "~", "neg"}).Draw(t, "op")
	n := &cnode{op: op}
	arity := 2
	switch op {
	case "?":
		arity = 3
	case "!", "~", "neg":
		arity = 1
	}
	for range arity {
		n.args = append(n.args, drawNode(t, depth-1))
	}
	if op == "<<" || op == ">>" {
		n.args[1] = &cnode{n: rapid.Int64Range(0, 63).Draw(t, "amount")}
	}
	return n
}

// text writes the tree with no more parentheses than it needs where it stands.
func (c *cnode) text(least int) string {
	prec, s := unaryPrecedence, ""
	switch {
	case c.op == "":
		return fmt.Sprint(c.n)
	case c.op == "neg":
		s = "- " + c.args[0].text(unaryPrecedence)
	case len(c.args) == 1:
		s = c.op + c.args[0].text(unaryPrecedence)
	case c.op == "?":
		prec = precedences["?"]
		s = c.args[0].text(prec+1) + " ? " + c.args[1].text(prec) + " : " + c.args[2].text(prec)
	default:
		prec = precedences[c.op]
		s = c.args[0].text(prec) + " " + c.op + " " + c.args[1].text(prec+1)
	}
	if prec < least {
		return "(" + s + ")"
	}
	return s
}

func bool64(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// value evaluates the tree, what && and || and ? leave out left out.
func (c *cnode) value() (int64, error) {
	if c.op == "" {
		return c.n, nil
	}
	x, err := c.args[0].value()
	if err != nil {
		return 0, err
	}
	switch {
	case c.op == "&&" && x == 0:
		return 0, nil
	case c.op == "||" && x != 0:
		return 1, nil
	case c.op == "?" && x != 0:
		return c.args[1].value()
	case c.op == "?":
		return c.args[2].value()
	case c.op == "!":
		return bool64(x == 0), nil
	case c.op == "~":
		return -x - 1, nil
	case c.op == "neg":
		return -x, nil
	}
	y, err := c.args[1].value()
	if err != nil {
		return 0, err
	}
	if (c.op == "/" || c.op == "%") && y == 0 {
		return 0, errDivision
	}
	switch c.op {
	case "&&", "||":
		return bool64(y != 0), nil
	case "|":
		return x | y, nil
	case "^":
		return x ^ y, nil
	case "&":
		return x & y, nil
	case "==":
		return bool64(x == y), nil
	case "!=":
		return bool64(x != y), nil
	case "<":
		return bool64(x < y), nil
	case ">":
		return bool64(x > y), nil
	case "<=":
		return bool64(x <= y), nil
	case ">=":
		return bool64(x >= y), nil
	case "<<":
		return x << y, nil
	case ">>":
		return x >> y, nil
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "/":
		return x / y, nil
	}
	return x % y, nil
}

func TestRandomConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawNode(t, 4)
		text := c.text(0)
		want, err := c.value()
		p, got := Program("t.p4", []byte("#if "+text+"\nconst int yes = 1;\n#else\nconst int no = 1;\n#endif\n"), Options{})
		if err != nil {
			if got == nil || !strings.Contains(got.Error(), "division by zero in the condition") {
				t.Fatalf("%s: error is %v, expected a division by zero", text, got)
			}
			return
		}
		if got != nil {
			t.Fatalf("%s: %v", text, got)
		}
		if name := p.Decls[0].DeclName(); len(p.Decls) != 1 || (name == "yes") != (want != 0) {
			t.Fatalf("%s, which is %d, chooses %s", text, want, name)
		}
		if want < 0 {
			return
		}
		// The value itself, not only whether it is 0.
		if p, err := Program("t.p4", []byte(fmt.Sprintf("#if (%s) == %d\nconst int yes = 1;\n#endif\n", text, want)), Options{}); err != nil || len(p.Decls) != 1 {
			t.Fatalf("%s is not %d, as expected: %v", text, want, err)
		}
	})
}

// Lines of nested conditions, includes and macros choose what a model of them chooses.
func TestRandomDirectives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		defined := map[string]string{}
		var want []string
		n := 0
		var block func(depth int, live bool)
		block = func(depth int, live bool) {
			for range rapid.IntRange(0, 4).Draw(t, "lines") {
				name := rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "name")
				switch k := rapid.IntRange(0, 5).Draw(t, "line"); {
				case k == 0:
					v := fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "value"))
					fmt.Fprintf(&text, "#define %s %s\n", name, v)
					if live {
						defined[name] = v
					}
				case k == 1:
					fmt.Fprintf(&text, "#undef %s\n", name)
					if live {
						delete(defined, name)
					}
				case k <= 3 || depth == 0:
					n++
					fmt.Fprintf(&text, "const int x%d = 0;\n", n)
					if live {
						want = append(want, fmt.Sprintf("x%d", n))
					}
				default:
					_, is := defined[name]
					value := defined[name]
					var holds bool
					switch rapid.IntRange(0, 3).Draw(t, "condition") {
					case 0:
						fmt.Fprintf(&text, "#ifdef %s\n", name)
						holds = is
					case 1:
						fmt.Fprintf(&text, "#ifndef %s\n", name)
						holds = !is
					case 2:
						fmt.Fprintf(&text, "# if %s > 1\n", name)
						holds = is && value > "1"
					case 3:
						fmt.Fprintf(&text, "#if !defined(%s) || %[1]s == 0\n", name)
						holds = !is || value == "0"
					}
					done := holds
					block(depth-1, live && holds)
					for range rapid.IntRange(0, 2).Draw(t, "elifs") {
						// What #elif asks is what is defined by then.
						other := rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "other")
						_, is := defined[other]
						fmt.Fprintf(&text, "#elif defined %s\n", other)
						block(depth-1, live && !done && is)
						done = done || is
					}
					if rapid.Bool().Draw(t, "else") {
						text.WriteString("#else\n")
						block(depth-1, live && !done)
					}
					text.WriteString("#endif // of " + name + "\n")
				}
			}
		}
		block(3, true)
		p, err := Program("t.p4", []byte(text.String()), Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		var got []string
		for _, d := range p.Decls {
			got = append(got, d.DeclName())
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("%q are declared, expected %q, by\n%s", got, want, text.String())
		}
	})
}
