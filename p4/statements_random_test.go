package p4

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Random statements do what a second interpreter says, which is Go closures over five bytes: how arguments are copied in and out
// (specification, 6.8), the order of evaluation (8.1), what an exit leaves undone (12.5), and loops and switches (12.7, 12.8).

// randomVars is the number of variables: three fields of a header and two elements of a stack. A register of two cells follows.
const randomVars = 5

type memory [randomVars + 2]byte

// left is the panic with which an exit ends an expression.
type left struct{}

type flow int

const (
	onward flow = iota
	broken
	continued
	returned
)

type (
	byteExpr struct {
		text string
		eval func(*memory) byte
	}
	boolExpr struct {
		text string
		eval func(*memory) bool
	}
	// A target is an l-value: at evaluates what it depends on and gives how it is read and written from then on.
	target struct {
		text string
		at   func(*memory) slot
	}
	statement struct {
		text string
		run  func(*memory) flow
	}
)

// A slot is a variable, or some of its bits.
type slot struct {
	i       int
	lo, len uint
}

func (s slot) mask() byte { return byte(1<<s.len - 1) }

func (s slot) get(m *memory) byte { return m[s.i] >> s.lo & s.mask() }

func (s slot) set(m *memory, v byte) {
	m[s.i] = m[s.i]&^(s.mask()<<s.lo) | v&s.mask()<<s.lo
}

type programmer struct {
	t     *rapid.T
	fuel  int
	loops int
	names int
}

func (p *programmer) pick(n int) int { return rapid.IntRange(0, n-1).Draw(p.t, "pick") }

func (p *programmer) variable() (string, slot) {
	i := p.pick(randomVars)
	if i < 3 {
		return "hdr.h." + string(rune('a'+i)), slot{i, 0, 8}
	}
	return fmt.Sprintf("hdr.s[%d].v", i-3), slot{i, 0, 8}
}

func (p *programmer) target() target {
	switch p.pick(4) {
	case 0:
		x := p.number()
		return target{"hdr.s[" + x.text + " & 1].v", func(m *memory) slot { return slot{3 + int(x.eval(m)&1), 0, 8} }}
	default:
		name, s := p.variable()
		return target{name, func(*memory) slot { return s }}
	}
}

func (p *programmer) number() byteExpr {
	if p.fuel--; p.fuel < 0 {
		return p.leaf()
	}
	binary := func(op string, f func(a, b byte) byte) byteExpr {
		x, y := p.number(), p.number()
		return byteExpr{"(" + x.text + " " + op + " " + y.text + ")", func(m *memory) byte { a := x.eval(m); return f(a, y.eval(m)) }}
	}
	switch p.pick(9) {
	case 0:
		return binary("+", func(a, b byte) byte { return a + b })
	case 1:
		return binary("-", func(a, b byte) byte { return a - b })
	case 2:
		return binary("^", func(a, b byte) byte { return a ^ b })
	case 3:
		return binary("|+|", func(a, b byte) byte { return byte(min(int(a)+int(b), 255)) })
	case 4:
		c, x, y := p.condition(), p.number(), p.number()
		return byteExpr{"(" + c.text + " ? " + x.text + " : " + y.text + ")", func(m *memory) byte {
			if c.eval(m) {
				return x.eval(m)
			}
			return y.eval(m)
		}}
	case 5: // bit<8> bump(inout bit<8> x, in bit<8> y) { x = x + y; return x ^ 0x55; }
		to, y := p.target(), p.number()
		return byteExpr{"bump(" + to.text + ", " + y.text + ")", func(m *memory) byte {
			s := to.at(m)
			x := s.get(m)
			x += y.eval(m)
			s.set(m, x)
			return x ^ 0x55
		}}
	case 6: // the same by name, in the other order
		y, to := p.number(), p.target()
		return byteExpr{"bump(y = " + y.text + ", x = " + to.text + ")", func(m *memory) byte {
			b := y.eval(m)
			s := to.at(m)
			x := s.get(m) + b
			s.set(m, x)
			return x ^ 0x55
		}}
	}
	return p.leaf()
}

func (p *programmer) leaf() byteExpr {
	if p.pick(3) == 0 {
		k := byte(p.pick(4))
		return byteExpr{fmt.Sprintf("8w%d", k), func(*memory) byte { return k }}
	}
	name, s := p.variable()
	return byteExpr{name, s.get}
}

func (p *programmer) condition() boolExpr {
	if p.fuel--; p.fuel < 0 {
		x := p.leaf()
		return boolExpr{"(" + x.text + " > 2)", func(m *memory) bool { return x.eval(m) > 2 }}
	}
	switch p.pick(6) {
	case 0:
		x, y := p.condition(), p.condition()
		return boolExpr{"(" + x.text + " && " + y.text + ")", func(m *memory) bool { return x.eval(m) && y.eval(m) }}
	case 1:
		x, y := p.condition(), p.condition()
		return boolExpr{"(" + x.text + " || " + y.text + ")", func(m *memory) bool { return x.eval(m) || y.eval(m) }}
	case 2: // the table's key is the first field: 1 leaves, 2 hits
		return boolExpr{"t.apply().hit", func(m *memory) bool {
			if m[0] == 1 {
				panic(left{})
			}
			return m[0] == 2
		}}
	case 3:
		x, y := p.number(), p.number()
		return boolExpr{"(" + x.text + " == " + y.text + ")", func(m *memory) bool { a := x.eval(m); return a == y.eval(m) }}
	default:
		x, y := p.number(), p.number()
		return boolExpr{"(" + x.text + " < " + y.text + ")", func(m *memory) bool { a := x.eval(m); return a < y.eval(m) }}
	}
}

func (p *programmer) block(n int) statement {
	var parts []statement
	var text strings.Builder
	for range 1 + p.pick(n) {
		s := p.statement()
		parts = append(parts, s)
		text.WriteString(s.text + " ")
	}
	return statement{"{ " + text.String() + "}", func(m *memory) flow {
		for _, s := range parts {
			if f := s.run(m); f != onward {
				return f
			}
		}
		return onward
	}}
}

func (p *programmer) statement() statement {
	if p.fuel--; p.fuel < 0 {
		return p.assignment()
	}
	switch p.pick(12) {
	case 0:
		c, a, b := p.condition(), p.block(3), p.block(3)
		return statement{"if (" + c.text + ") " + a.text + " else " + b.text, func(m *memory) flow {
			if c.eval(m) {
				return a.run(m)
			}
			return b.run(m)
		}}
	case 1:
		return p.loop()
	case 2:
		x, a, b, c := p.number(), p.block(2), p.block(2), p.block(2)
		return statement{"switch (" + x.text + ") { 0: " + a.text + " 1: 2: " + b.text + " default: " + c.text + " }", func(m *memory) flow {
			switch x.eval(m) {
			case 0:
				return a.run(m)
			case 1, 2:
				return b.run(m)
			}
			return c.run(m)
		}}
	case 3: // void move(in bit<8> x, inout bit<8> y, out bit<8> z) { y = y + x; z = y ^ 3; }
		x, y, z := p.number(), p.target(), p.target()
		return statement{"move(" + x.text + ", " + y.text + ", " + z.text + ");", func(m *memory) flow {
			a := x.eval(m)
			ys := y.at(m)
			b := ys.get(m)
			zs := z.at(m)
			b += a
			ys.set(m, b)
			zs.set(m, b^3)
			return onward
		}}
	case 4: // action quit(inout bit<8> x) { x = x + 7; if (x > 200) { exit; } x = x + 1; }
		x := p.target()
		return statement{"quit(" + x.text + ");", func(m *memory) flow {
			s := x.at(m)
			v := s.get(m) + 7
			if v > 200 {
				s.set(m, v)
				panic(left{})
			}
			s.set(m, v+1)
			return onward
		}}
	case 5:
		if p.loops > 0 {
			k := p.pick(2)
			return statement{[]string{"break;", "continue;"}[k], func(*memory) flow { return broken + flow(k) }}
		}
		return statement{"return;", func(*memory) flow { return returned }}
	case 7:
		i, x := p.number(), p.number()
		return statement{"r.write((bit<32>)(" + i.text + " & 1), " + x.text + ");", func(m *memory) flow {
			k := randomVars + int(i.eval(m)&1)
			v := x.eval(m)
			m[k] = v
			return onward
		}}
	case 8:
		to, i := p.target(), p.number()
		return statement{"r.read(" + to.text + ", (bit<32>)(" + i.text + " & 1));", func(m *memory) flow {
			s := to.at(m)
			s.set(m, m[randomVars+int(i.eval(m)&1)])
			return onward
		}}
	case 6:
		to, x := p.target(), p.number()
		k := p.pick(4)
		f := []func(a, b byte) byte{func(a, b byte) byte { return a + b }, func(a, b byte) byte { return a - b }, func(a, b byte) byte { return a ^ b }, func(a, b byte) byte { return a | b }}[k]
		return statement{to.text + []string{" += ", " -= ", " ^= ", " |= "}[k] + x.text + ";", func(m *memory) flow {
			s := to.at(m)
			a := s.get(m)
			b := x.eval(m)
			s.set(m, f(a, b))
			return onward
		}}
	}
	return p.assignment()
}

func (p *programmer) assignment() statement {
	to, x := p.target(), p.number()
	text, lo, n := to.text, uint(0), uint(8)
	if p.pick(3) == 0 { // some bits
		lo = uint(p.pick(7))
		n = 1 + uint(p.pick(int(8-lo)))
		text = fmt.Sprintf("%s[%d:%d] = (%s)[%d:0];", text, lo+n-1, lo, x.text, n-1)
	} else {
		text += " = " + x.text + ";"
	}
	return statement{text, func(m *memory) flow {
		s := to.at(m)
		s.lo, s.len = lo, n
		s.set(m, x.eval(m))
		return onward
	}}
}

func (p *programmer) loop() statement {
	p.names++
	i := fmt.Sprintf("i%d", p.names)
	hi := p.number()
	p.loops++
	body := p.block(3)
	p.loops--
	if p.pick(2) == 0 {
		lo := byte(p.pick(3))
		return statement{fmt.Sprintf("for (bit<8> %s in %d .. (%s & 3)) %s", i, lo, hi.text, body.text), func(m *memory) flow {
			last := hi.eval(m) & 3
			for k := lo; k <= last; k++ {
				if f := body.run(m); f == broken {
					break
				} else if f == returned {
					return f
				}
			}
			return onward
		}}
	}
	return statement{fmt.Sprintf("for (bit<8> %s = 0; %s < (%s & 3); %s = %s + 1) %s", i, i, hi.text, i, i, body.text), func(m *memory) flow {
		for k := byte(0); k < hi.eval(m)&3; k++ {
			if f := body.run(m); f == broken {
				break
			} else if f == returned {
				return f
			}
		}
		return onward
	}}
}

// outcome is what a statement leaves of memory, whether it exits or not.
func outcome(s statement, m memory) memory {
	func() {
		defer func() {
			if r := recover(); r != nil && r != (left{}) {
				panic(r)
			}
		}()
		s.run(&m)
	}()
	return m
}

func TestRandomStatements(t *testing.T) {
	const before = `#include <core.p4>
#include <v1model.p4>
header three_t { bit<8> a; bit<8> b; bit<8> c; }
header one_t { bit<8> v; }
struct headers { three_t h; one_t[2] s; }
struct meta { }
bit<8> bump(inout bit<8> x, in bit<8> y) { x = x + y; return x ^ 0x55; }
void move(in bit<8> x, inout bit<8> y, out bit<8> z) { y = y + x; z = y ^ 3; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    action quit(inout bit<8> x) { x = x + 7; if (x > 200) { exit; } x = x + 1; }
    register<bit<8>>(2) r;
    action leave() { exit; }
    action stay() { }
    table t { key = { hdr.h.a: exact; } actions = { leave; stay; } const entries = { 1: leave(); 2: stay(); } const default_action = stay(); }
    apply { sm.egress_spec = 1; `
	const after = ` }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
	rapid.Check(t, func(t *rapid.T) {
		p := &programmer{t: t, fuel: rapid.IntRange(5, 40).Draw(t, "fuel")}
		s := p.block(5)
		prog := loadText(t, before+s.text+after)
		for range 4 {
			var m memory
			for i := range m[:randomVars] {
				m[i] = rapid.OneOf(rapid.Byte(), rapid.ByteRange(0, 3), rapid.ByteRange(190, 201)).Draw(t, "byte")
			}
			want := outcome(s, m)
			var v Verdict
			pl := prog.New()
			pl.Process(m[:randomVars], &Intrinsic{}, &v)
			if len(v.Sent) != 1 || !bytes.Equal(v.Sent[0].Data, want[:randomVars]) {
				t.Fatalf("%s\n of % x: %+v left, want % x", s.text, m, v.Sent, want)
			}
		}
	})
}
