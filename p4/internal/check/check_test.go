package check

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/parse"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func load(src string, opts Options) (*ast.Program, error) {
	p, err := parse.Program("t.p4", []byte(src), parse.Options{Builtin: include.Builtin})
	if err != nil {
		return nil, err
	}
	return p, Program(p, opts)
}

const router = `
#include <core.p4>
#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> type_; }
struct headers { eth_t eth; eth_t[2] st; }
struct meta_t { bit<9> port; }
parser P(packet_in b, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.type_, s.ingress_port) { (0x800, _): more; (0x86dd &&& 0xff00, 1): more; default: accept; }
    }
    state more { b.extract(h.st.next); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply { } }
control Inner(inout headers h)(bit<16> n, register<bit<16>> r) {
    action set(bit<16> v) { h.eth.type_ = v + n; }
    table t { key = { h.eth.dst: exact; h.st[0].isValid(): exact; } actions = { set; NoAction; } const default_action = set(3); size = 64; }
    apply { if (t.apply().hit) { r.write((bit<32>)n, h.eth.type_); } }
}
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<16>>(8) reg;
    @name("first") Inner(1, reg) a;
    Inner(n = 2, r = reg) c;
    action fwd(bit<9> p) { s.egress_spec = p; }
    @name(".drop") action drop() { mark_to_drop(s); }
    table l { key = { h.eth.dst: lpm; } actions = { fwd; @defaultonly drop; } default_action = drop; const entries = { 48w0xff0000000000 &&& 0xff0000000000: fwd(1); _: fwd(2); } }
    apply {
        a.apply(h);
        c.apply(h);
        switch (l.apply().action_run) { fwd: { hash(m.port, HashAlgorithm.crc16, 9w0, { h.eth.dst, h.eth.src }, 10w4); } default: { exit; } }
    }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h.eth); b.emit(h.st); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
`

func TestInstances(t *testing.T) {
	p, err := load(router, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Main.Type.String(); !strings.HasPrefix(got, "package V1Switch<headers, meta_t>(") {
		t.Errorf("main is a %s", got)
	}
	if len(p.Main.Args) != 6 || len(p.Main.Children) != 6 {
		t.Fatalf("main has %d arguments and %d children, want 6", len(p.Main.Args), len(p.Main.Children))
	}
	ig := p.Main.Args[2].Instance
	var names []string
	for _, c := range ig.Children {
		names = append(names, c.ControlName)
	}
	if got := strings.Join(names, " "); ig.ControlName != "I" || got != "I.reg I.first I.c" {
		t.Errorf("%s has the children %s", ig.ControlName, got)
	}
	for i, n := range []int64{1, 2} {
		inner := ig.Children[i+1]
		if got := inner.Args[0].Int.Int64(); got != n {
			t.Errorf("%s has n = %d, want %d", inner.ControlName, got, n)
		}
		if inner.Args[1].Instance != ig.Children[0] {
			t.Errorf("%s has another register", inner.ControlName)
		}
		act := inner.Control.Locals[0].(*ast.ActionDecl)
		if act.ControlName != inner.ControlName+".set" {
			t.Errorf("the action is called %s", act.ControlName)
		}
		// v + n, where n is this instance's.
		add := act.Body.Stmts[0].(*ast.Assign).Rhs.(*ast.Binary)
		if v := add.Y.Const(); v == nil || v.Int.Int64() != n {
			t.Errorf("n in %s is %v, want %d", inner.ControlName, v, n)
		}
		tab := inner.Control.Locals[1].(*ast.TableDecl)
		if tab.ControlName != inner.ControlName+".t" || tab.Keys[1].Name != "h.st[0].$valid$" {
			t.Errorf("the table is called %s, its key %s", tab.ControlName, tab.Keys[1].Name)
		}
		if v := tab.Default.Bound[0].Expr.Const(); v == nil || v.Int.Int64() != 3 || !types.Equal(tab.Default.Bound[0].Expr.Type(), &types.Bit{Width: 16}) {
			t.Errorf("the default action's argument is %v", v)
		}
	}
	if got := ig.Control.Locals[4].(*ast.ActionDecl).ControlName; got != "drop" {
		t.Errorf("the action with a leading dot is called %s", got)
	}
}

func TestRejects(t *testing.T) {
	const head = "#include <core.p4>\n#include <v1model.p4>\nheader h_t { bit<8> a; }\nstruct s_t { bit<8> f; h_t h; h_t[2] hs; }\n"
	for _, c := range []struct{ src, want string }{
		{"const bit<8> x = y;", "t.p4:5:18: nothing is called y here: declare it before this place"},
		{"const bit<8> x = true;", "t.p4:5:18: the constant's value is of type bool, not bit<8>"},
		{"control c(inout s_t s) { apply { s.f = s.h.a + 16w1; } }", "t.p4:5:46: + has operands of type bit<8> and bit<16>: cast one"},
		{"control c(inout s_t s) { apply { s.g = 1; } }", "t.p4:5:36: s_t has no field g: did you mean f?"},
		{"control c(in s_t s) { apply { s.f = 1; } }", "t.p4:5:31: s is an in parameter: it cannot be changed; make it out or inout, or copy it to a variable"},
		{"control c(inout s_t s) { apply { if (s.f) { } } }", "t.p4:5:38: the condition is of type bit<8>, not bool"},
		{"control c(inout s_t s) { apply { s.f = s.h.a[8:1]; } }", "t.p4:5:40: slice [8:1] is out of range: the value has the bits 7 to 0"},
		{"control c(inout s_t s) { apply { s.hs[2] = s.h; } }", "t.p4:5:39: index 2 is out of range: there are 2 elements, 0 to 1"},
		{"control c(inout s_t s) { apply { s.hs.next = s.h; } }", "t.p4:5:39: next of a stack exists in a parser's states only: use an index"},
		{"control c() { table t { key = { } actions = { nope; } } apply { } }", "t.p4:5:47: no action is called nope here: declare it before the table"},
		{"control c() { table t { key = { } actions = { NoAction; } default_action = NoAction(1); } apply { } }", "t.p4:5:85: action NoAction takes 0 arguments, not 1"},
		{"parser p(packet_in b) { state start { transition next; } }", "t.p4:5:50: the parser has no state next"},
		{"parser p(packet_in b) { state s { transition accept; } }", "t.p4:5:8: the parser p has no state called start"},
		{"bit<8> f(in bit<8> x) { if (x == 0) { return 1; } }", "t.p4:5:8: the function f ends without return on some way through it"},
		{"control c(inout s_t s) { apply { s.f = 8w1 / 0; } }", "t.p4:5:44: division by zero"},
		{"const bool b = static_assert(1 + 1 == 3, \"no\");", "t.p4:5:16: static_assert failed: no"},
		{"control c(inout s_t s) { apply { hash(s.f, HashAlgorithm.crc33, 8w0, { s.f }, 8w1); } }", "the enum HashAlgorithm has no member crc33: did you mean crc32?"},
		{"control c(inout s_t s) { apply { c.apply(s); } }", "nothing is called c here"},
		{"control c(inout s_t s) { apply { bit<8> x = 1; bit<8> x = 2; } }", "x is declared already, at t.p4:5:41: rename one"},
		{"control c(inout s_t s) { apply { for (bit<8> i = 0; i < 4; i += 1) { } break; } }", "t.p4:5:72: break and continue belong in a loop"},
		{"control c(inout s_t s) { table t { key = { s.f: ternary; } actions = { NoAction; } priority_delta = true; entries = { 1: NoAction(); } } apply { t.apply(); } }", "t.p4:5:84: priority_delta is a positive number"},
		{"control c(inout s_t s) { table t { key = { s.f: ternary; } actions = { NoAction; } largest_priority_wins = 5; } apply { t.apply(); } }", "t.p4:5:84: largest_priority_wins is true or false"},
		{"control c(inout s_t s) { table t { key = { s.f: exact; } actions = { NoAction; } size = -1; } apply { t.apply(); } }", "the size of table t is a number of 0 or more"},
		{"const tuple<match_kind> t = { exact };", "t.p4:5:13: not supported: a tuple with an element of type match_kind"},
		{"struct a_t { bit<8> x[4]; }", "t.p4:5:22: not supported: an array, as x[...]"},
		{"control c() { bit<8> x[4]; apply { } }", "t.p4:5:23: not supported: an array, as x[...]"},
		{"control c() { counter(4, CounterType.bytes) n[2]; apply { } }", "t.p4:5:46: not supported: an array, as n[...]"},
		{"control c<T>(inout T s) { apply { } }", "not supported: the control c has a body and type parameters"},
		{"bit<8> x;", "expected '('"},
	} {
		_, err := load(head+c.src, Options{NoMain: true})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n error is %v\n want     %s", c.src, err, c.want)
		}
	}
	_, err := load(head, Options{})
	var es Errors
	if !errors.As(err, &es) || !strings.Contains(err.Error(), "no package instance called main") {
		t.Errorf("without main: %v", err)
	}
}
