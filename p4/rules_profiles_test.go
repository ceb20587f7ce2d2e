package p4

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// Members and groups of action profiles and selectors, as the control plane makes them (v1model, after P4Runtime): what is refused,
// and which action a packet gets.
func TestRulesOfProfiles(t *testing.T) {
	const locals = `action set(bit<8> v) { hdr.h.b = v; } action other() { hdr.h.b = 99; }
    action_profile(8) ap;
    action_selector(HashAlgorithm.identity, 8, 16) sel;
    table p { key = { hdr.h.a: exact; } actions = { set; NoAction; } implementation = ap; const default_action = NoAction(); }
    table s { key = { hdr.h.a: exact; hdr.h.c: selector; } actions = { set; NoAction; } implementation = sel; const default_action = NoAction(); }
    table plain { key = { hdr.h.a: exact; } actions = { set; other; NoAction; } const default_action = NoAction(); }`
	pl := loadText(t, v1Text("", locals, "p.apply(); s.apply(); plain.apply();")).New()
	set := func(v int64) Action { return Action{Name: "set", Args: []*big.Int{big.NewInt(v)}} }
	key := func(v int64) []Match { return []Match{{Value: big.NewInt(v)}} }
	for _, c := range []struct {
		rule string
		err  error
		want string
	}{
		{"a member", pl.AddMember("p", 1, set(11)), ""},
		{"another", pl.AddMember("p", 2, set(12)), ""},
		{"a member of a selector", pl.AddMember("s", 1, set(21)), ""},
		{"the second of it", pl.AddMember("s", 2, set(22)), ""},
		{"one without an action", pl.AddMember("s", 3, Action{Name: "NoAction"}), ""},
		{"a member that is there", pl.AddMember("p", 1, set(13)), "member 1 is there already, or is 0"},
		{"a member 0", pl.AddMember("p", 0, set(13)), "member 0 is there already, or is 0"},
		{"a member of another action", pl.AddMember("p", 3, Action{Name: "other"}), `unknown action "other"`},
		{"a member whose data does not fit", pl.AddMember("p", 3, set(256)), "value 256 does not fit 8 bits"},
		{"a member without its data", pl.AddMember("p", 3, Action{Name: "set"}), "takes 1 arguments, 0 given"},
		{"a member of a table without a profile", pl.AddMember("plain", 1, set(1)), "plain"},
		{"a member of no table", pl.AddMember("none", 1, set(1)), `unknown table "none"`},

		{"a group", pl.AddGroup("s", 1, 1, 2), ""},
		{"a group of one", pl.AddGroup("s", 2, 2), ""},
		{"a group of one member twice", pl.AddGroup("s", 3, 1, 1, 2), ""},
		{"a group that is there", pl.AddGroup("s", 1, 1), "group 1 is there already, or is 0"},
		{"a group 0", pl.AddGroup("s", 0, 1), "group 0 is there already, or is 0"},
		{"a group of no such member", pl.AddGroup("s", 4, 9), "9"},
		{"a group of no table", pl.AddGroup("none", 1, 1), `unknown table "none"`},
		{"a group of a table without a selector", pl.AddGroup("plain", 1, 1), "plain"},

		{"an entry of a member", pl.AddEntry("p", Entry{Keys: key(1), Member: 1}), ""},
		{"an entry of another", pl.AddEntry("p", Entry{Keys: key(2), Member: 2}), ""},
		{"an entry of an action", pl.AddEntry("p", Entry{Keys: key(3), Action: set(33)}), ""},
		{"an entry of no such member", pl.AddEntry("p", Entry{Keys: key(4), Member: 9}), "table I.p: no member 9 in I.ap"},
		{"an entry of a group without a selector", pl.AddEntry("p", Entry{Keys: key(4), Group: 1}), "I.ap"},
		{"an entry of a group", pl.AddEntry("s", Entry{Keys: key(5), Group: 1}), ""},
		{"an entry of a group of three", pl.AddEntry("s", Entry{Keys: key(6), Group: 3}), ""},
		{"an entry of a selector's member", pl.AddEntry("s", Entry{Keys: key(7), Member: 2}), ""},
		{"an entry of no such group", pl.AddEntry("s", Entry{Keys: key(8), Group: 9}), "table I.s: no group 9 in I.sel"},
		{"an entry of a member without a profile", pl.AddEntry("plain", Entry{Keys: key(1), Member: 1}), "plain"},
	} {
		switch {
		case c.want == "" && c.err != nil:
			t.Errorf("%s: %v", c.rule, c.err)
		case c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want)):
			t.Errorf("%s: error is %v, expected %q", c.rule, c.err, c.want)
		}
	}
	exchange(t, pl,
		"01 00 0000 00000000 -> 01 0b 0000 00000000", "02 00 0000 00000000 -> 02 0c 0000 00000000", "03 00 0000 00000000 -> 03 21 0000 00000000", "04 00 0000 00000000 -> 04 00 0000 00000000",
		"05 00 0000 00000000 -> 05 15 0000 00000000", "05 00 0001 00000000 -> 05 16 0001 00000000", "05 00 0002 00000000 -> 05 15 0002 00000000",
		"06 00 0000 00000000 -> 06 15 0000 00000000", "06 00 0001 00000000 -> 06 15 0001 00000000", "06 00 0002 00000000 -> 06 16 0002 00000000",
		"07 00 0001 00000000 -> 07 16 0001 00000000")
	if err := pl.ClearTable("s"); err != nil {
		t.Fatal(err)
	}
	exchange(t, pl, "05 00 0000 00000000 -> 05 00 0000 00000000", "01 00 0000 00000000 -> 01 0b 0000 00000000")
	if err := pl.AddEntry("s", Entry{Keys: key(5), Group: 2}); err != nil {
		t.Errorf("groups stay while entries go: %v", err)
	}
	exchange(t, pl, "05 00 0000 00000000 -> 05 16 0000 00000000")
}

// Names of objects that the control plane asks for.
func TestRulesOfObjectNames(t *testing.T) {
	pl := loadText(t, v1Text("control c(inout bit<8> x) { register<bit<8>>(1) r; counter(1, CounterType.packets) n; meter(1, MeterType.packets) y; apply { r.read(x, 0); n.count(0); y.execute_meter(0, x); } }",
		"c() one; c() two; register<bit<16>>(3) r;", "one.apply(hdr.h.a); two.apply(hdr.h.b); r.write(0, 1);")).New()
	register := func(name string) error { _, err := pl.Register(name); return err }
	counter := func(name string) error { _, err := pl.Counter(name); return err }
	meter := func(name string) error { _, err := pl.Meter(name); return err }
	filter := func(name string) error { _, err := pl.Filter(name); return err }
	wred := func(name string) error { _, err := pl.Wred(name); return err }
	for _, c := range []struct {
		rule string
		err  error
		want string
	}{
		{"the whole name", register("I.one.r"), ""},
		{"its last parts", register("two.r"), ""},
		{"the whole name of one of several", register("I.r"), ""},
		{"a part that several have", register("r"), "r"},
		{"no such name", register("q"), `unknown register "q"`},
		{"a counter's", register("I.one.n"), "I.one.n"},
		{"a counter", counter("one.n"), ""},
		{"no counter", counter("one.r"), "one.r"},
		{"a meter", meter("two.y"), ""},
		{"no meter", meter("n"), "n"},
		{"no filter", filter("f"), `"f"`},
		{"no early drop", wred("w"), `"w"`},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: error is %v, expected %q", c.rule, c.err, c.want)
		}
	}
	r, err := pl.Register("I.r")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   int
		v    uint64
		want string
	}{{0, 1, ""}, {2, 0xffff, ""}, {3, 1, "3"}, {-1, 1, "-1"}, {0, 0x10000, "0x10000"}} {
		err := r.Write(c.at, c.v)
		if c.want == "" && (err != nil || r.Read(c.at) != c.v) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d at %d: error is %v and the value %d, expected %q", c.v, c.at, err, r.Read(max(c.at, 0)%3), c.want)
		}
	}
	if r.Len() != 3 || r.Read(0) != 1 || r.Read(1) != 0 {
		t.Errorf("%d cells: %d, %d", r.Len(), r.Read(0), r.Read(1))
	}
	if r.Reset(); r.Read(0) != 0 || r.Read(2) != 0 {
		t.Errorf("after a reset: %d, %d", r.Read(0), r.Read(2))
	}
}

// Slices and parts of more than a word as l-values, from constants and from other such (6.7, 12.1).
func TestRulesOfWidePlaces(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	const top = "struct wide_t { bit<128> x; bit<72> y; } void put(out bit<96> x, in bit<96> y) { x = y; } void both(inout bit<72> x) { x = x << 8; }"
	const shown = " hdr.h.a = x[127:120]; hdr.h.b = x[95:88]; hdr.h.c = x[39:24]; hdr.h.d = x[31:0];"
	exchangeAll(t, []frameRule{
		{
			rule: "12.1: a wide slice from a constant", top: top, body: "bit<128> x = 0; x[127:32] = 0x0102030405060708090a0b0c;" + shown,
			frames: []string{zero + "01 05 0c00 00000000"},
		},
		{
			rule: "12.1: a wide slice that begins within a word", top: top, body: "bit<128> x = 0; x[111:16] = 0x0102030405060708090a0b0c;" + shown,
			frames: []string{zero + "00 03 0a0b 0b0c0000"},
		},
		{
			rule: "12.1: a wide slice of no whole bytes", top: top, body: "bit<128> x = 0; x[99:20] = 0x0102030405060708090a;" + shown,
			frames: []string{zero + "00 10 8090 90a00000"},
		},
		{
			rule: "12.1: a wide slice from a field", top: top, body: "bit<128> x = 0; x[103:32] = hdr.h.s;" + shown,
			frames: []string{zero + "00 32 3900 00000000"},
		},
		{
			rule: "12.1: a wide slice from a slice of itself", top: top, body: "bit<128> x = 0x0102030405060708090a0b0c0d0e0f10; x[127:40] = x[87:0];" + shown,
			frames: []string{zero + "06 0a 0c0d 0d0e0f10"},
		},
		{
			rule: "12.1: a wide slice keeps what is beside it", top: top, body: "bit<128> x = 128w0 - 1; x[99:28] = 0;" + shown,
			frames: []string{zero + "ff 00 000f 0fffffff"},
		},
		{
			rule: "12.1: a wide slice from a choice", top: top, body: "bit<128> x = 0; x[103:32] = hdr.h.a == 0 ? hdr.h.s : 72w0;" + shown,
			frames: []string{zero + "00 32 3900 00000000"},
		},
		{
			rule: "12.1: a wide slice by a compound operator", top: top, body: "bit<128> x = 0; x[103:32] = hdr.h.s; x[103:32] += 1; x[103:32] ^= 72w0xff << 56;" + shown,
			frames: []string{zero + "00 cd 3a00 00000000"},
		},
		{
			rule: "6.8: a wide slice as out", top: top, body: "bit<128> x = 0; put(x[127:32], 0x0102030405060708090a0b0c);" + shown,
			frames: []string{zero + "01 05 0c00 00000000"},
		},
		{
			rule: "6.8: a wide slice as inout", top: top, body: "bit<128> x = 0; x[103:32] = hdr.h.s; both(x[103:32]);" + shown,
			frames: []string{zero + "00 33 0000 00000000"},
		},
		{
			rule: "12.1: a wide field of a struct from a list", top: top, body: "wide_t w = { 0x0102030405060708090a0b0c0d0e0f10, hdr.h.s }; bit<128> x = w.x; hdr.h.d = w.y[71:40]; hdr.h.a = x[127:120]; hdr.h.c = x[71:56];",
			frames: []string{zero + "01 00 0809 31323334"},
		},
		{
			rule: "12.1: two wide fields are swapped", top: top, body: "tuple<bit<72>, bit<72>> q = { hdr.h.s, 5 }; q = { q[1], q[0] }; hdr.h.a = q[0][7:0]; hdr.h.d = q[1][71:40];",
			frames: []string{zero + "05 00 0000 31323334"},
		},
	})
}

// Multicast groups and mirrors that are set, changed and taken back.
func TestRulesOfReplication(t *testing.T) {
	pl := loadText(t, wayRule{ingress: "if (hdr.h.a == 1) { sm.mcast_grp = 9; } if (hdr.h.a == 2) { clone(CloneType.I2E, 7); }"}.text()).New()
	ports := func(a byte) (out []uint16) {
		var v Verdict
		pl.Process([]byte{a, 0, 0, 0}, &Intrinsic{}, &v)
		for _, s := range v.Sent {
			out = append(out, s.Port)
		}
		return out
	}
	for _, step := range []struct {
		rule   string
		do     func()
		packet byte
		want   string
	}{
		{"no group", func() {}, 1, ""},
		{"a group of two", func() { pl.SetMulticast(9, []Replica{{Port: 2}, {Port: 3}}) }, 1, "2 3"},
		{"another group is another's", func() { pl.SetMulticast(8, []Replica{{Port: 5}}) }, 1, "2 3"},
		{"the group changes", func() { pl.SetMulticast(9, []Replica{{Port: 4}}) }, 1, "4"},
		{"the group goes", func() { pl.SetMulticast(9, nil) }, 1, ""},
		{"no mirror", func() {}, 2, "1"},
		{"a mirror", func() { pl.SetMirror(7, Mirror{Port: 6}) }, 2, "1 6"},
		{"the mirror changes", func() { pl.SetMirror(7, Mirror{Port: 8}) }, 2, "1 8"},
		{"a mirror to a group", func() { pl.SetMulticast(9, []Replica{{Port: 2}, {Port: 3}}); pl.SetMirror(7, Mirror{Group: 9}) }, 2, "1 2 3"},
	} {
		step.do()
		var got []string
		for _, p := range ports(step.packet) {
			got = append(got, big.NewInt(int64(p)).String())
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != step.want {
			t.Errorf("%s: ports %q, expected %q", step.rule, s, step.want)
		}
	}
	if err := stf.Configure(pl, "x", []byte("remove all")); err != nil {
		t.Error(err)
	}
}
