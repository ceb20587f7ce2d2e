package p4

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// Objects of TNA: what their methods give with and without the arguments that may be left out, and where a value is not wanted.
func TestRulesOfTNAObjects(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	const parser = "state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); "
	for _, c := range []struct {
		rule, parser, locals, body, entries string
		frames                              []string
	}{
		{
			rule: "Register: beyond the end reads 0 and writes nothing", locals: "Register<bit<8>, bit<8>>(2, 7) r;",
			body:   "hdr.h.b = r.read(hdr.h.a); r.write(hdr.h.a, 9);",
			frames: []string{"01 00 0000 00000000 -> 01 07 0000 00000000", "01 00 0000 00000000 -> 01 09 0000 00000000", "02 05 0000 00000000 -> 02 00 0000 00000000"},
		},
		{
			rule: "Register: of a struct, read and written", locals: "Register<pair_t, bit<8>>(2) r;",
			body:   "pair_t p = r.read(1); hdr.h.b = p.x; hdr.h.c = p.y; r.write(1, { p.x + 1, p.y + 2 });",
			frames: []string{zero + "00 00 0000 00000000", zero + "00 01 0002 00000000", zero + "00 02 0004 00000000"},
		},
		{
			rule: "Register: a value that is not wanted", locals: "Register<bit<8>, bit<8>>(2, 7) r;",
			body: "r.read(0); hdr.h.b = 1;", frames: []string{zero + "00 01 0000 00000000"},
		},
		{
			rule: "RegisterAction: a value that is not wanted", locals: "Register<bit<8>, bit<8>>(1) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) up = { void apply(inout bit<8> v, out bit<8> rv) { v = v + 1; rv = v; } };",
			body: "up.execute(0); hdr.h.b = up.execute(0);", frames: []string{zero + "00 02 0000 00000000", zero + "00 04 0000 00000000"},
		},
		{
			rule: "RegisterAction: saturation and signs", locals: "Register<int<8>, bit<8>>(1) r; RegisterAction<int<8>, bit<8>, int<8>>(r) down = { void apply(inout int<8> v, out int<8> rv) { v = v |-| 100; rv = v; } };",
			body: "hdr.h.b = (bit<8>)down.execute(0);", frames: []string{zero + "00 9c 0000 00000000", zero + "00 80 0000 00000000"},
		},
		{
			rule: "RegisterAction: by the index of a table's action", locals: "Register<bit<16>, bit<8>>(8) r; RegisterAction<bit<16>, bit<8>, bit<16>>(r) up = { void apply(inout bit<16> v, out bit<16> rv) { v = v + 1; rv = v; } }; action n(bit<8> i) { hdr.h.c = up.execute(i); } table t { key = { hdr.h.a: exact; } actions = { n; } const default_action = n(0); const entries = { 1: n(3); 2: n(4); } }",
			body:   "t.apply();",
			frames: []string{"01 00 0000 00000000 -> 01 00 0001 00000000", "02 00 0000 00000000 -> 02 00 0001 00000000", "01 00 0000 00000000 -> 01 00 0002 00000000", "09 00 0000 00000000 -> 09 00 0001 00000000"},
		},
		{
			rule: "RegisterParam: set by the control plane", locals: "RegisterParam<bit<8>>(5) k; Register<bit<8>, bit<8>>(1) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) add = { void apply(inout bit<8> v, out bit<8> rv) { v = v + k.read(); rv = v; } };",
			body: "hdr.h.b = add.execute(0);", entries: "register_write I.k 0 9", frames: []string{zero + "00 09 0000 00000000", zero + "00 12 0000 00000000"},
		},
		{
			rule: "DirectRegister: a value that is not wanted", locals: "DirectRegister<bit<8>>() r; action n() { r.read(); r.write(3); hdr.h.b = r.read(); } table t { key = { hdr.h.a: exact; } actions = { n; } registers = r; const default_action = n(); }",
			body: "t.apply();", frames: []string{zero + "00 03 0000 00000000"},
		},
		{
			rule: "Meter: beyond the end is green", locals: "Meter<bit<8>>(1, MeterType_t.PACKETS) n;",
			body: "hdr.h.b = n.execute(5); n.execute(0);", frames: []string{"00 09 0000 00000000 -> 00 00 0000 00000000"},
		},
		{
			rule: "Meter: with a color and less bytes", locals: "Meter<bit<8>>(1, MeterType_t.BYTES) n; DirectMeter(MeterType_t.BYTES) d; action a() { hdr.h.c = 8w0 ++ d.execute(MeterColor_t.GREEN, 4); } table t { key = { hdr.h.a: exact; } actions = { a; } meters = d; const default_action = a(); }",
			body: "hdr.h.b = n.execute(0, MeterColor_t.GREEN, 32w4); t.apply();", frames: []string{"00 09 0009 00000000 -> 00 00 0000 00000000"},
		},
		{
			rule: "Wred: without a setting it keeps", locals: "Wred<bit<32>, bit<8>>(2, 1, 5) w; DirectWred<bit<32>>(2, 6) d; action a() { hdr.h.c = 8w0 ++ d.execute(hdr.h.d); } table t { key = { hdr.h.a: exact; } actions = { a; } filters = d; const default_action = a(); }",
			body: "hdr.h.b = w.execute(hdr.h.d, 0); t.apply();", frames: []string{"00 00 0000 00000100 -> 00 05 0006 00000100"},
		},
		{
			rule: "Hash: of a header, a struct and a literal", locals: "Hash<bit<16>>(HashAlgorithm_t.CRC16) h; Hash<bit<16>>(HashAlgorithm_t.CRC16) g; one_t o;",
			body: "o = { 0x12 }; pair2_t p = { 0x34, 0x56 }; bit<16> x = h.get({ o, p, 8w0x78 }); bit<16> y = g.get({ 32w0x12345678 }); hdr.h.b = x == y ? 8w1 : 2;", frames: []string{zero + "00 01 0000 00000000"},
		},
		{
			rule: "Hash: a value that is not wanted", locals: "Hash<bit<16>>(HashAlgorithm_t.CRC16) h;",
			body: "h.get({ hdr.h.a }); hdr.h.b = 1;", frames: []string{zero + "00 01 0000 00000000"},
		},
		{
			rule: "Hash: RANDOM and Random stay within their width", locals: "Hash<bit<4>>(HashAlgorithm_t.RANDOM) h; Random<bit<4>>() r;",
			body: "hdr.h.b = 4w0 ++ h.get({ hdr.h.a }); hdr.h.c = 12w0 ++ r.get(); hdr.h.b = hdr.h.b < 16 ? 8w1 : 2; hdr.h.c = hdr.h.c < 16 ? 16w1 : 2;", frames: []string{zero + "00 01 0001 00000000", zero + "00 01 0001 00000000"},
		},
		{
			rule: "Hash: an identity of fewer bits", locals: "Hash<bit<4>>(HashAlgorithm_t.IDENTITY) h;",
			body: "hdr.h.b = 4w0 ++ h.get({ hdr.h.a });", frames: []string{"5a 00 0000 00000000 -> 5a 0a 0000 00000000"},
		},
		{
			rule: "ActionProfile: a table of members", locals: "ActionProfile(8) ap; action set(bit<8> v) { hdr.h.b = v; } table t { key = { hdr.h.a: exact; } actions = { set; NoAction; } implementation = ap; const default_action = NoAction(); }",
			body: "t.apply();", entries: "add t hdr.h.a:1 set(v:5)", frames: []string{"01 00 0000 00000000 -> 01 05 0000 00000000", "02 00 0000 00000000 -> 02 00 0000 00000000"},
		},
		{
			rule: "ActionSelector: a table of groups", locals: "Hash<bit<16>>(HashAlgorithm_t.CRC16) h; ActionSelector(8, h, SelectorMode_t.FAIR) sel; action set(bit<8> v) { hdr.h.b = v; } table t { key = { hdr.h.a: exact; hdr.h.c: selector; } actions = { set; NoAction; } implementation = sel; const default_action = NoAction(); }",
			body: "t.apply();", entries: "add t hdr.h.a:1 set(v:5)", frames: []string{"01 00 0000 00000000 -> 01 05 0000 00000000", "02 00 0000 00000000 -> 02 00 0000 00000000"},
		},
		{
			rule: "ParserPriority and a counter that goes up", parser: "ParserPriority() prio; ParserCounter() n; state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); prio.set(3); n.set(8w3); n.increment(2); n.decrement(4); m.m = n.is_zero() ? 8w1 : n.is_negative() ? 8w2 : 3;",
			body: "hdr.h.b = m.m;", frames: []string{zero + "00 03 0000 00000000"},
		},
		{
			rule: "ParserCounter: below 0 is negative", parser: "ParserCounter() n; state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); n.set(hdr.h.a); n.decrement(1); m.m = n.is_negative() ? 8w1 : n.is_zero() ? 8w2 : 3;",
			body: "hdr.h.b = m.m;", frames: []string{"00 00 0000 00000000 -> 00 01 0000 00000000", "01 00 0000 00000000 -> 01 02 0000 00000000", "02 00 0000 00000000 -> 02 03 0000 00000000"},
		},
		{
			rule: "port_metadata_unpack goes over the port's data", parser: "state start { p.extract(ig); pair2_t q = port_metadata_unpack<pair2_t>(p); p.extract(hdr.h); m.m = q.x;",
			body: "hdr.h.b = m.m + 1;", frames: []string{"05 09 0000 00000000 -> 05 01 0000 00000000"},
		},
		{
			rule: "port_metadata_unpack of a value that is not wanted", parser: "state start { p.extract(ig); port_metadata_unpack<pair2_t>(p); p.extract(hdr.h);",
			body: "hdr.h.b = 1;", frames: []string{"05 09 0000 00000000 -> 05 01 0000 00000000"},
		},
		{
			rule: "min and max of signs and literals", body: "int<8> x = (int<8>)hdr.h.a; hdr.h.b = (bit<8>)min(x, 8s5); hdr.h.c = 8w0 ++ (bit<8>)max(x, 8s5);",
			frames: []string{"ff 00 0000 00000000 -> ff ff 0005 00000000", "07 00 0000 00000000 -> 07 05 0007 00000000"},
		},
		{
			rule: "sizes of a struct and of a stack", locals: "one_t[3] st; pair_t q;", body: "hdr.h.b = (bit<8>)sizeInBits(q); hdr.h.c = (bit<16>)sizeInBytes(q); hdr.h.d = sizeInBits(hdr.h.a);", frames: []string{zero + "00 18 0003 00000008"},
		},
		{
			rule: "invalidate: a header", locals: "one_t o;", body: "o = { 5 }; invalidate(o); hdr.h.b = o.isValid() ? 8w1 : 2;", frames: []string{zero + "00 02 0000 00000000"},
		},
		{
			rule: "invalidate: an element by a variable", locals: "one_t[2] st;", body: "st[0] = { 5 }; st[1] = { 6 }; invalidate(st[hdr.h.a].v); hdr.h.b = st[0].v; hdr.h.c = 8w0 ++ st[1].v;",
			frames: []string{"00 00 0000 00000000 -> 00 00 0006 00000000", "01 00 0000 00000000 -> 01 05 0000 00000000"},
		},
		{
			rule: "invalidate: the port drops", body: "if (hdr.h.a == 1) { tm.bypass_egress = 0; invalidate(tm.ucast_egress_port); }",
			frames: []string{"00 00 0000 00000000 -> 00 00 0000 00000000", "01 00 0000 00000000 -> dropped"},
		},
		{
			rule: "drop_ctl drops at ingress", body: "dprsr.drop_ctl = hdr.h.a[2:0];",
			frames: []string{"00 00 0000 00000000 -> 00 00 0000 00000000", "01 00 0000 00000000 -> dropped"},
		},
		{
			rule: "a parser's error drops where nobody reads it", parser: parser + "verify(hdr.h.a != 1, error.NoMatch);",
			frames: []string{"00 00 0000 00000000 -> 00 00 0000 00000000", "01 00 0000 00000000 -> dropped"},
		},
		{
			rule: "a parser's error is read", parser: parser + "verify(hdr.h.a != 1, error.NoMatch);", body: "hdr.h.c = prsr.parser_err;",
			frames: []string{"00 00 0000 00000000 -> 00 00 0000 00000000", "01 00 0000 00000000 -> 01 00 0001 00000000"},
		},
		{
			rule: "a parser's error of a stack", parser: "one_t[1] st; state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); transition select(hdr.h.a) { 1: more; default: done; } } state more { p.extract(st.next); p.extract(st.next); transition done; } state done {", body: "hdr.h.c = prsr.parser_err;",
			frames: []string{"00 00 0000 00000000 -> 00 00 0000 00000000"},
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if c.parser == "" {
				c.parser = parser
			}
			pl := loadText(t, tnaText("", c.parser, c.locals, c.body)).New()
			if err := stf.Configure(pl, "t", []byte(c.entries)); err != nil {
				t.Fatal(err)
			}
			exchange(t, pl, c.frames...)
		})
	}
}

// Counters of TNA count packets and their bytes, less what the program takes off.
func TestRulesOfTNACounters(t *testing.T) {
	pl := loadText(t, tnaText("", tnaStart, "Counter<bit<32>, bit<8>>(2, CounterType_t.PACKETS_AND_BYTES) n; Counter<bit<32>, bit<8>>(2, CounterType_t.PACKETS_AND_BYTES) unused;",
		"n.count(0); n.count(1, 4); n.count(1, adjust_byte_count = 5); n.count(9);")).New()
	var v Verdict
	pl.Process(make([]byte, 30), &Intrinsic{}, &v)
	for _, c := range []struct {
		name           string
		at             int
		packets, bytes uint64
	}{
		{"I.n", 0, 1, 30}, {"I.n", 1, 2, 26 + 25}, {"I.n", 2, 0, 0}, {"I.n", -1, 0, 0}, {"unused", 0, 0, 0},
	} {
		n, err := pl.Counter(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if n.Packets(c.at) != c.packets || n.Bytes(c.at) != c.bytes {
			t.Errorf("%s[%d] has %d packets of %d bytes, expected %d of %d", c.name, c.at, n.Packets(c.at), n.Bytes(c.at), c.packets, c.bytes)
		}
	}
}

// What of TNA and v1model the model does not run is refused by its name, not left out.
func TestRulesOfWhatIsNotRun(t *testing.T) {
	tna := func(locals, body string) string { return tnaText("", tnaStart, locals, body) }
	const twice = "Register<bit<8>, bit<8>>(1) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) up = { void apply(inout bit<8> v, out bit<8> rv) { rv = v; } }; "
	for _, c := range []struct{ rule, text, want string }{
		{"Register without its types", tna("Register(4) r;", ""), "the type argument T of Register cannot be inferred: write Register<...>(...)"},
		{"Register of _", tna("Register<_, bit<8>>(4) r;", ""), "not supported: Register of _"},
		{"what Register.write gives", tna("Register<bit<8>, bit<8>>(4) r;", "hdr.h.a = r.write(0, 1);"), "not supported: what Register.write gives"},
		{"what DirectRegister.write gives", tna("DirectRegister<bit<8>>() r; action a() { hdr.h.a = r.write(1); } table t { actions = { a; } registers = r; const default_action = a(); }", "t.apply();"), "not supported: what DirectRegister.write gives"},
		{"execute_log", tna(twice, "hdr.h.a = up.execute_log();"), "not supported"},
		{"predicate", tna(twice, "hdr.h.a = up.predicate();"), "not supported"},
		{"MathUnit", tna("MathUnit<bit<8>>(MathOp_t.MUL, 2) mu;", "hdr.h.a = mu.execute(hdr.h.a);"), "not supported"},
		{"is_validated", tna("", "if (is_validated(hdr.h.a)) { hdr.h.b = 1; }"), "not supported"},
		{"funnel_shift_right", tna("", "funnel_shift_right(hdr.h.a, hdr.h.b, hdr.h.b, 3);"), "not supported"},
		{"min of more than a word", tna("", "bit<72> x = min(hdr.h.s, 72w5); hdr.h.a = x[7:0];"), "not supported: min of bit<72>"},
		{"an object that is no register's action", tna("Register<bit<8>, bit<8>>(1) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) up;", "hdr.h.a = up.execute(0);"), "lacks a body for the abstract method apply"},
		{"v1model: a hash algorithm that is not constant", v1Text("", "", "HashAlgorithm g = HashAlgorithm.crc16; hash(hdr.h.c, g, 16w0, { hdr.h.a }, 16w4);"), "not supported: a hash algorithm that is not constant"},
		{"v1model: a clone's type that is not constant", v1Text("", "", "CloneType g = CloneType.I2E; clone(g, 32w1);"), "not supported: a clone type that is not constant"},
		{"v1model: a field list that is not constant", v1Text("", "", "resubmit_preserving_field_list(hdr.h.a);"), "must be known when the program is compiled"},
		{"v1model: a message that is not constant", v1Text("", "", "log_msg(\"{}\" ++ \"x\", { hdr.h.a });"), ""},
	} {
		_, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(c.text)}}, "p.p4", Options{})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s is refused: %v", c.rule, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !located.MatchString(err.Error())):
			t.Errorf("%s: error is %v, expected %q", c.rule, err, c.want)
		}
	}
}
