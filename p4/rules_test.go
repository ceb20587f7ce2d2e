package p4

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"
)

// The tests of the files rules_*_test.go go through the language specification chapter by chapter, version 1.2.5; a case
// names the clause that it is from.

// A valueRule is an expression over operands, and its value.
type valueRule struct {
	rule string
	// Declarations with values, as "bit<8> x = 200; int<4> y = -1".
	operands string
	expr     string
	result   string // type
	want     string // number
}

var operandText = regexp.MustCompile(`^(bit|int|bool)(?:<(\d+)>)? (\w+) = (-?\w+)$`)

// An operand is one declaration of a valueRule.
type operand struct {
	typ, name, text string
	width           int
	value           *big.Int // 0 to 2^width-1
}

func (r valueRule) parse(t *testing.T) []operand {
	t.Helper()
	var out []operand
	for _, d := range strings.Split(r.operands, "; ") {
		if d == "" {
			continue
		}
		m := operandText.FindStringSubmatch(d)
		if m == nil {
			t.Fatalf("operand %q", d)
		}
		o := operand{typ: m[1], name: m[3], text: m[4], width: 1}
		if m[2] != "" {
			o.typ += "<" + m[2] + ">"
			o.width = int(number(t, m[2]).Int64())
		}
		o.value = bitsOf(number(t, m[4]), o.width)
		out = append(out, o)
	}
	return out
}

func number(t *testing.T, s string) *big.Int {
	t.Helper()
	switch s {
	case "true":
		return big.NewInt(1)
	case "false":
		return new(big.Int)
	}
	v, ok := new(big.Int).SetString(s, 0)
	if !ok {
		t.Fatalf("number %q", s)
	}
	return v
}

// bitsOf is v in two's complement.
func bitsOf(v *big.Int, width int) *big.Int { return new(big.Int).And(v, ones(width)) }

// holds loads a program that computes the expression twice, from constants and from a packet's fields, and wants the value of both.
func (r valueRule) holds(t *testing.T) {
	t.Helper()
	ops := r.parse(t)
	var consts, params, args, fields []string
	in, bits := new(big.Int), 0
	for _, o := range ops {
		consts = append(consts, fmt.Sprintf("const %s %s = %s;", o.typ, o.name, o.text))
		params = append(params, fmt.Sprintf("in %s %s", o.typ, o.name))
		args = append(args, "hdr.i."+o.name)
		fields = append(fields, o.typ+" "+o.name+";")
		in.Lsh(in, uint(o.width)).Or(in, o.value)
		bits += o.width
	}
	w := 1
	if m := regexp.MustCompile(`<(\d+)>`).FindStringSubmatch(r.result); m != nil {
		w = int(number(t, m[1]).Int64())
	}
	pad := func(n int) (string, int) {
		if n%8 == 0 {
			return "", 0
		}
		return fmt.Sprintf("bit<%d> pad_;", 8-n%8), 8 - n%8
	}
	inPad, k := pad(bits)
	in.Lsh(in, uint(k))
	outPad, l := pad(2 * w)
	text := "#include <core.p4>\n#include <v1model.p4>\n" + strings.Join(consts, " ") + `
header in_t { ` + strings.Join(fields, " ") + inPad + ` }
header out_t { ` + r.result + " folded; " + r.result + " live; " + outPad + ` }
struct headers { in_t i; out_t o; }
struct meta { }
const ` + r.result + " folded = " + r.expr + `;
` + r.result + " live(" + strings.Join(params, ", ") + ") { return " + r.expr + `; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.i); transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    apply { sm.egress_spec = 1; hdr.o.setValid(); hdr.o.folded = folded; hdr.o.live = live(` + strings.Join(args, ", ") + `); }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.o); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
	var v Verdict
	frame := in.FillBytes(make([]byte, (bits+k)/8))
	loadText(t, text).New().Process(frame, &Intrinsic{}, &v)
	if len(v.Sent) != 1 || len(v.Sent[0].Data) != (2*w+l)/8 {
		t.Fatalf("%+v left", v.Sent)
	}
	got := new(big.Int).Rsh(new(big.Int).SetBytes(v.Sent[0].Data), uint(l))
	live := bitsOf(got, w)
	folded := got.Rsh(got, uint(w))
	if want := bitsOf(number(t, r.want), w); folded.Cmp(want) != 0 || live.Cmp(want) != 0 {
		t.Errorf("%s with %s is %v as a constant and %v of a packet, want %v", r.expr, r.operands, folded, live, want)
	}
}

func holdAll(t *testing.T, rules []valueRule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.rule, r.holds)
	}
}

// A frameRule is statements of ingress, and what they make of packets: "in -> out", as exchange takes them.
type frameRule struct {
	rule string
	// Declarations before the controls, and of ingress.
	top, locals string
	body        string
	frames      []string
}

func (r frameRule) holds(t *testing.T) {
	t.Helper()
	exchange(t, loadText(t, v1Text(r.top, r.locals, r.body)).New(), r.frames...)
}

func exchangeAll(t *testing.T, rules []frameRule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.rule, r.holds)
	}
}
