package p4

import (
	"bytes"
	"slices"
	"testing"
)

// Small bodies of ingress, with what they make of a header of four bytes (specification, 6.8, 12.4 and 12.10).
func TestStatements(t *testing.T) {
	const before = `#include <core.p4>
#include <v1model.p4>
header four { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header one { bit<8> v; }
header two { bit<8> v; bit<8> w; }
header_union either { one x; two y; }
struct headers { four h; either u; one[3] s; }
struct meta { }
`
	const after = `
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); p.emit(hdr.u); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
	for _, c := range []struct {
		name, top, locals, body string
		want                    []byte
	}{
		{
			"what out begins with does not change another argument", "void f(out bit<8> y, in bit<8> z) { y = z; }", "",
			"f(hdr.h.a, hdr.h.a + 1);", []byte{2, 2, 3, 4},
		},
		{
			"nor a slice of it", "void f(out bit<8> y, in bit<4> z) { y = 4w0 ++ z; }", "",
			"hdr.h.a = 0x57; f(hdr.h.a, hdr.h.a[7:4]);", []byte{5, 2, 3, 4},
		},
		{
			"nor by controls", "control C(out bit<8> y, in bit<8> z) { apply { y = z; } }", "C() k;",
			"k.apply(hdr.h.b, hdr.h.b | 8);", []byte{1, 10, 3, 4},
		},
		{
			"an out header with an index of itself", "void f(out four y, in bit<8> z) { y.setValid(); y.a = z; y.b = 0; y.c = 0; y.d = 0; }", "",
			"f(hdr.h, hdr.h.d + hdr.h.c);", []byte{7, 0, 0, 0},
		},
		{
			"exit in one table of a condition", "", `action stop() { exit; } action change() { hdr.h.b = 9; }
    table t { actions = { stop; } const default_action = stop(); }
    table u { actions = { change; } const default_action = change(); }`,
			"if (!t.apply().hit && !u.apply().hit) { hdr.h.a = 9; }", []byte{1, 2, 3, 4},
		},
		{
			"exit copies out", "", "action f(inout bit<8> x) { x = 7; exit; }",
			"f(hdr.h.a); hdr.h.b = 9;", []byte{7, 2, 3, 4},
		},
		{
			"inout twice of the same", "void f(inout bit<8> x, inout bit<8> y) { x = 7; y = y + 1; }", "",
			"f(hdr.h.a, hdr.h.a);", []byte{2, 2, 3, 4},
		},
		{
			"swap by a list", "", "", "bit<8> x = hdr.h.a; { tuple<bit<8>, bit<8>> q = { hdr.h.b, hdr.h.a }; hdr.h.a = q[0]; hdr.h.b = q[1]; }", []byte{2, 1, 3, 4},
		},
		{
			"a union's member", "", "", "hdr.u.x.setValid(); hdr.u.x.v = 5; hdr.u.y.setValid(); hdr.u.y.v = 6; hdr.u.y.w = 7;", []byte{1, 2, 3, 4, 6, 7},
		},
		{
			"a union's member that is invalid is assigned", "", "", "one o; o.setInvalid(); hdr.u.y.setValid(); hdr.u.y.v = 6; hdr.u.y.w = 7; hdr.u.x = o;", []byte{1, 2, 3, 4},
		},
		{
			"signed shifts and comparisons", "", "", "int<8> x = (int<8>)8w0x80; hdr.h.a = (bit<8>)(x >> 3); if (x < 1) { hdr.h.b = 0; } hdr.h.c = (bit<8>)(x |-| 1); hdr.h.d = (bit<8>)(-x);", []byte{0xf0, 0, 0x80, 0x80},
		},
		{
			"for with exit", "", "", "for (bit<8> i = 0; i < 10; i = i + 1) { hdr.h.a = i; if (i == 4) { exit; } } hdr.h.b = 9;", []byte{4, 2, 3, 4},
		},
		{
			"select on an index beyond the end", "", "", "bit<32> i = 7; hdr.s[i].v = 4; hdr.s[i].setValid(); hdr.h.a = hdr.s[i].v;", []byte{0, 2, 3, 4},
		},
		{
			"return within a loop of a function", "bit<8> f(in bit<8> x) { for (bit<8> i = 0; i < 10; i = i + 1) { if (i == x) { return i + 100; } } return 1; }", "",
			"hdr.h.a = f(hdr.h.c); hdr.h.b = f(200);", []byte{103, 1, 3, 4},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := before + c.top + "\ncontrol I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {\n" + c.locals + "\napply { sm.egress_spec = 1;\n" + c.body + "\n} }" + after
			var v Verdict
			loadText(t, text).New().Process([]byte{1, 2, 3, 4}, &Intrinsic{}, &v)
			if len(v.Sent) != 1 || !bytes.Equal(v.Sent[0].Data, c.want) {
				t.Errorf("%+v, want % x", v.Sent, c.want)
			}
		})
	}
}

// Messages have each value in its place, whatever its width or fields.
func TestMessages(t *testing.T) {
	const text = `#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; int<8> b; bit<128> w; }
struct headers { h_t h; h_t absent; }
struct pair_t { bit<8> x; bool y; }
struct meta { pair_t pair; bit<4> n; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    apply { log_msg("w {} a {} b {}", { hdr.h.w, hdr.h.a, hdr.h.b }); log_msg("no more");
        m.n = 5; m.pair.y = true; log_msg("{} and {}: {}", { hdr.h, hdr.absent, m }); }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
	pl := loadText(t, text).New()
	var got []string
	pl.SetLog(func(s string) { got = append(got, s) })
	frame := append([]byte{7, 0xff, 1}, make([]byte, 15)...)
	var v Verdict
	pl.Process(frame, &Intrinsic{}, &v)
	if want := []string{"w 1329227995784915872903807060280344576 a 7 b -1", "no more",
		"(a:7,b:-1,w:1329227995784915872903807060280344576) and (invalid): (pair:(x:0,y:1),n:5)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
