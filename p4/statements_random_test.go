package p4

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Random statements do what a second interpreter says, which is Go closures over five numbers, of a byte each or of more than a word: how arguments are copied in and out
// (specification, 6.8), the order of evaluation (8.1), what an exit leaves undone (12.5), and loops and switches (12.7, 12.8).

// randomVars is the number of variables: three fields of a header and two elements of a stack. A register of two cells follows.
const randomVars = 5

type memory [randomVars + 2]*big.Int

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
	numExpr struct {
		text string
		eval func(*memory) *big.Int
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

func (s slot) get(m *memory) *big.Int {
	v := new(big.Int).Rsh(m[s.i], s.lo)
	return v.And(v, ones(int(s.len)))
}

func (s slot) set(m *memory, v *big.Int) {
	mask := new(big.Int).Lsh(ones(int(s.len)), s.lo)
	rest := new(big.Int).AndNot(m[s.i], mask)
	m[s.i] = rest.Or(rest, mask.And(mask, new(big.Int).Lsh(v, s.lo)))
}

// low is the last bits of a number.
func low(v *big.Int, bits int) int { return int(new(big.Int).And(v, ones(bits)).Int64()) }

type programmer struct {
	t     *rapid.T
	width int
	fuel  int
	loops int
	names int
}

func (p *programmer) wrap(v *big.Int) *big.Int { return v.And(v, ones(p.width)) }

func plus(a, b *big.Int) *big.Int  { return new(big.Int).Add(a, b) }
func minus(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }
func xor(a, b *big.Int) *big.Int   { return new(big.Int).Xor(a, b) }
func or(a, b *big.Int) *big.Int    { return new(big.Int).Or(a, b) }

func (p *programmer) pick(n int) int { return rapid.IntRange(0, n-1).Draw(p.t, "pick") }

func (p *programmer) variable() (string, slot) {
	i := p.pick(randomVars)
	if i < 3 {
		return "hdr.h." + string(rune('a'+i)), slot{i, 0, uint(p.width)}
	}
	return fmt.Sprintf("hdr.s[%d].v", i-3), slot{i, 0, uint(p.width)}
}

func (p *programmer) target() target {
	switch p.pick(4) {
	case 0:
		x := p.number()
		return target{"hdr.s[(bit<8>)" + x.text + " & 1].v", func(m *memory) slot { return slot{3 + low(x.eval(m), 1), 0, uint(p.width)} }}
	default:
		name, s := p.variable()
		return target{name, func(*memory) slot { return s }}
	}
}

func (p *programmer) number() numExpr {
	if p.fuel--; p.fuel < 0 {
		return p.leaf()
	}
	binary := func(op string, f func(a, b *big.Int) *big.Int) numExpr {
		x, y := p.number(), p.number()
		return numExpr{"(" + x.text + " " + op + " " + y.text + ")", func(m *memory) *big.Int { a := x.eval(m); return p.wrap(f(a, y.eval(m))) }}
	}
	switch p.pick(9) {
	case 0:
		return binary("+", plus)
	case 1:
		return binary("-", minus)
	case 2:
		return binary("^", xor)
	case 3:
		return binary("|+|", func(a, b *big.Int) *big.Int {
			if v := plus(a, b); v.BitLen() <= p.width {
				return v
			}
			return ones(p.width)
		})
	case 4:
		c, x, y := p.condition(), p.number(), p.number()
		return numExpr{"(" + c.text + " ? " + x.text + " : " + y.text + ")", func(m *memory) *big.Int {
			if c.eval(m) {
				return x.eval(m)
			}
			return y.eval(m)
		}}
	case 5: // bit<8> bump(inout bit<8> x, in bit<8> y) { x = x + y; return x ^ 0x55; }
		to, y := p.target(), p.number()
		return numExpr{"bump(" + to.text + ", " + y.text + ")", func(m *memory) *big.Int {
			s := to.at(m)
			x := s.get(m)
			x = p.wrap(plus(x, y.eval(m)))
			s.set(m, x)
			return xor(x, big.NewInt(0x55))
		}}
	case 6: // the same by name, in the other order
		y, to := p.number(), p.target()
		return numExpr{"bump(y = " + y.text + ", x = " + to.text + ")", func(m *memory) *big.Int {
			b := y.eval(m)
			s := to.at(m)
			x := p.wrap(plus(s.get(m), b))
			s.set(m, x)
			return xor(x, big.NewInt(0x55))
		}}
	}
	return p.leaf()
}

func (p *programmer) leaf() numExpr {
	if p.pick(3) == 0 {
		k := big.NewInt(int64(p.pick(4)))
		return numExpr{fmt.Sprintf("%dw%d", p.width, k), func(*memory) *big.Int { return k }}
	}
	name, s := p.variable()
	return numExpr{name, s.get}
}

func (p *programmer) condition() boolExpr {
	if p.fuel--; p.fuel < 0 {
		x := p.leaf()
		return boolExpr{"(" + x.text + " > 2)", func(m *memory) bool { return x.eval(m).Cmp(big.NewInt(2)) > 0 }}
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
			if m[0].Cmp(big.NewInt(1)) == 0 {
				panic(left{})
			}
			return m[0].Cmp(big.NewInt(2)) == 0
		}}
	case 3:
		x, y := p.number(), p.number()
		return boolExpr{"(" + x.text + " == " + y.text + ")", func(m *memory) bool { a := x.eval(m); return a.Cmp(y.eval(m)) == 0 }}
	default:
		x, y := p.number(), p.number()
		return boolExpr{"(" + x.text + " < " + y.text + ")", func(m *memory) bool { a := x.eval(m); return a.Cmp(y.eval(m)) < 0 }}
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
		return statement{"switch ((bit<8>)" + x.text + ") { 0: " + a.text + " 1: 2: " + b.text + " default: " + c.text + " }", func(m *memory) flow {
			switch low(x.eval(m), 8) {
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
			b = p.wrap(plus(b, a))
			ys.set(m, b)
			zs.set(m, xor(b, big.NewInt(3)))
			return onward
		}}
	case 4: // action quit(inout bit<8> x) { x = x + 7; if (x > 200) { exit; } x = x + 1; }
		x := p.target()
		return statement{"quit(" + x.text + ");", func(m *memory) flow {
			s := x.at(m)
			v := p.wrap(plus(s.get(m), big.NewInt(7)))
			if v.Cmp(big.NewInt(200)) > 0 {
				s.set(m, v)
				panic(left{})
			}
			s.set(m, plus(v, big.NewInt(1)))
			return onward
		}}
	case 5:
		if p.loops > 0 {
			k := p.pick(2)
			return statement{[]string{"break;", "continue;"}[k], func(*memory) flow { return broken + flow(k) }}
		}
		return statement{"return;", func(*memory) flow { return returned }}
	case 9: // control within(in W x, inout W y, out W z) { apply { y = y - x; z = y; if (y < 3) { exit; } z = z + x; } }
		x, y, z := p.number(), p.target(), p.target()
		return statement{"within.apply(" + x.text + ", " + y.text + ", " + z.text + ");", func(m *memory) flow {
			a := x.eval(m)
			ys := y.at(m)
			b := ys.get(m)
			zs := z.at(m)
			b = p.wrap(minus(b, a))
			ys.set(m, b)
			if b.Cmp(big.NewInt(3)) < 0 {
				zs.set(m, b)
				panic(left{})
			}
			zs.set(m, p.wrap(plus(b, a)))
			return onward
		}}
	case 7:
		i, x := p.number(), p.number()
		return statement{"r.write((bit<32>)" + i.text + " & 1, " + x.text + ");", func(m *memory) flow {
			k := randomVars + low(i.eval(m), 1)
			v := x.eval(m)
			m[k] = v
			return onward
		}}
	case 8:
		to, i := p.target(), p.number()
		return statement{"r.read(" + to.text + ", (bit<32>)" + i.text + " & 1);", func(m *memory) flow {
			s := to.at(m)
			s.set(m, m[randomVars+low(i.eval(m), 1)])
			return onward
		}}
	case 6:
		to, x := p.target(), p.number()
		k := p.pick(4)
		f := []func(a, b *big.Int) *big.Int{plus, minus, xor, or}[k]
		text, lo, n := p.bits(to.text)
		operand := x.text
		if n < uint(p.width) {
			operand = fmt.Sprintf("(%s)[%d:0]", x.text, n-1)
		}
		return statement{text + []string{" += ", " -= ", " ^= ", " |= "}[k] + operand + ";", func(m *memory) flow {
			s := to.at(m)
			s.lo, s.len = lo, n
			a := s.get(m)
			v := f(a, x.eval(m))
			s.set(m, v.And(v, ones(int(n))))
			return onward
		}}

	}
	return p.assignment()
}

func (p *programmer) assignment() statement {
	to, x := p.target(), p.number()
	text, lo, n := p.bits(to.text)
	if n < uint(p.width) {
		text += fmt.Sprintf(" = (%s)[%d:0];", x.text, n-1)
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

// bits is a variable, or some of its bits: from lo on, n of them.
func (p *programmer) bits(name string) (text string, lo, n uint) {
	if p.pick(3) > 0 {
		return name, 0, uint(p.width)
	}
	lo = uint(p.pick(p.width - 1))
	n = 1 + uint(p.pick(p.width-int(lo)))
	return fmt.Sprintf("%s[%d:%d]", name, lo+n-1, lo), lo, n
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
		return statement{fmt.Sprintf("for (bit<8> %s in %d .. ((bit<8>)%s & 3)) %s", i, lo, hi.text, body.text), func(m *memory) flow {
			last := byte(low(hi.eval(m), 2))
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
	return statement{fmt.Sprintf("for (bit<8> %s = 0; %s < ((bit<8>)%s & 3); %s = %s + 1) %s", i, i, hi.text, i, i, body.text), func(m *memory) flow {
		for k := 0; k < low(hi.eval(m), 2); k++ {
			if f := body.run(m); f == broken {
				break
			} else if f == returned {
				return f
			}
		}
		return onward
	}}
}

// outcome runs a statement on memory and returns the memory after it, whether it exits or
// not.
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
	for _, width := range []int{8, 72} {
		t.Run(fmt.Sprint(width), func(t *testing.T) { randomStatements(t, width) })
	}
}

// draw is a number near what the statements ask for, at the end of the range, or any.
func draw(t *rapid.T, width int) *big.Int {
	v := new(big.Int).SetUint64(rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3), rapid.Uint64Range(190, 201)).Draw(t, "number"))
	if rapid.IntRange(0, 4).Draw(t, "negative") == 0 {
		v.Not(v)
	}
	return v.And(v, ones(width))
}

func randomStatements(t *testing.T, width int) {
	const before = `#include <core.p4>
#include <v1model.p4>
header three_t { W a; W b; W c; }
header one_t { W v; }
struct headers { three_t h; one_t[2] s; }
struct meta { }
W bump(inout W x, in W y) { x = x + y; return x ^ 0x55; }
void move(in W x, inout W y, out W z) { y = y + x; z = y ^ 3; }
control within(in W x, inout W y, out W z) { apply { y = y - x; z = y; if (y < 3) { exit; } z = z + x; } }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    action quit(inout W x) { x = x + 7; if (x > 200) { exit; } x = x + 1; }
    register<W>(2) r;
    action leave() { exit; }
    action stay() { }
    table t { key = { hdr.h.a: exact; } actions = { leave; stay; } const entries = { 1: leave(); 2: stay(); } const default_action = stay(); }
    apply { sm.egress_spec = 1; `
	const end = ` }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
	rapid.Check(t, func(t *rapid.T) {
		p := &programmer{t: t, width: width, fuel: rapid.IntRange(5, 40).Draw(t, "fuel")}
		s := p.block(5)
		prog := loadText(t, fmt.Sprintf("#define W bit<%d>\n", width)+before+s.text+end)
		for range 4 {
			var m memory
			var frame []byte
			for i := range m {
				m[i] = new(big.Int)
				if i < randomVars {
					m[i] = draw(t, width)
					frame = append(frame, m[i].FillBytes(make([]byte, width/8))...)
				}
			}
			var want []byte
			after := outcome(s, m)
			for _, v := range after[:randomVars] {
				want = append(want, v.FillBytes(make([]byte, width/8))...)
			}
			var v Verdict
			prog.New().Process(frame, &Intrinsic{}, &v)
			if len(v.Sent) != 1 || string(v.Sent[0].Data) != string(want) {
				t.Fatalf("%s\n of % x: %+v left, want % x", s.text, frame, v.Sent, want)
			}
		}
	})
}
