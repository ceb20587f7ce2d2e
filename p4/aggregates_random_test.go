package p4

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Values of several parts (7.2, 8.12 to 8.17): structs, headers, stacks and tuples within each other are assigned, given as lists and by
// their fields' names, compared, passed to functions and kept in registers as a model does it that has a tree of numbers for each.

// A shape is a type. Of a number it has the width, of the others their parts.
type shape struct {
	kind   shapeKind
	name   string // as the program writes it
	width  int
	signed bool
	parts  []*shape
	names  []string // of fields
}

type shapeKind int

const (
	numberShape shapeKind = iota
	boolShape
	headerShape
	structShape
	tupleShape
	stackShape
)

// A tree is a value of a shape.
type tree struct {
	n     *big.Int // of a number or a bool
	valid bool     // of a header
	parts []*tree
}

func (s *shape) zero() *tree {
	t := &tree{n: new(big.Int)}
	for _, p := range s.parts {
		t.parts = append(t.parts, p.zero())
	}
	return t
}

func (t *tree) clone() *tree {
	c := &tree{n: new(big.Int).Set(t.n), valid: t.valid}
	for _, p := range t.parts {
		c.parts = append(c.parts, p.clone())
	}
	return c
}

// equal says what == does: invalid headers are equal whatever they hold.
func (s *shape) equal(a, b *tree) bool {
	if s.kind == headerShape && (a.valid != b.valid || !a.valid) {
		return a.valid == b.valid
	}
	if s.kind == numberShape || s.kind == boolShape {
		return a.n.Cmp(b.n) == 0
	}
	for i, p := range s.parts {
		if !p.equal(a.parts[i], b.parts[i]) {
			return false
		}
	}
	return true
}

// A spot is a part of a variable.
type spot struct {
	text  string
	shape *shape
	path  []int
}

func (p spot) in(t *tree) *tree {
	for _, i := range p.path {
		t = t.parts[i]
	}
	return t
}

// spots are a variable and all of its parts.
func spots(text string, s *shape, path []int) []spot {
	out := []spot{{text, s, slices.Clone(path)}}
	for i, p := range s.parts {
		part := fmt.Sprintf("%s[%d]", text, i)
		if len(s.names) > 0 {
			part = text + "." + s.names[i]
		}
		out = append(out, spots(part, p, append(path, i))...)
	}
	return out
}

type aggregates struct {
	generator
	decls  []string
	top    *shape
	vars   [2]*tree // a and b
	spots  [2][]spot
	cells  [2]*tree // of the register
	code   []string
	shown  []string
	wanted []term
}

func (g *aggregates) number() *shape {
	if g.draw(5, "bool") == 0 {
		return &shape{kind: boolShape, name: "bool", width: 1}
	}
	s := &shape{width: rapid.SampledFrom([]int{1, 5, 8, 16, 33, 64, 65, 100}).Draw(g.t, "width"), signed: rapid.Bool().Draw(g.t, "signed")}
	s.name = typeName(s.width, s.signed)
	return s
}

// declare declares a struct or a header of some parts.
func (g *aggregates) declare(kind shapeKind, part func() *shape) *shape {
	s := &shape{kind: kind, name: fmt.Sprintf("t%d_t", len(g.decls))}
	g.decls = append(g.decls, "")
	at := len(g.decls) - 1
	var text strings.Builder
	for i := range 1 + g.draw(3, "fields") {
		p := part()
		s.parts, s.names = append(s.parts, p), append(s.names, fmt.Sprintf("m%d", i))
		fmt.Fprintf(&text, "%s m%d; ", p.name, i)
	}
	word := map[shapeKind]string{structShape: "struct", headerShape: "header"}[kind]
	// What it is made of was declared meanwhile, behind its own place.
	g.decls = append(g.decls, fmt.Sprintf("%s %s { %s}", word, s.name, text.String()))
	g.decls[at] = ""
	return s
}

func (g *aggregates) shape(depth int) *shape {
	k := g.draw(6, "shape")
	switch {
	case depth == 0 || k == 0:
		return g.number()
	case k == 1:
		return g.declare(headerShape, g.number)
	case k == 2:
		h := g.declare(headerShape, g.number)
		n := 1 + g.draw(3, "size")
		return &shape{kind: stackShape, name: fmt.Sprintf("%s[%d]", h.name, n), parts: slices.Repeat([]*shape{h}, n)}
	case k == 3:
		s := &shape{kind: tupleShape}
		var names []string
		for range 1 + g.draw(3, "elements") {
			p := g.shape(depth - 1)
			s.parts, names = append(s.parts, p), append(names, p.name)
		}
		s.name = "tuple<" + strings.Join(names, ", ") + ">"
		return s
	}
	return g.declare(structShape, func() *shape { return g.shape(depth - 1) })
}

// expression is one of a shape, with its value.
func (g *aggregates) expression(s *shape, depth int) (string, *tree) {
	if g.draw(3, "variable") == 0 || depth == 0 && len(s.parts) > 0 {
		k := g.draw(2, "which")
		var same []spot
		for _, p := range g.spots[k] {
			if p.shape == s {
				same = append(same, p)
			}
		}
		if len(same) > 0 {
			p := rapid.SampledFrom(same).Draw(g.t, "part")
			return p.text, p.in(g.vars[k]).clone()
		}
	}
	switch s.kind {
	case numberShape:
		e := g.leaf(s.width, s.signed)
		return e.text, &tree{n: e.value}
	case boolShape:
		e := g.leaf(1, false)
		return "(bool)" + e.text, &tree{n: e.value}
	}
	v := &tree{n: new(big.Int), valid: s.kind == headerShape, parts: make([]*tree, len(s.parts))}
	texts := make([]string, len(s.parts))
	for i, p := range s.parts {
		texts[i], v.parts[i] = g.expression(p, depth-1)
	}
	switch {
	case s.kind == headerShape && g.draw(5, "invalid") == 0:
		return "(" + s.name + "){#}", s.zero()
	case len(s.names) > 0 && g.draw(2, "by names") == 0:
		var fields []string
		for _, i := range rapid.Permutation(indices(len(s.parts))).Draw(g.t, "order") {
			fields = append(fields, s.names[i]+" = "+texts[i])
		}
		return "(" + s.name + "){ " + strings.Join(fields, ", ") + " }", v
	}
	return "(" + s.name + "){ " + strings.Join(texts, ", ") + " }", v
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// step does something to the variables.
func (g *aggregates) step() {
	emit := func(format string, args ...any) { g.code = append(g.code, fmt.Sprintf(format, args...)) }
	k := g.draw(2, "variable")
	to := rapid.SampledFrom(g.spots[k]).Draw(g.t, "to")
	set := func(v *tree) { *to.in(g.vars[k]) = *v }
	text, v := g.expression(to.shape, 2)
	switch g.draw(8, "step") {
	case 0, 1:
		emit("%s = %s;", to.text, text)
		set(v)
	case 2:
		emit("%s = same(%s);", to.text, text)
		set(v)
	case 3:
		emit("copy(%s, %s);", to.text, text)
		set(v)
	case 4:
		emit("swap(a, b);")
		g.vars[0], g.vars[1] = g.vars[1], g.vars[0]
	case 5:
		i := g.draw(2, "cell")
		emit("r.write(%d, %s);", i, [2]string{"a", "b"}[k])
		g.cells[i] = g.vars[k].clone()
	case 6:
		i := g.draw(2, "cell")
		emit("r.read(%s, %d);", [2]string{"a", "b"}[k], i)
		g.vars[k] = g.cells[i].clone()
	case 7:
		if to.shape.kind == headerShape {
			on := rapid.Bool().Draw(g.t, "valid")
			emit("%s.%s();", to.text, map[bool]string{true: "setValid", false: "setInvalid"}[on])
			to.in(g.vars[k]).valid = on
			return
		}
		equal := to.shape.equal(to.in(g.vars[k]), v)
		emit("bool q%d = %s == %s; q%[1]d = q%[1]d && !(%s != %[3]s);", len(g.code), to.text, text, to.text)
		g.show(fmt.Sprintf("(bit<1>)q%d", len(g.code)-1), 1, false, big.NewInt(map[bool]int64{true: 1}[equal]))
	}
}

// show has the program put a number out.
func (g *aggregates) show(text string, width int, signed bool, v *big.Int) {
	g.shown = append(g.shown, fmt.Sprintf("h.out_.o%d = %s;", len(g.wanted), text))
	g.wanted = append(g.wanted, term{text, width, signed, v})
}

// showAll puts out the numbers of a variable, of invalid headers as 0.
func (g *aggregates) showAll(text string, s *shape, v *tree, guard string) {
	visible := guard
	switch s.kind {
	case numberShape, boolShape:
		e, zero := text, fmt.Sprintf("%dw0", s.width)
		if s.signed {
			zero = fmt.Sprintf("%ds0", s.width)
		}
		if s.kind == boolShape {
			e = "(bit<1>)" + text
		}
		if guard != "" {
			e = "(" + guard + " ? " + e + " : " + zero + ")"
		}
		g.show(e, s.width, s.signed, v.n)
		return
	case headerShape:
		g.show("(bit<1>)"+text+".isValid()", 1, false, big.NewInt(map[bool]int64{true: 1}[v.valid]))
		visible = text + ".isValid()"
		if !v.valid {
			v = s.zero()
		}
	}
	for i, p := range s.parts {
		part := fmt.Sprintf("%s[%d]", text, i)
		if len(s.names) > 0 {
			part = text + "." + s.names[i]
		}
		g.showAll(part, p, v.parts[i], visible)
	}
}

func TestRandomAggregates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &aggregates{generator: generator{t: t}}
		g.top = g.declare(structShape, func() *shape { return g.shape(2) })
		for i, name := range []string{"a", "b"} {
			g.vars[i], g.cells[i] = g.top.zero(), g.top.zero()
			g.spots[i] = spots(name, g.top, nil)
		}
		for range 1 + g.draw(10, "steps") {
			g.step()
		}
		g.showAll("a", g.top, g.vars[0], "")
		g.showAll("b", g.top, g.vars[1], "")
		g.leaf(8, false) // there is one at least
		var outs []string
		for i, w := range g.wanted {
			outs = append(outs, fmt.Sprintf("%s o%d;", typeName(w.width, w.signed), i))
		}
		text := `#include <core.p4>
#include <v1model.p4>
` + strings.Join(g.decls, "\n") + `
T same<T>(in T x) { T y = x; return y; }
void copy<T>(out T x, in T y) { x = y; }
void swap<T>(inout T x, inout T y) { T z = x; x = y; y = z; }
header in_t { ` + strings.Join(g.fields, " ") + ` }
header out_t { ` + strings.Join(outs, " ") + ` }
struct headers_t { in_t in_; out_t out_; }
struct meta_t { }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) { state start { p.extract(h.in_); h.out_.setValid(); transition accept; } }
control none(inout headers_t h, inout meta_t m) { apply { } }
control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<` + g.top.name + `>(2) r;
    apply { ` + g.top.name + " a; " + g.top.name + " b;\n" + strings.Join(g.code, "\n") + "\n" + strings.Join(g.shown, "\n") + ` }
}
control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.out_); } }
V1Switch(P(), none(), ingress(), egress(), none(), D()) main;
`
		in, _ := pack(g.values)
		var v Verdict
		loadText(t, text).New().Process(in, &Intrinsic{}, &v)
		if len(v.Sent) != 1 {
			t.Fatalf("%d frames left", len(v.Sent))
		}
		_, n := pack(g.wanted)
		got := new(big.Int).SetBytes(v.Sent[0].Data)
		got.Rsh(got, uint(8*len(v.Sent[0].Data)-n))
		at := n
		for _, e := range g.wanted {
			at -= e.width
			if x := new(big.Int).And(new(big.Int).Rsh(got, uint(at)), ones(e.width)); x.Cmp(e.value) != 0 {
				t.Fatalf("%s is %#x, expected %#x, after\n%s", e.text, x, e.value, strings.Join(g.code, "\n"))
			}
		}
	})
}
