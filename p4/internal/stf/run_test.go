package stf_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/p4/internal/run"
	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// The program that the scripts below run on: a packet's first byte chooses what happens to it, the second is the result.
const program = `#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<16> c; }
header o_t { bit<8> v; }
struct headers { h_t h; o_t[2] s; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    register<bit<16>>(4) r;
    counter(4, CounterType.packets_and_bytes) n;
    action set(bit<8> v) { hdr.h.b = v; }
    action both(bit<8> v, bit<16> w) { hdr.h.b = v; hdr.h.c = w; }
    action port(bit<9> p) { sm.egress_spec = p; }
    action drop() { mark_to_drop(sm); }
    action group(bit<16> g) { sm.mcast_grp = g; }
    action mirror(bit<32> s) { clone(CloneType.I2E, s); }
    table exact_ { key = { hdr.h.a: exact; hdr.h.c[11:4]: exact; } actions = { set; both; NoAction; } default_action = NoAction(); }
    table lpm_ { key = { hdr.h.c: lpm; } actions = { set; } }
    table ternary_ { key = { hdr.h.a: ternary; hdr.s[1].v: ternary; hdr.h.isValid(): exact; } actions = { set; } }
    table range_ { key = { hdr.h.a: range; } actions = { set; } }
    table optional_ { key = { hdr.h.a: optional; } actions = { set; } }
    table to { key = { hdr.h.a: exact; } actions = { port; drop; group; mirror; } default_action = port(1); }
    apply {
        bit<16> x;
        n.count((bit<32>)hdr.h.a & 3);
        r.read(x, 2);
        if (x > 0) { hdr.h.c = x; }
        exact_.apply(); lpm_.apply(); ternary_.apply(); range_.apply(); optional_.apply(); to.apply();
        assert(hdr.h.a != 0xff);
    }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply {
    if (hdr.h.a == 0x70) { hdr.h.c = (bit<16>)sm.enq_timestamp; }
    if (hdr.h.a == 0x71) { hdr.h.c = (bit<16>)sm.deq_timedelta; }
    if (hdr.h.a == 0x72) { hdr.h.c = (bit<16>)sm.enq_qdepth; }
    if (hdr.h.a == 0x73) { hdr.h.c = (bit<16>)sm.deq_qdepth; }
    if (hdr.h.a == 0x74) { hdr.h.c = (bit<16>)sm.ingress_global_timestamp; }
    if (hdr.h.a == 0x75) { hdr.h.c = (bit<16>)sm.ingress_port; }
    if (hdr.h.a == 0x76) { hdr.h.c = (bit<16>)sm.egress_rid; }
} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`

func load(t *testing.T) *run.Program {
	t.Helper()
	p, err := p4.LoadFS(fstest.MapFS{"p.p4": {Data: []byte(program)}}, "p.p4", p4.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// failures runs a script on a new switch.
func failures(t *testing.T, prog *run.Program, script string, named bool) ([]stf.Failure, error) {
	t.Helper()
	s, err := stf.Parse("x", []byte(script))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	s.NamedPorts = named
	r, err := stf.Run(prog, s)
	return r.Failures, err
}

// Scripts that hold: commands that set state, and what the packets behind them show.
func TestScriptsThatHold(t *testing.T) {
	prog := load(t)
	for _, c := range []struct{ rule, script string }{
		{"no commands", ""},
		{"a packet that leaves", "packet 0 05 00 0000\nexpect 1 05 00 0000"},
		{"more bytes may follow", "packet 0 05 00 0000 eeff\nexpect 1 05"},
		{"none may behind $", "packet 0 05 00 0000 ee\nexpect 1 05 00 0000 ee $"},
		{"$ behind a packet's digits says nothing", "packet 0 05 00 0000 $\nexpect 1 05 00 0000 $"},
		{"any digit", "packet 0 05 00 12ab\nexpect 1 0* ** *2a* $"},
		{"capitals", "packet 0 05 00 aBCd\nexpect 1 05 00 AbcD $"},
		{"half a byte", "packet 0 05 00 0000\nexpect 1 05 0"},
		{"anything by a port", "packet 0 05 00 0000\npacket 0 06 00 0000\nexpect 1"},
		{"anything by a port, which is nothing", "add to hdr.h.a:5 drop()\npacket 0 05 00 0000\nexpect 1"},
		{"the order of a port", "packet 0 05 00 0000\npacket 0 06 00 0000\nexpect 1 05\nexpect 1 06"},
		{"ports have orders of their own", "add to hdr.h.a:6 port(p:2)\npacket 0 05 00 0000\npacket 0 06 00 0000\npacket 0 07 00 0000\nexpect 2 06\nexpect 1 05\nexpect 1 07"},
		{"expectations may stand in front", "expect 1 05\npacket 0 05 00 0000"},
		{"numbers of ports", "packet 0x1f 75 00 0000\nexpect 0b1 75 00 001f"},

		{"an exact key", "add exact_ hdr.h.a:5 hdr.h.c.slice:0x12 set(v:7)\npacket 0 05 00 0120\nexpect 1 05 07 0120"},
		{"a key by its last part", "add exact_ a:5 c.slice:0x12 set(v:7)\npacket 0 05 00 0120\nexpect 1 05 07 0120"},
		{"a key's full name", "add I.exact_ hdr.h.a:5 hdr.h.c[11:4]:0x12 I.set(v:7)\npacket 0 05 00 0120\nexpect 1 05 07 0120"},
		{"keys in another order", "add exact_ hdr.h.c.slice:0x12 hdr.h.a:5 set(v:7)\npacket 0 05 00 0120\nexpect 1 05 07 0120"},
		{"a value of base 2", "add exact_ a:0b101 c.slice:0b10010 set(v:0b111)\npacket 0 05 00 0120\nexpect 1 05 07 0120"},
		{"a value in capitals", "add exact_ a:0X0A c.slice:0B10010 set(v:0XF)\npacket 0 0a 00 0120\nexpect 1 0a 0f 0120"},
		{"arguments by name", "add exact_ a:5 c.slice:0x12 both(w:0x304, v:2)\npacket 0 05 00 0120\nexpect 1 05 02 0304"},
		{"an action without arguments", "add exact_ a:5 c.slice:0x12 NoAction()\nsetdefault exact_ set(v:9)\npacket 0 05 00 0120\nexpect 1 05 00 0120\npacket 0 06 00 0120\nexpect 1 06 09 0120"},
		{"blanks in front of the parenthesis", "add exact_ a:5 c.slice:0x12 set (v:7)\npacket 0 05 00 0120\nexpect 1 05 07 0120"},
		{"blanks within the parentheses", "add exact_ a:5 c.slice:0x12 set( v : 7 )\npacket 0 05 00 0120\nexpect 1 05 07 0120"},
		{"a default action", "setdefault exact_ set(v:3)\npacket 0 05 00 0120\nexpect 1 05 03 0120"},
		{"a comment", "packet 0 05 00 0000 # 11\n# expect 1 06\nexpect 1 05 00 0000 $ # done"},

		{"a prefix", "add lpm_ c:0x1200/8 set(v:1)\nadd lpm_ c:0x1234/16 set(v:2)\npacket 0 05 00 1233\nexpect 1 05 01\npacket 0 05 00 1234\nexpect 1 05 02"},
		{"a prefix of none", "add lpm_ c:0/0 set(v:1)\npacket 0 05 00 1233\nexpect 1 05 01"},
		{"a prefix of digits and *", "add lpm_ c:0x12** set(v:1)\npacket 0 05 00 12ff\nexpect 1 05 01\npacket 0 05 00 13ff\nexpect 1 05 00"},
		{"any prefix", "add lpm_ c:* set(v:1)\npacket 0 05 00 1233\nexpect 1 05 01"},
		{"a prefix that is left out", "add lpm_ set(v:1)\npacket 0 05 00 1233\nexpect 1 05 01"},

		{"a mask", "add ternary_ 1 hdr.h.a:0x05&&&0x0f hdr.h.isValid():1 set(v:1)\npacket 0 f5 00 0000\nexpect 1 f5 01\npacket 0 f6 00 0000\nexpect 1 f6 00"},
		{"the greatest priority", "add ternary_ 1 hdr.h.a:0x05 hdr.h.$valid$:1 set(v:1)\nadd ternary_ 2 hdr.h.a:* hdr.h.$valid$:1 set(v:2)\npacket 0 05 00 0000\nexpect 1 05 02"},
		{"of equal priorities the first", "add ternary_ 1 hdr.h.a:0x05 hdr.h.$valid$:1 set(v:1)\nadd ternary_ 1 hdr.h.a:* hdr.h.$valid$:1 set(v:2)\npacket 0 05 00 0000\nexpect 1 05 01"},
		{"an element of a stack", "add ternary_ 1 hdr.s$1.v:0 hdr.h.$valid$:1 set(v:1)\npacket 0 05 00 0000\nexpect 1 05 01"},
		{"an element of a stack in brackets", "add ternary_ 1 hdr.s[1].v:0 hdr.h.$valid$:1 set(v:1)\npacket 0 05 00 0000\nexpect 1 05 01"},
		{"wildcards of base 2", "add ternary_ 1 a:0b0000*1*1 hdr.h.$valid$:1 set(v:1)\npacket 0 0d 00 0000\nexpect 1 0d 01\npacket 0 09 00 0000\nexpect 1 09 00"},
		{"digits that wildcards leave out are zero", "add ternary_ 1 a:0x* hdr.h.$valid$:1 set(v:1)\npacket 0 0d 00 0000\nexpect 1 0d 01\npacket 0 1d 00 0000\nexpect 1 1d 00"},

		{"a range", "add range_ 1 a:3..5 set(v:1)\npacket 0 03 00 0000\npacket 0 05 00 0000\npacket 0 06 00 0000\nexpect 1 03 01\nexpect 1 05 01\nexpect 1 06 00"},
		{"a range by ->", "add range_ 1 a:0x3->5 set(v:1)\npacket 0 04 00 0000\nexpect 1 04 01"},
		{"a range of one value", "add range_ 1 a:4 set(v:1)\npacket 0 04 00 0000\nexpect 1 04 01\npacket 0 05 00 0000\nexpect 1 05 00"},
		{"optional: a value", "add optional_ 1 a:4 set(v:1)\npacket 0 04 00 0000\nexpect 1 04 01\npacket 0 05 00 0000\nexpect 1 05 00"},
		{"optional: any", "add optional_ 1 a:* set(v:1)\npacket 0 04 00 0000\nexpect 1 04 01"},
		{"remove all", "add range_ 1 a:3..5 set(v:1)\nremove all\npacket 0 04 00 0000\nexpect 1 04 00"},
		{"an entry counts from its place on", "packet 0 04 00 0000\nadd range_ 1 a:4 set(v:1)\npacket 0 04 00 0000\nexpect 1 04 00\nexpect 1 04 01"},
		{"wait", "packet 0 04 00 0000\nwait\nexpect 1 04"},

		{"a register", "register_write r 2 0x1234\npacket 0 05 00 0000\nexpect 1 05 00 1234\ncheck_register r 2 0x1234\ncheck_register I.r 1 0"},
		{"a register that is reset", "register_write r 2 0x1234\nregister_reset r\npacket 0 05 00 0000\nexpect 1 05 00 0000\ncheck_register r 2 0"},
		{"a counter", "packet 0 05 00 0000\npacket 0 09 00 0000 eeff\nexpect 1\ncheck_counter n(1) == 2\ncheck_counter n(1) packets == 2\ncheck_counter n(1) bytes == 10\ncheck_counter I.n(2)==0"},

		{"multicast", "mc_mgrp_create 3\nmc_node_create 7 4 5\nmc_node_create 8 4\nmc_node_associate 3 0\nmc_node_associate 3 1\nadd to a:0x76 group(g:3)\n" +
			"packet 0 76 00 0000\nexpect 4 76 00 0007\nexpect 4 76 00 0008\nexpect 5 76 00 0007"},
		{"a clone", "mirroring_add 9 4\nadd to a:5 mirror(s:9)\npacket 0 05 00 0000\nexpect 4 05\nexpect 0 05"},
		{"a clone to a group", "mirroring_add_mc 9 3\nmc_mgrp_create 3\nmc_node_create 7 4 5\nmc_node_associate 3 0\nadd to a:5 mirror(s:9)\npacket 0 05 00 0000\nexpect 4 05\nexpect 5 05\nexpect 0 05"},

		{"meta: times", "meta ingress_time=5us enqueue_time=7us dequeue_time=10us\npacket 0 70 00 0000\nexpect 1 70 00 0007\npacket 0 71 00 0000\nexpect 1 71 00 0003\npacket 0 74 00 0000\nexpect 1 74 00 0005"},
		{"meta: times that are not given follow the ingress", "meta ingress_time=5us\npacket 0 70 00 0000\nexpect 1 70 00 0005\npacket 0 71 00 0000\nexpect 1 71 00 0000"},
		{"meta: queues", "meta enqueue_packets=4 dequeue_packets=0x9 enqueue_bytes=9KiB dequeue_bytes=100 queue=3 class=2\npacket 0 72 00 0000\nexpect 1 72 00 0004\npacket 0 73 00 0000\nexpect 1 73 00 0009"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got, err := failures(t, prog, c.script, false)
			if err != nil {
				t.Error(err)
			}
			for _, f := range got {
				t.Errorf("line %d: %s", f.Line, f.Text)
			}
		})
	}
}

// Scripts that do not: a failure names the line of what was expected, or of the packet that nobody expected.
func TestScriptsThatFail(t *testing.T) {
	prog := load(t)
	for _, c := range []struct {
		rule, script string
		want         []stf.Failure
	}{
		{
			"nothing leaves", "expect 1 05",
			[]stf.Failure{{1, "port 1: expected 05, nothing left"}},
		},
		{
			"nothing leaves where $ stands", "expect 1 05 00 $",
			[]stf.Failure{{1, "port 1: expected 0500$, nothing left"}},
		},
		{
			"a packet that nobody expected", "\npacket 0 05 00 0000",
			[]stf.Failure{{2, "port 1: this packet left as 05000000, nothing was expected"}},
		},
		{
			"one packet more", "packet 0 05 00 0000\nexpect 1 05\npacket 0 06 00 0000",
			[]stf.Failure{{3, "port 1: this packet left as 06000000, nothing was expected"}},
		},
		{
			"a byte differs", "packet 0 05 00 0000\nexpect 1 05 01",
			[]stf.Failure{{2, "port 1: byte 1 differs\n  expected 0501\n  got      05000000 (packet of line 1)"}},
		},
		{
			"the first byte that differs is named", "packet 0 05 00 0000\nexpect 1 0* 00 ff ff $",
			[]stf.Failure{{2, "port 1: byte 2 differs\n  expected 0*00ffff$\n  got      05000000 (packet of line 1)"}},
		},
		{
			"too short", "packet 0 05 00 0000\nexpect 1 05 00 0000 ee",
			[]stf.Failure{{2, "port 1: too short: 4 bytes, expected 5\n  expected 05000000ee\n  got      05000000 (packet of line 1)"}},
		},
		{
			"too short for a *", "packet 0 05 00 0000\nexpect 1 05 00 0000 **",
			[]stf.Failure{{2, "port 1: too short: 4 bytes, expected 5\n  expected 05000000**\n  got      05000000 (packet of line 1)"}},
		},
		{
			"too long", "packet 0 05 00 0000 ee\nexpect 1 05 00 0000 $",
			[]stf.Failure{{2, "port 1: too long: 5 bytes, expected 4\n  expected 05000000$\n  got      05000000ee (packet of line 1)"}},
		},
		{
			"the wrong port", "packet 0 05 00 0000\nexpect 2 05",
			[]stf.Failure{{1, "port 1: this packet left as 05000000, nothing was expected"}, {2, "port 2: expected 05, nothing left"}},
		},
		{
			"the wrong order", "packet 0 05 00 0000\npacket 0 06 00 0000\nexpect 1 06\nexpect 1 05",
			[]stf.Failure{
				{3, "port 1: byte 0 differs\n  expected 06\n  got      05000000 (packet of line 1)"},
				{4, "port 1: byte 0 differs\n  expected 05\n  got      06000000 (packet of line 2)"},
			},
		},
		{
			"a packet that is dropped", "add to a:5 drop()\npacket 0 05 00 0000\nexpect 1 05",
			[]stf.Failure{{3, "port 1: expected 05, nothing left"}},
		},
		{
			"a register", "register_write r 1 5\ncheck_register r 1 6",
			[]stf.Failure{{2, "register r[1] is 0x5, expected 0x6"}},
		},
		{
			"a counter of packets", "packet 0 05 00 0000\nexpect 1\ncheck_counter n(1) == 3",
			[]stf.Failure{{3, "counter n(1) has 1 packets, expected 3"}},
		},
		{
			"a counter of bytes", "packet 0 05 00 0000\nexpect 1\ncheck_counter n(1) bytes == 18446744073709551616",
			[]stf.Failure{{3, "counter n(1) has 4 bytes, expected 18446744073709551616"}},
		},
		{
			"an assertion of the program", "packet 0 ff 00 0000\nexpect 1",
			[]stf.Failure{{1, "packet: 1 of the program's assertions are false"}},
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got, err := failures(t, prog, c.script, false)
			if err != nil {
				t.Error(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("failures are %+v, expected %+v", got, c.want)
			}
		})
	}
}

// Where ports exist by being named, what leaves by another is lost.
func TestNamedPorts(t *testing.T) {
	prog := load(t)
	for _, c := range []struct {
		rule, script string
		want         int
	}{
		{"a port that no line names", "packet 0 05 00 0000", 0},
		{"one that a packet names", "packet 1 05 00 0000", 1},
		{"one that an expectation names", "packet 0 05 00 0000\nexpect 1 05\npacket 0 06 00 0000", 1},
		{"an expectation of another", "packet 0 05 00 0000\nexpect 2 05", 1},
	} {
		got, err := failures(t, prog, c.script, true)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %+v, %v; expected %d failures", c.rule, got, err, c.want)
		}
	}
}

// Commands that cannot be carried out end the script, with their line.
func TestCommandsThatCannotBe(t *testing.T) {
	prog := load(t)
	for _, c := range []struct{ script, want string }{
		{"add none a:1 set(v:1)", `x:1: unknown table "none"`},
		{"setdefault none set(v:1)", `x:1: unknown table "none"`},
		{"setdefault lpm_ drop()", `unknown action "drop"`},
		{"setdefault lpm_ set()", "action I.set: argument v missing"},
		{"setdefault lpm_ set(w:1)", "action I.set: argument v missing"},
		{"setdefault lpm_ set(v:1, w:1)", "action I.set takes 1 arguments, 2 given"},
		{"setdefault lpm_ set(v:256)", "value 256 does not fit 8 bits"},
		{"wait\nadd lpm_ b:1 set(v:1)", `x:2: table I.lpm_ has no key "b", or has it twice: its keys are hdr.h.c`},
		{"add lpm_ c:1 c:2 set(v:1)", `table I.lpm_ has no key "c", or has it twice: its keys are hdr.h.c`},
		{"add lpm_ c:1/17 set(v:1)", "table I.lpm_: key c: prefix of 17 bits, the key has 16"},
		{"add lpm_ c:0x1* set(v:1)\nadd lpm_ c:0x*1 set(v:1)", "is no prefix"},
		{"add lpm_ c:0x10000 set(v:1)", "value 65536 does not fit 16 bits"},
		{"add exact_ a:1 set(v:1)", "x:1: table I.exact_: key hdr.h.c[11:4] has no value"},
		{"add exact_ a:* c.slice:1 set(v:1)", "table I.exact_: key hdr.h.a: an exact key takes no mask"},
		{"add exact_ a:1..2 c.slice:1 set(v:1)", "a key of kind exact takes no range"},
		{"add exact_ a:1 c.slice:1 set(v:1)\nadd exact_ a:1 c.slice:1 set(v:2)", "x:2: table I.exact_ has this entry already"},
		{"add exact_ a:1 c.slice:1 drop()", `unknown action "drop"`},
		{"add range_ 1 a:5..4 set(v:1)", "range 5..4 is empty"},
		{"add optional_ 1 a:1&&&3 set(v:1)", "an optional key is a value or any, not a mask"},
		{"register_write none 0 1", `x:1: `},
		{"register_write r 4 1", "x:1: "},
		{"register_write r 0 65536", "x:1: "},
		{"register_reset none", "x:1: "},
		{"check_register none 0 1", "x:1: "},
		{"check_register r 4 1", "x:1: register r has 4 cells"},
		{"check_counter none(0) == 1", "x:1: "},
		{"check_counter n(4) == 0", "x:1: counter n has 4 cells"},
		{"mc_node_associate 3 0", "x:1: no multicast group 3: mc_mgrp_create makes one"},
		{"mc_mgrp_create 3\nmc_node_create 1 2\nmc_node_associate 3 1", "x:3: no multicast node 1: there are 1"},
		{"lpf_set none 0 gain=1us", "x:1: "},
		{"wred_set none 0 min=1", "x:1: "},
	} {
		_, err := failures(t, prog, c.script, false)
		if err == nil || !strings.HasPrefix(err.Error(), "x:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, expected %q", c.script, err, c.want)
		}
	}
}

// Configure takes what sets state, and nothing else.
func TestConfigure(t *testing.T) {
	prog := load(t)
	for _, c := range []struct{ script, want string }{
		{"", ""},
		{"add to a:5 port(p:2)\nsetdefault to drop()\nregister_write r 0 1\nregister_reset r\nmirroring_add 1 2\nmc_mgrp_create 1\nremove all\nwait", ""},
		{"packet 0 05", "x:1: packet sets no state of the switch"},
		{"\nexpect 0 05", "x:2: expect sets no state of the switch"},
		{"check_register r 0 0", "x:1: check_register sets no state of the switch"},
		{"check_counter n(0) == 0", "x:1: check_counter sets no state of the switch"},
		{"meta queue=1", "x:1: meta sets no state of the switch"},
		{"add none a:5 port(p:2)", `x:1: unknown table "none"`},
		{"add to", "x:1: add: action with parentheses wanted at the end, as in drop()"},
	} {
		err := stf.Configure(prog.New(), "x", []byte(c.script))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is %v, expected %q", c.script, err, c.want)
		}
	}
}
