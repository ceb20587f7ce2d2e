package p4

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
	"github.com/sluice-rdma/sluice/units"
)

// Registers, counters, meters and hashes of v1model as BMv2's simple_switch has them: arrays that outlive packets, of which an
// index beyond the end reads 0 and changes nothing.
func TestRulesOfArrays(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	for _, c := range []struct {
		rule, locals, body, entries string
		frames                      []string
	}{
		{"register: begins as 0", "register<bit<8>>(4) r;", "r.read(hdr.h.b, 3);", "", []string{"00 09 0000 00000000 -> 00 00 0000 00000000"}},
		{"register: what is written stays", "register<bit<8>>(4) r;", "r.read(hdr.h.b, (bit<32>)hdr.h.a); r.write((bit<32>)hdr.h.a, 7);", "", []string{"01 00 0000 00000000 -> 01 00 0000 00000000", "01 00 0000 00000000 -> 01 07 0000 00000000", "02 00 0000 00000000 -> 02 00 0000 00000000"}},
		{"register: beyond the end", "register<bit<8>>(2) r;", "r.write((bit<32>)hdr.h.a, 7); r.read(hdr.h.b, (bit<32>)hdr.h.a);", "", []string{"02 09 0000 00000000 -> 02 00 0000 00000000", "01 09 0000 00000000 -> 01 07 0000 00000000"}},
		{"register: far beyond the end", "register<bit<8>>(2) r;", "r.write(0xffffffff, 7); r.read(hdr.h.b, 0xffffffff);", "", []string{"02 09 0000 00000000 -> 02 00 0000 00000000"}},
		{"register: two of them", "register<bit<8>>(1) r; register<bit<8>>(1) q;", "r.write(0, 1); q.write(0, 2); r.read(hdr.h.a, 0); q.read(hdr.h.b, 0);", "", []string{zero + "01 02 0000 00000000"}},
		{"register: of bool", "register<bit<1>>(1) r;", "bit<1> x; r.read(x, 0); hdr.h.a = 7w0 ++ x; r.write(0, ~x);", "", []string{zero + "00 00 0000 00000000", zero + "01 00 0000 00000000", zero + "00 00 0000 00000000"}},
		{"register: of a signed number", "register<int<8>>(1) r;", "int<8> x; r.read(x, 0); hdr.h.a = x < 0 ? 8w1 : 2; r.write(0, -5);", "", []string{zero + "02 00 0000 00000000", zero + "01 00 0000 00000000"}},
		{"register: of a struct", "register<pair2_t>(2) r;", "pair2_t p; r.read(p, 1); hdr.h.a = p.x; hdr.h.b = p.y; r.write(1, { p.x + 1, p.y + 2 });", "", []string{zero + "00 00 0000 00000000", zero + "01 02 0000 00000000", zero + "02 04 0000 00000000"}},
		{"register: read into a slice", "register<bit<4>>(1) r;", "r.write(0, 0xa); r.read(hdr.h.a[7:4], 0);", "", []string{"01 00 0000 00000000 -> a1 00 0000 00000000"}},
		{"register: read into an element", "register<bit<8>>(1) r; one_t[2] st;", "st[1] = { 0 }; r.write(0, 0xa); r.read(st[hdr.h.a].v, 0); hdr.h.b = st[1].v;", "", []string{"01 00 0000 00000000 -> 01 0a 0000 00000000", "00 00 0000 00000000 -> 00 00 0000 00000000"}},
		{"register: the index is evaluated before the value", "register<bit<8>>(4) r;", "bit<32> i = 1; r.write(i, add32(i)); r.read(hdr.h.a, 1); r.read(hdr.h.b, 2);", "", []string{zero + "02 00 0000 00000000"}},
		{"register: in an action of a table", "register<bit<8>>(1) r; action up() { bit<8> x; r.read(x, 0); r.write(0, x + 1); hdr.h.b = x; } table t { key = { hdr.h.a: exact; } actions = { up; NoAction; } const entries = { 1: up(); } const default_action = NoAction(); }", "t.apply();", "", []string{"01 09 0000 00000000 -> 01 00 0000 00000000", "02 09 0000 00000000 -> 02 09 0000 00000000", "01 09 0000 00000000 -> 01 01 0000 00000000"}},
		{"register: one instance for each instance of its control", "Keeps() one; Keeps() two;", "one.apply(hdr.h.a); one.apply(hdr.h.a); two.apply(hdr.h.b);", "", []string{zero + "02 01 0000 00000000", zero + "04 02 0000 00000000"}},
		{"register: preset by the control plane", "register<bit<8>>(2) r;", "r.read(hdr.h.b, 1);", "register_write r 1 5", []string{zero + "00 05 0000 00000000"}},
		{"meter: without a rate all is green", "meter(1, MeterType.packets) m;", "m.execute_meter(0, hdr.h.b);", "", []string{"00 09 0000 00000000 -> 00 00 0000 00000000"}},
		{"meter: beyond the end is green", "meter(1, MeterType.packets) m;", "m.execute_meter(1, hdr.h.b);", "", []string{"00 09 0000 00000000 -> 00 00 0000 00000000"}},

		{"hash: base and bound", "", "hash(hdr.h.c, HashAlgorithm.crc16, 16w100, { hdr.h.s }, 32w16);", "", []string{fmt.Sprintf("00 00 0000 00000000 -> 00 00 %04x 00000000", 100+0xbb3d%16)}},
		{"hash: a bound of 1", "", "hash(hdr.h.c, HashAlgorithm.crc16, 16w5, { hdr.h.s }, 16w1);", "", []string{zero + "00 00 0005 00000000"}},
		{"hash: of nothing", "", "hash(hdr.h.c, HashAlgorithm.csum16, 16w0, { }, 32w0x10000);", "", []string{zero + "00 00 ffff 00000000"}},
		{"hash: of one field is that of its list", "", "bit<16> x; hash(x, HashAlgorithm.crc16, 16w0, hdr.h.s, 32w0x10000); hdr.h.c = x;", "", []string{zero + "00 00 bb3d 00000000"}},
		{"hash: of an invalid header", "", "one_t n; one_t v; v = { 0x12 }; bit<16> x; bit<16> y; hash(x, HashAlgorithm.crc16, 16w0, { v, n }, 32w0x10000); hash(y, HashAlgorithm.crc16, 16w0, { 8w0x12 }, 32w0x10000); hdr.h.a = x == y ? 8w1 : 2;", "", []string{zero + "01 00 0000 00000000"}},
		{"hash: fields of a struct expression in the order of the struct", "", "bit<16> x; bit<16> y; hash(x, HashAlgorithm.crc16, 16w0, (pair2_t){ y = 2, x = 1 }, 32w0x10000); hash(y, HashAlgorithm.crc16, 16w0, { 8w1, 8w2 }, 32w0x10000); hdr.h.a = x == y ? 8w1 : 2;", "", []string{zero + "01 00 0000 00000000"}},
		{"hash: the sign bit counts as a bit", "", "bit<16> x; bit<16> y; hash(x, HashAlgorithm.crc16, 16w0, { 8s0xff, 8w1 }, 32w0x10000); hash(y, HashAlgorithm.crc16, 16w0, { 16w0xff01 }, 32w0x10000); hdr.h.a = x == y ? 8w1 : 2;", "", []string{zero + "01 00 0000 00000000"}},
		{"hash: into a narrow field", "", "bit<4> x; hash(x, HashAlgorithm.crc16, 4w0, { hdr.h.s }, 32w0x10000); hdr.h.a = 4w0 ++ x;", "", []string{zero + "0d 00 0000 00000000"}},
		{"random: within its bounds", "", "bit<8> x; random(x, 8w5, 8w6); hdr.h.a = x >= 5 && x <= 6 ? 8w1 : 2;", "", []string{zero + "01 00 0000 00000000", zero + "01 00 0000 00000000", zero + "01 00 0000 00000000", zero + "01 00 0000 00000000"}},
		{"random: the lower bound if the upper is below", "", "random(hdr.h.a, 8w6, 8w5);", "", []string{zero + "06 00 0000 00000000"}},
		{"assert: a false one does not stop the packet", "", "assert(hdr.h.a == 1); hdr.h.b = 1;", "", []string{zero + "00 01 0000 00000000"}},
		{"mark_to_drop", "", "if (hdr.h.a == 1) { mark_to_drop(sm); }", "", []string{"00 00 0000 00000000 -> 00 00 0000 00000000", "01 00 0000 00000000 -> dropped"}},
		{"mark_to_drop: a port that is set later takes it back", "", "mark_to_drop(sm); sm.egress_spec = 1;", "", []string{zero + "00 00 0000 00000000"}},
		{"truncate", "", "truncate(5);", "", []string{"01 02 0304 05060708 -> 0102030405"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			const top = "control Keeps(out bit<8> x) { register<bit<8>>(1) r; apply { r.read(x, 0); x = x + 1; r.write(0, x); } } bit<8> add32(inout bit<32> n) { n = n + 1; return (bit<8>)n; }"
			pl := loadText(t, v1Text(top, c.locals, c.body)).New()
			if err := stf.Configure(pl, "t", []byte(c.entries)); err != nil {
				t.Fatal(err)
			}
			exchange(t, pl, c.frames...)
		})
	}
}

// Counters and meters count a packet's bytes on the wire (Intrinsic.Length), of which the frame may hold the headers only, and
// neither the intrinsic metadata that TNA puts in front nor fewer than none.
func TestRulesOfBytes(t *testing.T) {
	const v1 = `counter(2, CounterType.bytes) n; meter(1, MeterType.bytes) y; direct_meter<bit<8>>(MeterType.bytes) z;
action a() { z.read(hdr.h.b); } table t { key = { hdr.h.a: exact; } actions = { a; } meters = z; const entries = { 0: a(); } const default_action = a(); }`
	const tna = `Counter<bit<32>, bit<8>>(2, CounterType_t.BYTES) n; Meter<bit<8>>(1, MeterType_t.BYTES) y; DirectMeter(MeterType_t.BYTES) z;
action a() { hdr.h.b = z.execute(adjust_byte_count = 0); } table t { key = { hdr.h.a: exact; } actions = { a; } meters = z; const entries = { 0: a(); } const default_action = a(); }`
	for _, c := range []struct {
		rule, text string
		length     units.Bytes
		want       [2]uint64 // bytes of n
		colors     [2]byte   // of y and z, whose bursts are of 100 bytes
	}{
		{"v1model: a frame", v1Text("", v1, "n.count(0); n.count(1); bit<8> c; y.execute_meter(0, c); t.apply(); hdr.h.a = c;"), 0, [2]uint64{60, 60}, [2]byte{0, 0}},
		{"v1model: a frame of a longer packet", v1Text("", v1, "n.count(0); n.count(1); bit<8> c; y.execute_meter(0, c); t.apply(); hdr.h.a = c;"), 1000, [2]uint64{1000, 1000}, [2]byte{2, 2}},
		{"TNA: a frame", tnaText("", tnaStart, tna, "n.count(0); n.count(1, 4); bit<8> c = y.execute(0); t.apply(); hdr.h.a = c;"), 0, [2]uint64{60, 56}, [2]byte{0, 0}},
		{"TNA: a frame of a longer packet", tnaText("", tnaStart, tna, "n.count(0); n.count(1, 4); bit<8> c = y.execute(0); t.apply(); hdr.h.a = c;"), 1000, [2]uint64{1000, 996}, [2]byte{3, 3}},
		{"TNA: less than none", tnaText("", tnaStart, tna, "n.count(0, 60); n.count(1, 61); bit<8> c = y.execute(0, adjust_byte_count = 500); t.apply(); hdr.h.a = c;"), 0, [2]uint64{0, 0}, [2]byte{0, 0}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			pl := loadText(t, c.text).New()
			for _, name := range []string{"y", "z"} {
				m, err := pl.Meter(name)
				if err == nil {
					err = m.Set(0, Rate{Committed: 1, Peak: 1, CommittedBurst: 100, PeakBurst: 100})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var v Verdict
			pl.Process(make([]byte, 60), &Intrinsic{Length: c.length}, &v)
			if len(v.Sent) != 1 || [2]byte(v.Sent[0].Data) != c.colors {
				t.Errorf("%+v left, expected the colors %v", v.Sent, c.colors)
			}
			n, err := pl.Counter("n")
			if err != nil {
				t.Fatal(err)
			}
			if got := [2]uint64{n.Bytes(0), n.Bytes(1)}; got != c.want {
				t.Errorf("%d bytes are counted, expected %d", got, c.want)
			}
		})
	}
}
