package p4

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

// loadText loads a program that is given as text.
func loadText(t interface {
	Helper()
	Fatal(...any)
}, text string) *Program {
	t.Helper()
	p, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(text)}}, "p.p4", Options{})
	if err != nil {
		t.Fatal(err, "\n", text)
	}
	return p
}

// A term is a random expression and its value by math/big, as the specification has the operators (section 8).
type term struct {
	text   string
	width  int
	signed bool
	value  *big.Int // 0 to 2^width-1
}

func ones(width int) *big.Int {
	return new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(width)), big.NewInt(1))
}

func (e term) number() *big.Int {
	if e.signed && e.value.Bit(e.width-1) != 0 {
		return new(big.Int).Sub(e.value, new(big.Int).Lsh(big.NewInt(1), uint(e.width)))
	}
	return e.value
}

func typeName(width int, signed bool) string {
	if signed {
		return fmt.Sprintf("int<%d>", width)
	}
	return fmt.Sprintf("bit<%d>", width)
}

type generator struct {
	t      *rapid.T
	fields []string // declarations of the header's fields
	values []term
	fuel   int
}

func (g *generator) draw(n int, what string) int { return rapid.IntRange(0, n-1).Draw(g.t, what) }

// leaf is a field of the header with a random value.
func (g *generator) leaf(width int, signed bool) term {
	v := new(big.Int)
	for i := 0; i < width; i += 64 {
		var w uint64
		switch g.draw(3, "kind") {
		case 0:
			w = ^uint64(0)
		case 1:
			w = rapid.Uint64().Draw(g.t, "word")
		}
		v.Or(v, new(big.Int).Lsh(new(big.Int).SetUint64(w), uint(i)))
	}
	v.And(v, ones(width))
	name := fmt.Sprintf("f%d", len(g.fields))
	g.fields = append(g.fields, typeName(width, signed)+" "+name+";")
	e := term{"h.in_." + name, width, signed, v}
	g.values = append(g.values, e)
	return e
}

func (g *generator) wrap(text string, width int, signed bool, v *big.Int) term {
	return term{text, width, signed, new(big.Int).And(v, ones(width))}
}

func (g *generator) expr(width int, signed bool) term {
	if g.fuel--; g.fuel < 0 {
		return g.leaf(width, signed)
	}
	both := func() (term, term) { return g.expr(width, signed), g.expr(width, signed) }
	clamp := func(v *big.Int) *big.Int {
		lo, hi := new(big.Int), ones(width)
		if signed {
			hi = ones(width - 1)
			lo.Sub(lo, hi).Sub(lo, big.NewInt(1))
		}
		if v.Cmp(lo) < 0 {
			return lo
		}
		if v.Cmp(hi) > 0 {
			return hi
		}
		return v
	}
	z := new(big.Int)
	switch g.draw(19, "op") {
	case 0:
		a, b := both()
		return g.wrap("("+a.text+" + "+b.text+")", width, signed, z.Add(a.value, b.value))
	case 1:
		a, b := both()
		return g.wrap("("+a.text+" - "+b.text+")", width, signed, z.Sub(a.value, b.value))
	case 2:
		a, b := both()
		return g.wrap("("+a.text+" * "+b.text+")", width, signed, z.Mul(a.value, b.value))
	case 3:
		a, b := both()
		return g.wrap("("+a.text+" |+| "+b.text+")", width, signed, clamp(z.Add(a.number(), b.number())))
	case 4:
		a, b := both()
		return g.wrap("("+a.text+" |-| "+b.text+")", width, signed, clamp(z.Sub(a.number(), b.number())))
	case 5:
		a, b := both()
		return g.wrap("("+a.text+" & "+b.text+")", width, signed, z.And(a.value, b.value))
	case 6:
		a, b := both()
		return g.wrap("("+a.text+" | "+b.text+")", width, signed, z.Or(a.value, b.value))
	case 7:
		a, b := both()
		return g.wrap("("+a.text+" ^ "+b.text+")", width, signed, z.Xor(a.value, b.value))
	case 8:
		a := g.expr(width, signed)
		return g.wrap("(~"+a.text+")", width, signed, z.Not(a.value))
	case 9:
		a := g.expr(width, signed)
		return g.wrap("(-"+a.text+")", width, signed, z.Neg(a.value))
	case 10, 11: // shifts
		a, n := g.expr(width, signed), g.leaf(8, false)
		k, text := n.value.Uint64(), n.text
		if g.draw(2, "constant shift") == 0 {
			k = uint64(g.draw(width+10, "shift"))
			text = fmt.Sprint(k)
		}
		if g.draw(2, "left") == 0 {
			return g.wrap("("+a.text+" << "+text+")", width, signed, z.Lsh(a.value, uint(k)))
		}
		return g.wrap("("+a.text+" >> "+text+")", width, signed, z.Rsh(a.number(), uint(k)))
	case 12: // slice
		if signed {
			return g.leaf(width, signed)
		}
		more, low := g.draw(80, "more"), 0
		a := g.expr(width+more, false)
		if more > 0 {
			low = g.draw(more, "low")
		}
		return g.wrap(fmt.Sprintf("(%s)[%d:%d]", a.text, low+width-1, low), width, false, z.Rsh(a.value, uint(low)))
	case 13: // concatenation
		if width < 2 {
			return g.leaf(width, signed)
		}
		w := 1 + g.draw(width-1, "left width")
		a, b := g.expr(w, signed), g.expr(width-w, rapid.Bool().Draw(g.t, "signed right"))
		return g.wrap("("+a.text+" ++ "+b.text+")", width, signed, z.Or(z.Lsh(a.value, uint(width-w)), b.value))
	case 14: // a cast of another width
		a := g.expr(1+g.draw(140, "from"), signed)
		return g.wrap("(("+typeName(width, signed)+")"+a.text+")", width, signed, z.Set(a.number()))
	case 15: // and of the other sign
		a := g.expr(width, !signed)
		return g.wrap("(("+typeName(width, signed)+")"+a.text+")", width, signed, z.Set(a.value))
	case 16: // a choice
		c, yes := g.condition()
		a, b := both()
		if yes {
			z.Set(a.value)
		} else {
			z.Set(b.value)
		}
		return g.wrap("("+c+" ? "+a.text+" : "+b.text+")", width, signed, z)
	case 17: // a literal
		a := g.leaf(width, signed)
		if signed {
			return a
		}
		return term{fmt.Sprintf("%dw%d", width, a.value), width, signed, a.value}
	}
	return g.leaf(width, signed)
}

func (g *generator) condition() (string, bool) {
	w, s := 1+g.draw(130, "width"), rapid.Bool().Draw(g.t, "signed")
	a, b := g.expr(w, s), g.expr(w, s)
	c := a.number().Cmp(b.number())
	i := g.draw(6, "comparison")
	return "(" + a.text + [...]string{" == ", " != ", " < ", " <= ", " > ", " >= "}[i] + b.text + ")",
		[...]bool{c == 0, c != 0, c < 0, c <= 0, c > 0, c >= 0}[i]
}

// Every expression has the value that math/big gives it, whatever its widths.
func TestExpressions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t: t}
		var assigns, outs []string
		var want []term
		for i := range 6 {
			g.fuel = 6
			width := rapid.SampledFrom([]int{1, 2, 7, 8, 9, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129}).Draw(t, "width")
			signed := rapid.Bool().Draw(t, "is signed")
			e := g.expr(width, signed)
			name := fmt.Sprintf("o%d", i)
			outs = append(outs, typeName(width, signed)+" "+name+";")
			assigns = append(assigns, "h.out_."+name+" = "+e.text+";")
			want = append(want, e)
			if rapid.Bool().Draw(t, "compound") {
				// Again, through a compound assignment of an addition.
				assigns = append(assigns, "h.out_."+name+" += "+e.text+";", "h.out_."+name+" -= "+e.text+";")
			}
		}
		text := `#include <core.p4>
#include <v1model.p4>
header in_t { ` + strings.Join(g.fields, " ") + ` }
header out_t { ` + strings.Join(outs, " ") + ` }
struct headers_t { in_t in_; out_t out_; }
struct meta_t { }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.in_); h.out_.setValid(); transition accept; }
}
control none(inout headers_t h, inout meta_t m) { apply { } }
control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { ` + strings.Join(assigns, "\n") + ` }
}
control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.out_); } }
V1Switch(P(), none(), ingress(), egress(), none(), D()) main;
`
		in, bits := pack(g.values)
		pl := loadText(t, text).New()
		var v Verdict
		pl.Process(in, &Intrinsic{}, &v)
		if len(v.Sent) != 1 {
			t.Fatalf("%d frames left", len(v.Sent))
		}
		out, n := pack(want)
		// The input's last byte may have bits that no field has: they follow the output.
		got := new(big.Int).SetBytes(v.Sent[0].Data)
		total := 8 * len(v.Sent[0].Data)
		if total < n {
			t.Fatalf("%d bits left, want %d: %d came", total, n, bits)
		}
		got.Rsh(got, uint(total-n))
		wanted := new(big.Int).SetBytes(out)
		wanted.Rsh(wanted, uint(8*len(out)-n))
		if got.Cmp(wanted) != 0 {
			at := n
			for _, e := range want {
				at -= e.width
				x := new(big.Int).And(new(big.Int).Rsh(got, uint(at)), ones(e.width))
				if x.Cmp(e.value) != 0 {
					t.Fatalf("%s\nis %#x, want %#x\nvalues %v", e.text, x, e.value, g.values)
				}
			}
		}
	})
}

// pack puts values one after another, as in a header.
func pack(es []term) ([]byte, int) {
	v, n := new(big.Int), 0
	for _, e := range es {
		v.Lsh(v, uint(e.width)).Or(v, e.value)
		n += e.width
	}
	b := make([]byte, (n+7)/8)
	v.Lsh(v, uint(8*len(b)-n))
	v.FillBytes(b)
	return b, n
}
