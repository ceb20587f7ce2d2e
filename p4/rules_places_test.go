package p4

import (
	"fmt"
	"testing"
)

// Slices whose begin the packet gives (8.6, 12.1), in every place where a value or an l-value stands.
func TestRulesOfVariableSlices(t *testing.T) {
	const top = counting + `
void swap4(inout bit<4> x, inout bit<4> y) { bit<4> z = x; x = y; y = z; }
void fill(out bit<4> x, in bit<4> y) { x = y; }
bit<4> low(in bit<8> x) { return x[3:0]; }
`
	frame := func(rule, body string, frames ...string) frameRule {
		return frameRule{rule: rule, top: top, locals: "one_t[2] st;", body: body, frames: frames}
	}
	exchangeAll(t, []frameRule{
		frame("8.6: read", "hdr.h.a = 4w0 ++ hdr.h.c[hdr.h.b+:4];", "00 04 1234 00000000 -> 03 04 1234 00000000", "00 00 1234 00000000 -> 04 00 1234 00000000", "00 05 1234 00000000 -> 01 05 1234 00000000"),
		frame("8.6: what is beyond the value is 0", "hdr.h.a = 4w0 ++ hdr.h.c[hdr.h.b+:4];", "00 0e f234 00000000 -> 03 0e f234 00000000", "00 10 f234 00000000 -> 00 10 f234 00000000", "00 ff f234 00000000 -> 00 ff f234 00000000"),
		frame("8.6: a slice of it", "hdr.h.a = 6w0 ++ hdr.h.c[hdr.h.b+:4][3:2];", "00 04 1234 00000000 -> 00 04 1234 00000000", "00 03 1234 00000000 -> 01 03 1234 00000000", "00 06 12f4 00000000 -> 02 06 12f4 00000000"),
		frame("8.6: a slice of more than a word", "hdr.h.a = hdr.h.s[hdr.h.b+:8];", "00 00 0000 00000000 -> 39 00 0000 00000000", "00 3c 0000 00000000 -> 13 3c 0000 00000000", "00 40 0000 00000000 -> 31 40 0000 00000000", "00 44 0000 00000000 -> 03 44 0000 00000000"),
		frame("8.6: a slice of a slice of more than a word", "hdr.h.a = 4w0 ++ hdr.h.s[hdr.h.b+:16][15:12];", "00 00 0000 00000000 -> 03 00 0000 00000000", "00 34 0000 00000000 -> 01 34 0000 00000000"),
		frame("8.6: more than a word of more than a word", "bit<72> x = 8w0 ++ hdr.h.s[hdr.h.b+:64]; hdr.h.c = x[63:48]; hdr.h.d = x[31:0];", "00 08 0000 00000000 -> 00 08 3132 35363738", "00 04 0000 00000000 -> 00 04 1323 53637383"),
		frame("8.6: of a number that a call gives", "hdr.h.a = 6w0 ++ low(hdr.h.b)[hdr.h.c[7:0]+:2];", "00 0d 0001 00000000 -> 02 0d 0001 00000000", "00 0d 0002 00000000 -> 03 0d 0002 00000000"),
		frame("8.6: of a constant", "hdr.h.a = 4w0 ++ 16w0x1234[hdr.h.b+:4];", "00 08 0000 00000000 -> 02 08 0000 00000000"),
		frame("8.6: of a signed number, it is unsigned", "int<8> x = -2; hdr.h.a = 4w0 ++ x[hdr.h.b+:4];", "00 00 0000 00000000 -> 0e 00 0000 00000000", "00 04 0000 00000000 -> 0f 04 0000 00000000", "00 06 0000 00000000 -> 03 06 0000 00000000"),
		frame("12.1: written", "hdr.h.c[hdr.h.b+:4] = 0xf;", "00 04 1234 00000000 -> 00 04 12f4 00000000", "00 01 0000 00000000 -> 00 01 001e 00000000"),
		frame("12.1: written beyond the value", "hdr.h.c[hdr.h.b+:4] = 0xf;", "00 0e 0000 00000000 -> 00 0e c000 00000000", "00 10 0000 00000000 -> 00 10 0000 00000000", "00 ff 0000 00000000 -> 00 ff 0000 00000000"),
		frame("12.1: a slice of it is written", "hdr.h.c[hdr.h.b+:4][2:1] = 3;", "00 04 0000 00000000 -> 00 04 0060 00000000", "00 00 0000 00000000 -> 00 00 0006 00000000"),
		frame("12.1: by an operator", "hdr.h.c[hdr.h.b+:4] += 0xf;", "00 04 1234 00000000 -> 00 04 1224 00000000", "00 00 1230 00000000 -> 00 00 123f 00000000"),
		frame("12.1: by its own bits", "hdr.h.c[hdr.h.b+:4] = hdr.h.c[hdr.h.a+:4];", "0c 00 1234 00000000 -> 0c 00 1231 00000000"),
		frame("12.1: of more than a word", "bit<72> x = 0; x[hdr.h.b+:8] = 0xff; hdr.h.a = x[71:64]; hdr.h.c = x[67:52]; hdr.h.d = x[31:0];", "00 3c 0000 00000000 -> 0f 3c ff00 00000000", "00 00 0000 00000000 -> 00 00 0000 000000ff", "00 40 0000 00000000 -> ff 40 f000 00000000"),
		frame("12.1: what begins it is evaluated first", "bit<8> i = 0; hdr.h.c[i+:4] = (bit<4>)add(i, 8);", "00 00 0000 00000000 -> 00 00 0008 00000000"),
		frame("6.8: out", "fill(hdr.h.c[hdr.h.b+:4], 5);", "00 08 0000 00000000 -> 00 08 0500 00000000"),
		frame("6.8: inout of two of them", "swap4(hdr.h.c[hdr.h.a+:4], hdr.h.c[hdr.h.b+:4]);", "00 0c 1234 00000000 -> 00 0c 4231 00000000"),
		frame("6.8: what begins it is saved", "bit<8> i = 4; fill(hdr.h.c[i+:4], (bit<4>)add(i, 4));", "00 00 0000 00000000 -> 00 00 0080 00000000"),
		frame("6.8: of an element by a variable", "st[1] = { 0 }; fill(st[hdr.h.a].v[hdr.h.b+:4], 5); hdr.h.c = 8w0 ++ st[1].v;", "01 04 0000 00000000 -> 01 04 0050 00000000"),
		{"6.8: a register that is read into it", "", "register<bit<4>>(1) r;", "r.write(0, 7); r.read(hdr.h.c[hdr.h.b+:4], 0);", []string{"00 04 0000 00000000 -> 00 04 0070 00000000"}},
		frame("8.9.1: within a concatenation", "hdr.h.a = hdr.h.c[hdr.h.b+:4] ++ hdr.h.c[3:0];", "00 0c 1234 00000000 -> 14 0c 1234 00000000"),
		frame("8.15: compared", "hdr.h.a = hdr.h.c[hdr.h.b+:4] == 3 ? 8w1 : 2;", "00 04 1234 00000000 -> 01 04 1234 00000000", "00 08 1234 00000000 -> 02 08 1234 00000000"),
	})
}

// Numbers that externs give go into variables of any width, cut or filled up.
func TestRulesOfResults(t *testing.T) {
	for _, c := range []struct {
		typ, shown  string
		red, yellow byte
	}{
		{"bit<1>", "(bit<8>)x", 0, 1},
		{"bit<2>", "(bit<8>)x", 2, 1},
		{"bit<8>", "x", 2, 1},
		{"bit<64>", "x[7:0] | x[63:56]", 2, 1},
		{"bit<72>", "x[7:0] | x[71:64]", 2, 1},
		{"int<8>", "(bit<8>)x", 2, 1},
	} {
		for name, m := range map[string]struct {
			rate Rate
			want byte
		}{"red": {Rate{}, c.red}, "yellow": {Rate{Peak: 9, PeakBurst: 9}, c.yellow}} {
			t.Run(c.typ+" "+name, func(t *testing.T) {
				pl := loadText(t, v1Text("typedef "+c.typ+" color_t; bit<8> show(in color_t x) { return "+c.shown+"; }",
					"color_t k; meter(1, MeterType.packets) y; direct_meter<color_t>(MeterType.packets) z; action a() { z.read(k); } table t { key = { hdr.h.d: exact; } actions = { a; } meters = z; const entries = { 0: a(); } const default_action = a(); }",
					"k = (color_t)0 - 1; y.execute_meter(0, k); hdr.h.a = show(k); k = (color_t)0 - 1; t.apply(); hdr.h.b = show(k);")).New()
				for _, name := range []string{"y", "z"} {
					y, err := pl.Meter(name)
					if err == nil {
						err = y.Set(0, m.rate)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				exchange(t, pl, fmt.Sprintf("00 00 0000 00000000 -> %02x %02[1]x 0000 00000000", m.want))
			})
		}
	}
}
