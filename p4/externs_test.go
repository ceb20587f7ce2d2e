package p4

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rdma/sluice/p4/internal/run"
	"github.com/sluice-rdma/sluice/p4/internal/stf"
	"github.com/sluice-rdma/sluice/units"
)

const externsHead = `
header h_t { bit<8> a; bit<8> b; bit<16> c; bit<32> d; bit<72> s; }
struct headers { h_t h; }
struct pair_t { bit<8> x; bit<16> y; }
header one_t { bit<8> v; }
struct pair2_t { bit<8> x; bit<8> y; }
`

// v1Text is a v1model program with this ingress control.
func v1Text(top, locals, body string) string {
	return "#include <core.p4>\n#include <v1model.p4>\n" + externsHead + `struct meta { bit<8> m; }
` + top + `
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
` + locals + `
apply { sm.egress_spec = 1;
` + body + `
} }
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
}

// tnaText is a TNA program with this ingress control, or these statements in the
// ingress parser.
func tnaText(top, parser, locals, body string) string {
	return "#include <core.p4>\n#include <tna.p4>\n" + externsHead + `struct meta { bit<8> m; bool bad; }
` + top + `
parser IP(packet_in p, out headers hdr, out meta m, out ingress_intrinsic_metadata_t ig) {
` + parser + `
transition accept; } }
control I(inout headers hdr, inout meta m, in ingress_intrinsic_metadata_t ig, in ingress_intrinsic_metadata_from_parser_t prsr,
          inout ingress_intrinsic_metadata_for_deparser_t dprsr, inout ingress_intrinsic_metadata_for_tm_t tm) {
` + locals + `
apply { tm.ucast_egress_port = 1; tm.bypass_egress = 1;
` + body + `
} }
control ID(packet_out p, inout headers hdr, in meta m, in ingress_intrinsic_metadata_for_deparser_t dprsr) { apply { p.emit(hdr); } }
parser EP(packet_in p, out headers hdr, out meta m, out egress_intrinsic_metadata_t eg) { state start { p.extract(eg); transition accept; } }
control E(inout headers hdr, inout meta m, in egress_intrinsic_metadata_t eg, in egress_intrinsic_metadata_from_parser_t prsr,
          inout egress_intrinsic_metadata_for_deparser_t dprsr, inout egress_intrinsic_metadata_for_output_port_t oport) { apply { } }
control ED(packet_out p, inout headers hdr, in meta m, in egress_intrinsic_metadata_for_deparser_t dprsr) { apply { p.emit(hdr); } }
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
`
}

const tnaStart = "state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h);"

// What only Tofino 2 has is named as that in a program for Tofino 1.
func TestOtherChip(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{tnaText("", tnaStart, "", "tm.adv_flow_ctl = 0;"), "has no field adv_flow_ctl: Tofino 2 has it: check with --target tofino2, or include t2na.p4"},
		{tnaText("", tnaStart, "Pktgen() g;", ""), "no type is called Pktgen here: Tofino 2 has it: check with --target tofino2, or include t2na.p4"},
		{tnaText("", tnaStart, "", "tm.adv_flow_control = 0;"), "has no field adv_flow_control"},
		{strings.Replace(tnaText("", tnaStart, "", "tm.adv_flow_ctrl = 0;"), "tna.p4", "t2na.p4", 1), "has no field adv_flow_ctrl"},
	} {
		_, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(c.text)}}, "p.p4", Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(c.want, "Tofino") != strings.Contains(err.Error(), "Tofino 2 has") {
			t.Errorf("error is %v, expected %q", err, c.want)
		}
	}
}

// Filters as the control plane of Tofino sets them: about the sum of a time constant, and averages that rise and fall by constants
// of their own. Without a setting a value passes. exchange sends a packet a microsecond.
func TestFilters(t *testing.T) {
	const locals = `Lpf<bit<32>, bit<8>>(3) f; DirectLpf<bit<32>>() df;
action smooth() { hdr.h.d = df.execute(hdr.h.d); }
table t { key = { hdr.h.a: exact; } actions = { smooth; NoAction; } filters = df; const entries = { 9: smooth(); } const default_action = NoAction(); }`
	load := func() *Pipeline {
		return loadText(t, tnaText("", tnaStart, locals, "if (hdr.h.a < 9) { hdr.h.d = f.execute(hdr.h.d, hdr.h.a); } t.apply();")).New()
	}
	set := func(pl *Pipeline, name string, i int, s run.LowPass) {
		t.Helper()
		f, err := pl.Filter(name)
		if err == nil {
			err = f.Set(i, s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	us := units.Microsecond
	pl := load()
	set(pl, "I.f", 1, run.LowPass{Rate: true, Gain: us})
	set(pl, "I.f", 2, run.LowPass{Gain: us, Decay: 2 * us})
	set(pl, "I.df", 0, run.LowPass{Gain: us, Decay: us, ScaleDown: 4})
	sum := 1000 + 1000/math.E
	rise := 1000 * (1 - math.Exp(-3)) // at 3 us, from 0 at 0
	fall := rise * math.Exp(-0.5)
	direct := 16000 * (1 - math.Exp(-5)) / 16
	hex := func(a int, v float64) string { return fmt.Sprintf("%02x 00 0000 %08x", a, int(v+0.5)) }
	exchange(t, pl,
		"00 00 0000 00000007 -> 00 00 0000 00000007", // no setting
		"01 00 0000 000003e8 -> "+hex(1, 1000),
		"01 00 0000 000003e8 -> "+hex(1, sum),
		"02 00 0000 000003e8 -> "+hex(2, rise),
		"02 00 0000 00000000 -> "+hex(2, fall),
		"09 00 0000 00003e80 -> "+hex(9, math.Floor(direct)),
		"05 00 0000 00000007 -> 05 00 0000 00000007", // beyond the array
	)
	f, err := pl.Filter("I.f")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []run.LowPass{{Gain: -us}, {ScaleDown: 32}} {
		if f.Set(1, bad) == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if f.Set(3, run.LowPass{}) == nil {
		t.Error("an index beyond the array was taken")
	}
}

// A packet test sets filters and drops by name.
func TestFilterCommands(t *testing.T) {
	const locals = "Lpf<bit<32>, _>(2) f; Wred<bit<32>, _>(2, 1, 0) w;"
	prog := loadText(t, tnaText("", tnaStart, locals, "hdr.h.b = w.execute(hdr.h.d, 1); hdr.h.d = f.execute(hdr.h.d, 1);"))
	const script = `lpf_set f 1 type=rate gain=1ms scale=2
wred_set w 1 time=0s min=10 max=20 probability=0.5
packet 1 00 00 0000 00000100 313233343536373839
expect 1 00 01 0000 00000040 313233343536373839 $
`
	s, err := stf.Parse("x.stf", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := stf.Run(prog, s); err != nil || len(r.Failures) > 0 || r.Packets != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Early drops: none below the lower threshold, all from the upper one on, between them as often as the line says.
func TestWred(t *testing.T) {
	const locals = "Wred<bit<32>, bit<8>>(3, 1, 0) w;"
	pl := loadText(t, tnaText("", tnaStart, locals, "hdr.h.b = w.execute(hdr.h.d, hdr.h.a);")).New()
	w, err := pl.Wred("I.w")
	if err == nil {
		err = w.Set(1, run.EarlyDrop{Min: 100, Max: 300, Probability: 0.5}) // without a time constant the average is the value
	}
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, pl,
		"00 07 0000 0000ffff -> 00 00 0000 0000ffff", // no setting
		"01 07 0000 00000063 -> 01 00 0000 00000063",
		"01 07 0000 0000012c -> 01 01 0000 0000012c",
		"05 07 0000 0000ffff -> 05 00 0000 0000ffff",
	)
	dropped := 0
	const n = 10000
	var v Verdict
	for i := range n {
		pl.Process(unhex(t, "01070000000000c8"+hex.EncodeToString([]byte("123456789"))), &Intrinsic{IngressTime: units.Time(i) * units.Microsecond}, &v)
		dropped += int(v.Sent[0].Data[1])
	}
	// At 200 one in four: within five standard deviations.
	if math.Abs(float64(dropped)-n/4) > 5*math.Sqrt(n*0.25*0.75) {
		t.Errorf("%d of %d are marked, expected about %d", dropped, n, n/4)
	}
	for _, bad := range []run.EarlyDrop{{Time: -1}, {Min: 2, Max: 1}, {Probability: 1.5}, {Probability: math.NaN()}} {
		if w.Set(1, bad) == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// exchange sends frames, "a b c d" in hexadecimal before the digits 1 to 9, and
// compares what leaves.
func exchange(t *testing.T, pl *Pipeline, frames ...string) {
	t.Helper()
	digits := hex.EncodeToString([]byte("123456789"))
	var v Verdict
	for i, f := range frames {
		in, want, _ := strings.Cut(f, " -> ")
		pl.Process(unhex(t, in+digits), &Intrinsic{IngressTime: units.Time(i) * units.Microsecond}, &v)
		got := "dropped"
		if len(v.Sent) == 1 {
			got = hex.EncodeToString(v.Sent[0].Data)
		}
		if wanted := strings.ReplaceAll(want, " ", "") + digits; got != wanted && got != want {
			t.Errorf("packet %d, %s: %s left, want %s", i+1, in, strings.TrimSuffix(got, digits), want)
		}
	}
}

// What objects of v1model do, packet after packet on the same switch.
func TestV1Objects(t *testing.T) {
	for _, c := range []struct {
		name, locals, body, entries string
		frames                      []string
	}{
		{
			"a register", "register<bit<32>>(4) r;",
			"bit<32> x; r.read(x, (bit<32>)hdr.h.a); r.write((bit<32>)hdr.h.a, hdr.h.d); hdr.h.d = x;", "",
			[]string{
				"01 00 0000 00000007 -> 01 00 0000 00000000", "01 00 0000 00000009 -> 01 00 0000 00000007", "03 00 0000 00000001 -> 03 00 0000 00000000",
				"04 00 0000 00000005 -> 04 00 0000 00000000", "04 00 0000 00000005 -> 04 00 0000 00000000", "01 00 0000 00000000 -> 01 00 0000 00000009",
			},
		},
		{
			"a register as it was set", "register<bit<16>>(2) r;", "r.read(hdr.h.c, 1);", "register_write r 1 0x1234", []string{"00 00 0000 00000000 -> 00 00 1234 00000000"},
		},
		{
			"a register of signed numbers", "register<int<8>>(2) r;",
			"int<8> x; r.read(x, 0); r.write(0, x - 3); hdr.h.b = (bit<8>)(x >> 1);", "",
			[]string{"00 00 0000 00000000 -> 00 00 0000 00000000", "00 00 0000 00000000 -> 00 fe 0000 00000000", "00 00 0000 00000000 -> 00 fd 0000 00000000"},
		},
		{
			"a register of structs", "register<pair_t>(2) r;",
			"pair_t p; r.read(p, 1); p.x = p.x + 1; p.y = p.y + hdr.h.c; r.write(1, p); hdr.h.a = p.x; hdr.h.c = p.y;", "",
			[]string{"00 00 0005 00000000 -> 01 00 0005 00000000", "00 00 ffff 00000000 -> 02 00 0004 00000000"},
		},
		{
			"a register of a wide number", "register<bit<72>>(1) r;",
			"bit<72> x; r.read(x, 0); r.write(0, x + hdr.h.s); hdr.h.d = x[71:40];", "",
			[]string{"00 00 0000 00000000 -> 00 00 0000 00000000", "00 00 0000 00000000 -> 00 00 0000 31323334", "00 00 0000 00000000 -> 00 00 0000 62646668"},
		},
		{
			"one register for two controls", "register<bit<8>>(1) r; Add(r, 1) one; Add(r, 16) more;",
			"one.apply(hdr.h.a); more.apply(hdr.h.b);", "",
			[]string{"00 00 0000 00000000 -> 01 11 0000 00000000", "00 00 0000 00000000 -> 12 22 0000 00000000"},
		},
		{
			"a meter", "meter(2, MeterType.bytes) m;", "m.execute_meter((bit<32>)hdr.h.a, hdr.h.b);", "",
			[]string{"00 07 0000 00000000 -> 00 00 0000 00000000", "05 07 0000 00000000 -> 05 00 0000 00000000"},
		},
		{
			"a direct meter without rates", "direct_meter<bit<8>>(MeterType.bytes) m; action a() { m.read(hdr.h.b); } table t { key = { hdr.h.a: exact; } actions = { a; NoAction; } meters = m; default_action = NoAction(); }",
			"t.apply();", "add t hdr.h.a:1 a()",
			[]string{"01 07 0000 00000000 -> 01 00 0000 00000000", "02 07 0000 00000000 -> 02 07 0000 00000000"},
		},
		{"crc16", "", "hash(hdr.h.d, HashAlgorithm.crc16, 32w0, { hdr.h.s }, 64w0x100000000);", "", []string{"00 00 0000 00000000 -> 00 00 0000 0000bb3d"}},
		{"crc32", "", "hash(hdr.h.d, HashAlgorithm.crc32, 32w0, { hdr.h.s }, 64w0x100000000);", "", []string{"00 00 0000 00000000 -> 00 00 0000 cbf43926"}},
		{"crc32 within bounds", "", "hash(hdr.h.d, HashAlgorithm.crc32, 32w1000, { hdr.h.s }, 32w7);", "", []string{fmt.Sprintf("00 00 0000 00000000 -> 00 00 0000 %08x", 1000+0xcbf43926%7)}},
		{"the hash of a field at any bit", "", "hash(hdr.h.d, HashAlgorithm.crc32, 32w0, { hdr.h.s[71:36], hdr.h.s[35:0] }, 64w0x100000000);", "", []string{"00 00 0000 00000000 -> 00 00 0000 cbf43926"}},
		{"identity", "", "hash(hdr.h.c, HashAlgorithm.identity, 16w0, { hdr.h.a, hdr.h.b }, 32w0x10000);", "", []string{"12 34 0000 00000000 -> 12 34 1234 00000000"}},
		{"csum16", "", "hash(hdr.h.c, HashAlgorithm.csum16, 16w0, { 64w0x0001f203f4f5f6f7 }, 32w0x10000);", "", []string{"00 00 0000 00000000 -> 00 00 220d 00000000"}},
		{"xor16", "", "hash(hdr.h.c, HashAlgorithm.xor16, 16w0, { 32w0x12340102 }, 32w0x10000);", "", []string{"00 00 0000 00000000 -> 00 00 1336 00000000"}},
		{"a hash into a range of none", "", "hash(hdr.h.c, HashAlgorithm.crc16, 16w9, { hdr.h.s }, 32w0);", "", []string{"00 00 0000 00000000 -> 00 00 0009 00000000"}},
		{"random of one value", "", "random(hdr.h.d, 32w77, 32w77);", "", []string{"00 00 0000 00000000 -> 00 00 0000 0000004d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := "control Add(inout bit<8> v)(register<bit<8>> r, bit<8> n) { apply { bit<8> x; r.read(x, 0); x = x + n; r.write(0, x); v = x; } }"
			pl := loadText(t, v1Text(top, c.locals, c.body)).New()
			if err := stf.Configure(pl, "t", []byte(c.entries)); err != nil {
				t.Fatal(err)
			}
			exchange(t, pl, c.frames...)
		})
	}
}

// What tables of every kind find, with entries of the program and of the control plane.
func TestTables(t *testing.T) {
	const actions = "action set(bit<8> v) { hdr.h.b = v; } action copy_(in bit<8> x, bit<8> v) { hdr.h.b = x + v; } "
	for _, c := range []struct {
		name, table, body, entries string
		frames                     []string
	}{
		{
			"exact", "key = { hdr.h.a: exact; hdr.h.c: exact; } actions = { set; NoAction; } default_action = NoAction();", "t.apply();",
			"add t hdr.h.a:1 hdr.h.c:0x0203 set(v:5)\nadd t hdr.h.a:2 hdr.h.c:0x0203 set(v:6)",
			[]string{"01 00 0203 00000000 -> 01 05 0203 00000000", "02 00 0203 00000000 -> 02 06 0203 00000000", "01 00 0204 00000000 -> 01 00 0204 00000000"},
		},
		{
			"lpm: the longest wins, whatever the order", "key = { hdr.h.d: lpm; } actions = { set; } default_action = set(0xff);", "t.apply();",
			"add t hdr.h.d:10.0.0.0/8 set(v:8)\nadd t hdr.h.d:10.1.2.3/32 set(v:32)\nadd t hdr.h.d:10.1.0.0/16 set(v:16)",
			[]string{
				"00 00 0000 0a010203 -> 00 20 0000 0a010203", "00 00 0000 0a010204 -> 00 10 0000 0a010204",
				"00 00 0000 0a020203 -> 00 08 0000 0a020203", "00 00 0000 0b020203 -> 00 ff 0000 0b020203",
			},
		},
		{
			"lpm with an exact key, and a prefix of none", "key = { hdr.h.a: exact; hdr.h.d: lpm; } actions = { set; } default_action = set(0xff);", "t.apply();",
			"add t hdr.h.a:1 hdr.h.d:0/0 set(v:1)\nadd t hdr.h.a:1 hdr.h.d:0x80000000/1 set(v:2)\nadd t hdr.h.a:2 hdr.h.d:0xc0000000/2 set(v:3)",
			[]string{
				"01 00 0000 00000000 -> 01 01 0000 00000000", "01 00 0000 c0000000 -> 01 02 0000 c0000000",
				"02 00 0000 c0000000 -> 02 03 0000 c0000000", "02 00 0000 80000000 -> 02 ff 0000 80000000",
			},
		},
		{
			"ternary by priority", "key = { hdr.h.a: ternary; } actions = { set; } default_action = set(0xff);", "t.apply();",
			"add t 1 hdr.h.a:0x1* set(v:1)\nadd t 3 hdr.h.a:0x*1 set(v:3)\nadd t 2 hdr.h.a:0x11 set(v:2)",
			[]string{"11 00 0000 00000000 -> 11 03 0000 00000000", "12 00 0000 00000000 -> 12 01 0000 00000000", "22 00 0000 00000000 -> 22 ff 0000 00000000"},
		},
		{
			"range", "key = { hdr.h.a: range; } actions = { set; } default_action = set(0xff);", "t.apply();",
			"add t 1 hdr.h.a:0..255 set(v:1)\nadd t 2 hdr.h.a:16..31 set(v:2)\nadd t 3 hdr.h.a:20..20 set(v:3)",
			[]string{
				"0f 00 0000 00000000 -> 0f 01 0000 00000000", "10 00 0000 00000000 -> 10 02 0000 00000000",
				"1f 00 0000 00000000 -> 1f 02 0000 00000000", "14 00 0000 00000000 -> 14 03 0000 00000000",
			},
		},
		{
			"const entries in their order", "key = { hdr.h.a: ternary; hdr.h.c: range; } actions = { set; } default_action = set(0xff); const entries = { (1, 5 .. 9): set(1); (1 &&& 3, _): set(2); (_, 7): set(3); }", "t.apply();", "",
			[]string{
				"01 00 0007 00000000 -> 01 01 0007 00000000", "05 00 0007 00000000 -> 05 02 0007 00000000",
				"01 00 000a 00000000 -> 01 02 000a 00000000", "02 00 0007 00000000 -> 02 03 0007 00000000", "02 00 0008 00000000 -> 02 ff 0008 00000000",
			},
		},
		{
			"entries with priorities, the least first", "key = { hdr.h.a: ternary; } actions = { set; } largest_priority_wins = false; entries = { priority = 10: 1 &&& 1: set(1); priority = 5: 3 &&& 3: set(2); _: set(3); }", "t.apply();", "",
			[]string{"01 00 0000 00000000 -> 01 03 0000 00000000", "03 00 0000 00000000 -> 03 02 0000 00000000", "02 00 0000 00000000 -> 02 03 0000 00000000"},
		},
		{
			"entries with priorities, the greatest first", "key = { hdr.h.a: ternary; } actions = { set; } entries = { priority = 10: 1 &&& 1: set(1); priority = 50: 3 &&& 3: set(2); priority = 7: _: set(3); }", "t.apply();", "",
			[]string{"01 00 0000 00000000 -> 01 01 0000 00000000", "03 00 0000 00000000 -> 03 02 0000 00000000", "02 00 0000 00000000 -> 02 03 0000 00000000"},
		},
		{
			"an argument that the program gives", "key = { hdr.h.a: exact; } actions = { copy_(hdr.h.a); } default_action = copy_(hdr.h.a, 7);", "t.apply();", "add t hdr.h.a:1 copy_(v:16)",
			[]string{"01 00 0000 00000000 -> 01 11 0000 00000000", "02 00 0000 00000000 -> 02 09 0000 00000000"},
		},
		{
			"no key", "actions = { set; } default_action = set(9);", "t.apply();", "", []string{"00 00 0000 00000000 -> 00 09 0000 00000000"},
		},
		{
			"a default of the control plane", "key = { hdr.h.a: exact; } actions = { set; NoAction; } default_action = NoAction();", "t.apply();", "setdefault t set(v:3)",
			[]string{"01 00 0000 00000000 -> 01 03 0000 00000000"},
		},
		{
			"hit, miss and the action that ran", "key = { hdr.h.a: exact; } actions = { set; NoAction; } default_action = NoAction();",
			"switch (t.apply().action_run) { set: { hdr.h.c = 1; } NoAction: { hdr.h.c = 2; } } if (!t.apply().hit) { hdr.h.d = 3; } hdr.h.d[31:24] = t.apply().miss ? 8w1 : 2;", "add t hdr.h.a:1 set(v:3)",
			[]string{"01 00 0000 00000000 -> 01 03 0001 02000000", "02 00 0000 00000000 -> 02 00 0002 01000003"},
		},
		{
			"keys that are computed", "key = { hdr.h.a + hdr.h.b: exact @name(\"sum\"); hdr.h.isValid(): exact; hdr.h.c[11:4]: ternary; hdr.h.c == 0x0120: exact @name(\"same\"); } actions = { set; } default_action = set(0); const entries = { (3, true, 0x12, true): set(1); (3, true, _, false): set(2); }", "t.apply();", "",
			[]string{"01 02 0120 00000000 -> 01 01 0120 00000000", "01 02 f12f 00000000 -> 01 02 f12f 00000000", "01 03 0120 00000000 -> 01 00 0120 00000000"},
		},
		{
			"a wide key", "key = { hdr.h.s: exact; } actions = { set; } default_action = set(0); const entries = { 0x313233343536373839: set(1); }", "t.apply();", "", []string{"00 09 0000 00000000 -> 00 01 0000 00000000"},
		},
		{
			"a table that is applied twice", "key = { hdr.h.a: exact; } actions = { set; } default_action = set(0); const entries = { 1: set(2); 2: set(4); }", "t.apply(); hdr.h.a = hdr.h.b; t.apply();", "",
			[]string{"01 00 0000 00000000 -> 02 04 0000 00000000", "02 00 0000 00000000 -> 04 00 0000 00000000"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			pl := loadText(t, v1Text("", actions+"table t { "+c.table+" }", c.body)).New()
			if err := stf.Configure(pl, "t", []byte(c.entries)); err != nil {
				t.Fatal(err)
			}
			exchange(t, pl, c.frames...)
		})
	}
}

// Each pipe of a chip runs a pipeline of its own, with registers of its own.
func TestTNAPipes(t *testing.T) {
	const count = "Register<bit<8>, bit<8>>(1) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) add = { void apply(inout bit<8> v, out bit<8> rv) { v = v + 1; rv = v; } };"
	text := tnaText("", tnaStart, count, "hdr.h.a = 1; hdr.h.b = add.execute(0);")
	text = strings.Replace(text, "Switch(pipe) main;", `control Other(inout headers hdr, inout meta m, in ingress_intrinsic_metadata_t ig, in ingress_intrinsic_metadata_from_parser_t prsr,
          inout ingress_intrinsic_metadata_for_deparser_t dprsr, inout ingress_intrinsic_metadata_for_tm_t tm) {
`+count+`
apply { tm.ucast_egress_port = 1; hdr.h.a = 2; hdr.h.b = add.execute(0); } }
control OE(inout headers hdr, inout meta m, in egress_intrinsic_metadata_t eg, in egress_intrinsic_metadata_from_parser_t prsr,
          inout egress_intrinsic_metadata_for_deparser_t dprsr, inout egress_intrinsic_metadata_for_output_port_t oport) { apply { hdr.h.c = 9; } }
parser OP(packet_in p, out headers hdr, out meta m, out egress_intrinsic_metadata_t eg) { state start { p.extract(eg); p.extract(hdr.h); transition accept; } }
Pipeline(IP(), Other(), ID(), OP(), OE(), ED()) other;
Switch(pipe, other) main;`, 1)
	pl := loadText(t, text).New()
	digits := hex.EncodeToString([]byte("123456789"))
	var v Verdict
	for _, c := range []struct {
		port uint16
		want string
	}{
		{3, "0101000000000000"}, {127, "0102000000000000"}, {128, "0201000000000000"}, {300, "0103000000000000"}, {400, "0202000000000000"},
	} {
		pl.Process(unhex(t, "00 00 0000 00000000"+digits), &Intrinsic{IngressPort: c.port}, &v)
		if len(v.Sent) != 1 || hex.EncodeToString(v.Sent[0].Data) != c.want+digits {
			t.Errorf("port %d: %+v, want %s", c.port, v.Sent, c.want)
		}
	}
	if _, err := pl.Register("other.Other.r"); err != nil {
		t.Error(err)
	}
}

// What objects of TNA do, packet after packet on the same switch.
func TestTNAObjects(t *testing.T) {
	for _, c := range []struct {
		name, top, parser, locals, body string
		frames                          []string
	}{
		{
			"a register with a first value", "", tnaStart, "Register<bit<32>, bit<8>>(4, 100) r; RegisterAction<bit<32>, bit<8>, bit<32>>(r) add = { void apply(inout bit<32> v, out bit<32> rv) { v = v + hdr.h.d; rv = v; } };",
			"hdr.h.d = add.execute(hdr.h.a);",
			[]string{"01 00 0000 00000007 -> 01 00 0000 0000006b", "01 00 0000 00000001 -> 01 00 0000 0000006c", "00 00 0000 00000000 -> 00 00 0000 00000064", "04 00 0000 00000005 -> 04 00 0000 00000005"},
		},
		{
			"two actions of one register", "", tnaStart, "Register<bit<8>, bit<8>>(1) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) up = { void apply(inout bit<8> v, out bit<8> rv) { rv = v; v = v |+| 100; } }; RegisterAction<bit<8>, bit<8>, bit<8>>(r) clear_ = { void apply(inout bit<8> v) { v = 0; } };",
			"if (hdr.h.a == 1) { clear_.execute(0); } else { hdr.h.b = up.execute(0); }",
			[]string{"00 00 0000 00000000 -> 00 00 0000 00000000", "00 00 0000 00000000 -> 00 64 0000 00000000", "00 00 0000 00000000 -> 00 c8 0000 00000000", "00 00 0000 00000000 -> 00 ff 0000 00000000", "01 00 0000 00000000 -> 01 00 0000 00000000", "00 09 0000 00000000 -> 00 00 0000 00000000"},
		},
		{
			"a result that is not written", "", tnaStart, "Register<bit<8>, bit<8>>(1, 9) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) some = { void apply(inout bit<8> v, out bit<8> rv) { if (hdr.h.a == 1) { rv = v; } } };",
			"hdr.h.b = some.execute(0);", []string{"01 00 0000 00000000 -> 01 09 0000 00000000", "02 07 0000 00000000 -> 02 00 0000 00000000"},
		},
		{
			"a register of pairs", "", tnaStart, "Register<pair_t, bit<8>>(2, { 1, 2 }) r; RegisterAction<pair_t, bit<8>, bit<16>>(r) act = { void apply(inout pair_t p, out bit<16> rv) { p.x = p.x + 1; if (p.x > 2) { p.y = p.y + hdr.h.c; } rv = p.y; } };",
			"hdr.h.c = act.execute(1);", []string{"00 00 0005 00000000 -> 00 00 0002 00000000", "00 00 0005 00000000 -> 00 00 0007 00000000"},
		},
		{
			"read and write without an action", "", tnaStart, "Register<bit<16>, bit<1>>(2) r;", "hdr.h.c = r.read(0); r.write(0, hdr.h.c + 1);",
			[]string{"00 00 0000 00000000 -> 00 00 0000 00000000", "00 00 0000 00000000 -> 00 00 0001 00000000"},
		},
		{"CRC8", "", tnaStart, "Hash<bit<8>>(HashAlgorithm_t.CRC8) h;", "hdr.h.b = h.get({ hdr.h.s });", []string{"00 00 0000 00000000 -> 00 f4 0000 00000000"}},
		{"CRC16", "", tnaStart, "Hash<bit<16>>(HashAlgorithm_t.CRC16) h;", "hdr.h.c = h.get({ hdr.h.s });", []string{"00 00 0000 00000000 -> 00 00 bb3d 00000000"}},
		{"CRC32", "", tnaStart, "Hash<bit<32>>(HashAlgorithm_t.CRC32) h;", "hdr.h.d = h.get({ hdr.h.s });", []string{"00 00 0000 00000000 -> 00 00 0000 cbf43926"}},
		{"CRC32, its low bits", "", tnaStart, "Hash<bit<8>>(HashAlgorithm_t.CRC32) h;", "hdr.h.b = h.get({ hdr.h.s });", []string{"00 00 0000 00000000 -> 00 26 0000 00000000"}},
		{"CRC64", "", tnaStart, "Hash<bit<64>>(HashAlgorithm_t.CRC64) h;", "hdr.h.d = h.get({ hdr.h.s })[63:32];", []string{"00 00 0000 00000000 -> 00 00 0000 6c40df5f"}},
		{"XOR8", "", tnaStart, "Hash<bit<8>>(HashAlgorithm_t.XOR8) h;", "hdr.h.b = h.get({ hdr.h.a, hdr.h.c });", []string{"01 00 0204 00000000 -> 01 07 0204 00000000"}},
		{"XOR16", "", tnaStart, "Hash<bit<16>>(HashAlgorithm_t.XOR16) h;", "hdr.h.c = h.get({ hdr.h.d });", []string{"00 00 0000 12340102 -> 00 00 1336 12340102"}},
		{"XOR32", "", tnaStart, "Hash<bit<32>>(HashAlgorithm_t.XOR32) h;", "hdr.h.d = h.get({ hdr.h.d, 32w0xffffffff });", []string{"00 00 0000 12340102 -> 00 00 0000 edcbfefd"}},
		{"IDENTITY", "", tnaStart, "Hash<bit<16>>(HashAlgorithm_t.IDENTITY) h;", "hdr.h.c = h.get({ hdr.h.d });", []string{"00 00 0000 12340102 -> 00 00 0102 12340102"}},
		{
			"CRC-16/X-25", "", tnaStart, "CRCPolynomial<bit<16>>(0x1021, true, false, false, 0xffff, 0xffff) p; Hash<bit<16>>(HashAlgorithm_t.CUSTOM, p) h;", "hdr.h.c = h.get({ hdr.h.s });",
			[]string{"00 00 0000 00000000 -> 00 00 906e 00000000"},
		},
		{
			"CRC-32/BZIP2", "", tnaStart, "CRCPolynomial<bit<32>>(0x04c11db7, false, false, false, 0xffffffff, 0xffffffff) p; Hash<bit<32>>(HashAlgorithm_t.CUSTOM, p) h;", "hdr.h.d = h.get({ hdr.h.s });",
			[]string{"00 00 0000 00000000 -> 00 00 0000 fc891918"},
		},
		{
			"min and max", "", tnaStart, "", "hdr.h.a = min(hdr.h.a, hdr.h.b); hdr.h.b = (bit<8>)max((int<8>)hdr.h.b, 8s3); hdr.h.d = max(hdr.h.d, 32w9);",
			[]string{"05 fe 0000 00000000 -> 05 03 0000 00000009", "05 04 0000 ffffffff -> 04 04 0000 ffffffff"},
		},
		{
			"a meter without rates", "", tnaStart, "Meter<bit<8>>(2, MeterType_t.BYTES) m; DirectMeter(MeterType_t.PACKETS) dm; action a() { hdr.h.b = (bit<8>)dm.execute(); } table t { key = { hdr.h.a: exact; } actions = { a; } meters = dm; const default_action = a(); }",
			"hdr.h.c = (bit<16>)(bit<8>)m.execute(1); t.apply();", []string{"00 09 0007 00000000 -> 00 00 0000 00000000"},
		},
		{
			"a register of any index", "", tnaStart, "Register<bit<32>, _>(4) r; RegisterAction<bit<32>, bit<8>, bit<32>>(r) add = { void apply(inout bit<32> v, out bit<32> rv) { v = v + 3; rv = v; } };",
			"hdr.h.d = add.execute(hdr.h.a);", []string{"01 00 0000 00000000 -> 01 00 0000 00000003", "01 00 0000 00000000 -> 01 00 0000 00000006"},
		},
		{
			"a parameter of a register action", "", tnaStart, "RegisterParam<bit<32>>(5) step; Register<bit<32>, bit<8>>(1) r; RegisterAction<bit<32>, bit<8>, bit<32>>(r) add = { void apply(inout bit<32> v, out bit<32> rv) { v = v + step.read(); rv = v; } };",
			"hdr.h.d = add.execute(0);", []string{"00 00 0000 00000000 -> 00 00 0000 00000005", "00 00 0000 00000000 -> 00 00 0000 0000000a"},
		},
		{
			"a wide result that is not written", "", tnaStart, "Register<bit<8>, bit<8>>(1) r; RegisterAction<bit<8>, bit<8>, bit<72>>(r) some = { void apply(inout bit<8> v, out bit<72> rv) { if (hdr.h.a == 1) { rv = ~72w0; } } };",
			"bit<72> x = some.execute(0); hdr.h.d = x[71:40];", []string{"01 00 0000 00000000 -> 01 00 0000 ffffffff", "02 00 0000 00000001 -> 02 00 0000 00000000"},
		},
		{
			"the size of a header", "", tnaStart, "", "hdr.h.c = (bit<16>)sizeInBytes(hdr.h); hdr.h.d = sizeInBits(hdr.h.c);", []string{"00 00 0000 00000000 -> 00 00 0011 00000010"},
		},
		{
			"tables of Alpm and Atcam", "", tnaStart, "action set(bit<8> v) { hdr.h.b = v; } Alpm(number_partitions = 1024, subtrees_per_partition = 2) alpm; Atcam(8) atcam; table l { key = { hdr.h.d: lpm; } actions = { set; } implementation = alpm; const entries = { 0x0a000000 &&& 0xff000000: set(1); 0x0a010000 &&& 0xffff0000: set(2); } } table a { key = { hdr.h.a: atcam_partition_index; hdr.h.c: ternary; } actions = { set; } implementation = atcam; const entries = { (7, 0x0100 &&& 0x0f00): set(3); } }",
			"l.apply(); a.apply();", []string{"00 00 0100 0a010203 -> 00 02 0100 0a010203", "00 00 0100 0a020203 -> 00 01 0100 0a020203", "07 00 3133 0a020203 -> 07 03 3133 0a020203"},
		},
		{
			"a register of each entry", "", tnaStart, "DirectRegister<pair_t>({ 4, 3 }) r; DirectRegisterAction<pair_t, bit<16>>(r) count = { void apply(inout pair_t p, out bit<16> n) { p.y = p.y + 1; n = p.y; } }; action hit() { hdr.h.c = count.execute(); } action set(bit<8> v) { hdr.h.b = v; } table t { key = { hdr.h.a: exact; } actions = { hit; set; } registers = r; const entries = { 1: hit(); 2: hit(); 3: set(9); } const default_action = hit(); }",
			"t.apply();", []string{"01 00 0000 00000000 -> 01 00 0004 00000000", "01 00 0000 00000000 -> 01 00 0005 00000000", "02 00 0000 00000000 -> 02 00 0004 00000000", "03 00 0000 00000000 -> 03 09 0000 00000000", "07 00 0000 00000000 -> 07 00 0004 00000000", "08 00 0000 00000000 -> 08 00 0005 00000000"},
		},
		{
			"a register of each entry, read and written", "", tnaStart, "DirectRegister<bit<32>>() r; action hit() { bit<32> x = r.read(); hdr.h.d = x; r.write(x + 7); } table t { key = { hdr.h.a: exact; } actions = { hit; } registers = r; const entries = { 1: hit(); } }",
			"t.apply();", []string{"01 00 0000 00000000 -> 01 00 0000 00000000", "01 00 0000 00000000 -> 01 00 0000 00000007", "02 00 0000 00000001 -> 02 00 0000 00000001"},
		},
		{
			"a residual checksum", "", "Checksum() sum; state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); m.m = p.lookahead<bit<8>>(); transition select(m.m) { 0: some; default: none; } } state some { sum.add({ 16w0x1234 }); sum.subtract_all_and_deposit(hdr.h.c); transition none; } state none { p.extract(hdr.h);",
			"", "", []string{"00 00 0000 00010002 -> 00 00 f7a3 00010002", "01 00 0005 00010002 -> 01 00 0005 00010002"},
		},
		{
			"an invalidated field", "", tnaStart, "", "hdr.h.d = 5; invalidate(hdr.h.d);", []string{"00 00 0000 00000001 -> 00 00 0000 00000000"},
		},
		{
			"a parser's counter from a field", "", "ParserCounter() n; state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); n.set(hdr.h.a, 200, 4, 3, 2); m.m = 0; transition loop; } state loop { transition select(n.is_zero()) { true: done; default: more; } } state more { n.decrement(1); m.m = m.m + 1; transition loop; } state done {",
			"", "hdr.h.b = m.m;", []string{"5f 00 0000 00000000 -> 5f 07 0000 00000000", "c9 00 0000 00000000 -> dropped"},
		},
		{
			"a parser's counter", "", "ParserCounter() n; state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); n.set(hdr.h.a); m.m = 0; transition loop; } state loop { transition select(n.is_zero(), n.is_negative()) { (true, _): done; (_, true): done; default: more; } } state more { n.decrement(2); m.m = m.m + 1; transition loop; } state done {",
			"", "hdr.h.b = m.m;", []string{"04 00 0000 00000000 -> 04 02 0000 00000000", "00 09 0000 00000000 -> 00 00 0000 00000000", "05 00 0000 00000000 -> 05 03 0000 00000000"},
		},
		{
			"a parser's checksum", "", "Checksum() sum; state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); sum.add({ hdr.h.a, hdr.h.b }); sum.add({ hdr.h.c, hdr.h.d }); sum.subtract({ hdr.h.d }); m.m = (bit<8>)sum.get(); m.bad = sum.verify();",
			"", "hdr.h.d = m.bad ? 32w1 : 0; hdr.h.d[31:24] = m.m;",
			[]string{"00 f0 ff0f 12345678 -> 00 f0 ff0f 00000000", "00 f0 ff0e 12345678 -> 00 f0 ff0e 01000001", "01 00 0002 00000000 -> 01 00 0002 fd000001"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			exchange(t, loadText(t, tnaText(c.top, c.parser, c.locals, c.body)).New(), c.frames...)
		})
	}
}
