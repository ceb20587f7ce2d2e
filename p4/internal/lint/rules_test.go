package lint_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/check"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/lint"
	"github.com/sluice-rdma/sluice/p4/internal/parse"
)

// A lintRule is an egress of some lines, and the warnings that they get, each as "LINE: text", of which the text may be a part.
type lintRule struct {
	rule   string
	locals string
	lines  []string
	want   []string
}

const (
	lintFunctions = "void fill(out bit<16> x) { x = 3; } bit<32> filled(out bit<16> x) { x = 3; return 4; } bit<16> read(in bit<16> x) { return x; } "
	sameStatement = "another one computes in the same statement"
	egressHead    = `control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md, in egress_intrinsic_metadata_from_parser_t eg_prsr_md, inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md, inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) { `
	pipeline      = "\nPipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;\nSwitch(pipe) main;\n"
)

// holds checks the program whose line 4 is the first of lines.
func (r lintRule) holds(t *testing.T) {
	t.Helper()
	lintText(t, lint.Tofino1, "#define OWN_EGRESS\n#include \"frame.p4\"\n"+lintFunctions+egressHead+r.locals+" apply {\n"+strings.Join(r.lines, "\n")+"\n} }"+pipeline, 3, r.want)
}

// lintText wants these warnings of a text, whose lines are counted behind the first skip ones.
func lintText(t *testing.T, target lint.Target, text string, skip int, want []string) {
	t.Helper()
	tree, err := parse.Program("testdata/cut/rule.p4", []byte(text), parse.Options{Define: map[string]string{"__TARGET_TOFINO__": fmt.Sprint(int(target))}, ReadFile: os.ReadFile, Builtin: include.Builtin})
	if err == nil {
		err = check.Program(tree, check.Options{})
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	found, ok := lint.Check(tree, target)
	if !ok {
		t.Fatal("it is not for TNA")
	}
	var got []string
	for _, w := range found {
		got = append(got, fmt.Sprintf("%d: %s", w.At.Line-skip, w.Text))
	}
	if !slices.EqualFunc(got, want, func(g, w string) bool {
		line, part, _ := strings.Cut(w, ": ")
		return strings.HasPrefix(g, line+": ") && strings.Contains(g, part)
	}) {
		t.Errorf("warnings are %q\nexpected %q", got, want)
	}
}

func lintAll(t *testing.T, rules []lintRule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.rule, r.holds)
	}
}

// What takes one stage and what several, within a statement.
func TestRulesOfOperations(t *testing.T) {
	one := func(rule, line string) lintRule { return lintRule{rule: rule, lines: []string{line}} }
	two := func(rule, line string) lintRule {
		return lintRule{rule: rule, lines: []string{line}, want: []string{"1: " + sameStatement}}
	}
	lintAll(t, []lintRule{
		one("a sum", "meta.x = hdr.value.a + hdr.value.b;"),
		two("a sum of a sum", "meta.x = hdr.value.a + hdr.value.b + meta.y;"),
		one("a sum of constants", "meta.x = hdr.value.a + 1 + 2;"),
		two("a constant within a sum of fields", "meta.x = hdr.value.a + 1 + hdr.value.b;"),
		one("a sum with 0", "meta.x = hdr.value.a + 0 + hdr.value.b;"),
		one("a shift by 0", "meta.x = (hdr.value.a << 0) + hdr.value.b;"),
		two("a shift by 1", "meta.x = (hdr.value.a << 1) + hdr.value.b;"),
		one("an inverted operand", "meta.x = ~hdr.value.a & hdr.value.b;"),
		one("two inverted operands", "meta.x = ~hdr.value.a | ~hdr.value.b;"),
		two("an inverted result", "meta.x = ~(hdr.value.a & hdr.value.b);"),
		two("an inverted operand of a sum", "meta.x = ~hdr.value.a + hdr.value.b;"),
		two("a mask of a mask", "meta.x = hdr.value.a & hdr.value.b | meta.y;"),
		one("fields that are joined", "meta.z = hdr.value.a ++ hdr.value.b;"),
		one("a sum that is joined with a field", "meta.z = (hdr.value.a + 1) ++ hdr.value.b;"),
		two("a sum of what is joined of a sum", "meta.z = ((hdr.value.a + 1) ++ hdr.value.b) + meta.z;"),
		one("a slice of a sum", "meta.small = (hdr.value.a + hdr.value.b)[15:8];"),
		two("a sum of a slice of a sum", "meta.small = (hdr.value.a + hdr.value.b)[15:8] + meta.small;"),
		one("a sum of a cast", "meta.z = (bit<32>)hdr.value.a + meta.z;"),
		two("a sum of a cast of a sum", "meta.z = (bit<32>)(hdr.value.a + hdr.value.b) + meta.z;"),
		one("what is shifted out", "meta.small = meta.small | (bit<8>)(hdr.value.a << 8);"),
		two("what is shifted out in part", "meta.small = meta.small | (bit<8>)(hdr.value.a << 7);"),
		one("what is shifted out of a slice", "meta.small = meta.small ^ (hdr.value.a << 8)[7:0];"),
		one("min", "meta.x = min(hdr.value.a, hdr.value.b);"),
		two("min of a sum", "meta.x = min(hdr.value.a + 1, hdr.value.b);"),
		two("a sum of max", "meta.x = max(hdr.value.a, hdr.value.b) + meta.y;"),
		one("constants alone", "meta.x = 3 + 4 * 5;"),
		one("a constant's sum with a field", "meta.x = hdr.value.a + (3 + 4 * 5);"),
		one("a compound sum", "meta.x += hdr.value.a;"),
		two("a compound sum of a sum", "meta.x += hdr.value.a + hdr.value.b;"),
		one("a compound mask of an inverted field", "meta.x &= ~hdr.value.a;"),
		one("a compound sum with 0 of a sum", "meta.x += 0;"),
	})
}

// What a field holds from a statement to the next, and what makes the compiler forget it.
func TestRulesOfKnownFields(t *testing.T) {
	const (
		first = "meta.x = hdr.value.a - 7;"
		used  = "meta.y = meta.x ^ hdr.value.b;"
		line1 = "another one computes in line 4"
	)
	const actions = `action writes() { meta.x = 3; } action other() { meta.z = 3; }
 action chooses(bit<8> k) { if (k == 1) { meta.z = 1; } else { meta.x = 2; } }
 action calls() { writes(); }
 table t { key = { hdr.mac.dst: exact; } actions = { writes; NoAction; } default_action = NoAction(); }
 table u { key = { hdr.mac.src: exact; } actions = { other; NoAction; } default_action = NoAction(); }`
	locals := strings.ReplaceAll(actions, "\n", "")
	lintAll(t, []lintRule{
		{"it is computed with", "", []string{first, used}, []string{"2: " + line1}},
		{"it is copied", "", []string{first, "hdr.value.a = meta.x;"}, nil},
		{"a copy of it is computed with", "", []string{first, "meta.z = 16w0 ++ meta.x;", "meta.z = meta.z ^ hdr.blocks[0].word;"}, []string{"3: " + line1}},
		{"a constant is added to a sum", "", []string{first, "meta.y = meta.x + 5;"}, nil},
		{"a constant is added to it in place", "", []string{first, "meta.x += 5;"}, nil},
		{"a field is added to it in place", "", []string{first, "meta.x += hdr.value.b;"}, []string{"2: " + line1}},
		{"what it was computed from changes", "", []string{first, "hdr.value.a = hdr.value.b;", used}, nil},
		{"the header of what it was computed from changes", "", []string{first, "hdr.value = { 1, 2, 3, 4, 5, 6 };", used}, nil},
		{"it is computed from itself", "", []string{"meta.x = meta.x - 7;", used}, nil},
		{"it is written anew", "", []string{first, "meta.x = hdr.value.b;", "meta.y = meta.x ^ hdr.value.a;"}, nil},
		{"a part of it is written", "", []string{first, "meta.x[3:0] = 5;", used}, nil},
		{"another field is written", "", []string{first, "meta.z = 5;", used}, []string{"3: " + line1}},
		{"an element of a stack", "", []string{"hdr.blocks[1].word = hdr.blocks[0].word - 7;", "meta.z = hdr.blocks[1].word ^ hdr.blocks[0].more;"}, []string{"2: " + line1}},
		{"another element of the stack", "", []string{"hdr.blocks[1].word = hdr.blocks[0].word - 7;", "meta.z = hdr.blocks[2].word ^ hdr.blocks[0].more;"}, nil},
		{"a variable", "", []string{"bit<16> v = hdr.value.a - 7;", "meta.y = v ^ hdr.value.b;"}, []string{"2: " + line1}},
		{"a variable that holds a field", "", []string{"bit<16> v = hdr.value.a;", "meta.y = v ^ hdr.value.b;"}, nil},
		{"in a branch", "", []string{"if (hdr.value.kind == 1) { " + first + " }", used}, nil},
		{"in both branches", "", []string{"if (hdr.value.kind == 1) { " + first + " } else { " + first + " }", used}, nil},
		{"in front of a branch, used within", "", []string{first, "if (hdr.value.kind == 1) { " + used + " }"}, []string{"2: " + line1}},
		{"in front of a branch that writes it", "", []string{first, "if (hdr.value.kind == 1) { meta.x = hdr.value.b; }", used}, nil},
		{"in front of a branch that does not", "", []string{first, "if (hdr.value.kind == 1) { meta.z = 1; } else { meta.z = 2; }", used}, []string{"3: " + line1}},
		{"within a branch", "", []string{"if (hdr.value.kind == 1) { " + first, used + " }"}, []string{"2: " + line1}},
		{"a branch does not see the other", "", []string{"if (hdr.value.kind == 1) { " + first + " }", "else { " + used + " }"}, nil},
		{"in front of a switch that writes it", "", []string{first, "switch (hdr.value.kind) { 1: { meta.x = hdr.value.b; } default: { meta.z = 1; } }", used}, nil},
		{"in front of a switch that does not", "", []string{first, "switch (hdr.value.kind) { 1: 2: { meta.z = 2; } default: { meta.z = 1; } }", used}, []string{"3: " + line1}},
		{"in front of a switch, used within", "", []string{first, "switch (hdr.value.kind) { 1: { " + used + " } }"}, []string{"2: " + line1}},
		{"of a switch over a table's action", locals, []string{first, "switch (u.apply().action_run) { other: { meta.x = hdr.value.b; } }", used}, nil},
		{"a table that writes it", locals, []string{first, "t.apply();", used}, nil},
		{"a table that does not", locals, []string{first, "u.apply();", used}, []string{"3: " + line1}},
		{"a table in a condition", locals, []string{first, "if (t.apply().hit) { meta.z = 1; }", used}, nil},
		{"a table that misses", locals, []string{first, "if (!t.apply().hit) { meta.z = 1; }", used}, nil},
		{"an action that writes it", locals, []string{first, "writes();", used}, nil},
		{"an action that does not", locals, []string{first, "other();", used}, []string{"3: " + line1}},
		{"an action that writes it in a branch", locals, []string{first, "chooses(hdr.value.code ++ 3w0);", used}, nil},
		{"an action that calls one that does", locals, []string{first, "calls();", used}, nil},
		{"an action that writes it in a switch", "action picks() { switch (hdr.value.kind) { 1: { meta.x = 2; } default: { } } }", []string{first, "picks();", used}, nil},
		{"an action that gives it to a function as out", "action gives() { fill(meta.x); }", []string{first, "gives();", used}, nil},
		{"an action that writes it by what a function gives", "action gives() { meta.z = filled(meta.x); }", []string{first, "gives();", used}, nil},
		{"a function whose out it is", "", []string{first, "fill(meta.x);", used}, nil},
		{"a function that reads it", "", []string{first, "meta.z = 16w0 ++ read(meta.x);", used}, []string{"3: " + line1}},
		{"a choice by what a function gives", "", []string{first, "meta.z = hdr.value.kind == 1 ? filled(meta.x) : 5;", used}, nil},
		{"a choice of fields", "", []string{first, "meta.z = hdr.value.kind == 1 ? meta.z : 5;", used}, []string{"3: " + line1}},
		{"an argument of a function that another fills", "", []string{first, "meta.z = 16w0 ++ read((bit<16>)filled(meta.x));", used}, nil},
		{"a loop that writes it", "", []string{first, "for (bit<8> i in 1 .. 3) { meta.x = hdr.value.b; }", used}, nil},
		{"a loop that does not", "", []string{first, "for (bit<8> i = 0; i < 3; i = i + 1) { meta.z = 5; }", used}, []string{"3: " + line1}},
		{"an action's loop that writes it", "action loops() { for (bit<8> i = 0; i < 3; i = i + 1) { meta.x = 5; } }", []string{first, "loops();", used}, nil},
		{"the hash unit", "", []string{"@in_hash { meta.x = hdr.value.a + hdr.value.b + meta.y; }", used}, nil},
		{"the hash unit writes it", "", []string{first, "@in_hash { meta.x = hdr.value.b ^ hdr.value.a ^ 3; }", used}, nil},
		{"a register's action", "Register<bit<16>, bit<8>>(4) r; RegisterAction<bit<16>, bit<8>, bit<16>>(r) up = { void apply(inout bit<16> v, out bit<16> o) { v = v + 1; o = v; } };", []string{"meta.x = up.execute(0);", used}, nil},
		{"a register's action writes it", "Register<bit<16>, bit<8>>(4) r; RegisterAction<bit<16>, bit<8>, bit<16>>(r) up = { void apply(inout bit<16> v, out bit<16> o) { v = v + 1; o = v; } };", []string{first, "meta.x = up.execute(0);", used}, nil},
		{"a header that is made valid stays known", "", []string{"hdr.blocks[1].word = hdr.blocks[0].word - 7;", "hdr.blocks[1].setValid();", "meta.z = hdr.blocks[1].word ^ hdr.blocks[0].more;"}, []string{"3: " + line1}},
		{"min is not moved to where it is used", "", []string{"meta.x = min(hdr.value.a, hdr.value.b);", used}, nil},
	})
}

// A condition holds fields and constants.
func TestRulesOfConditions(t *testing.T) {
	const moved = "the compiler moves the operation into the condition"
	lintAll(t, []lintRule{
		{"a field and a constant", "", []string{"if (hdr.value.a == 3) { meta.z = 1; }"}, nil},
		{"two fields", "", []string{"if (hdr.value.a < hdr.value.b) { meta.z = 1; }"}, nil},
		{"validity", "", []string{"if (hdr.value.isValid() && !hdr.mac.isValid()) { meta.z = 1; }"}, nil},
		{"a mask", "", []string{"if (hdr.value.a & 0xf0 == 0x30) { meta.z = 1; }"}, nil},
		{"a mask by a field", "", []string{"if (hdr.value.a & hdr.value.b == 0) { meta.z = 1; }"}, []string{"1: " + moved}},
		{"a slice", "", []string{"if (hdr.value.a[7:0] != 3) { meta.z = 1; }"}, nil},
		{"a sum", "", []string{"if (hdr.value.a + hdr.value.b == 3) { meta.z = 1; }"}, []string{"1: compares what is computed in the condition"}},
		{"a difference on the right", "", []string{"if (hdr.value.a == hdr.value.b - 3) { meta.z = 1; }"}, []string{"1: " + moved}},
		{"within an and", "", []string{"if (hdr.value.a == 1 && hdr.value.b - 3 > 5) { meta.z = 1; }"}, []string{"1: " + moved}},
		{"within an or and a not", "", []string{"if (!(hdr.value.a == 1 || hdr.value.b - 3 > 5)) { meta.z = 1; }"}, []string{"1: " + moved}},
		{"both sides of an and", "", []string{"if (hdr.value.a - 1 == 1 && hdr.value.b - 3 <= 5) { meta.z = 1; }"}, []string{"1: " + moved, "1: " + moved}},
		{"what a line before computes", "", []string{"meta.x = hdr.value.a - 7;", "if (meta.x >= 5) { meta.z = 1; }"}, []string{"2: compares what is computed in line 4"}},
		{"a mask of what a line before computes", "", []string{"meta.x = hdr.value.a - 7;", "if (meta.x & 1 == 1) { meta.z = 1; }"}, []string{"2: compares what is computed in line 4"}},
		{"what a branch before computes", "", []string{"if (hdr.value.kind == 1) { meta.x = hdr.value.a - 7; }", "if (meta.x >= 5) { meta.z = 1; }"}, nil},
		{"of an else if", "", []string{"if (hdr.value.kind == 1) { meta.z = 1; }", "else if (hdr.value.a - 3 == 1) { meta.z = 2; }"}, []string{"2: " + moved}},
		{"in an action", "action a() { if (hdr.value.a - 3 == 1) { meta.z = 2; } }", []string{"a();"}, []string{"0: " + moved}},
	})
}

// A byte of a header has one source.
func TestRulesOfSources(t *testing.T) {
	const share = "share a byte"
	lintAll(t, []lintRule{
		{"a constant and a field", "", []string{"hdr.value.kind = 3;", "hdr.value.code = meta.small[4:0];"}, []string{"2: value.kind and hdr.value.code share a byte"}},
		{"a field and a constant", "", []string{"hdr.value.code = meta.small[4:0];", "hdr.value.kind = 3;"}, []string{"2: value.kind and hdr.value.code share a byte"}},
		{"two constants", "", []string{"hdr.value.kind = 3;", "hdr.value.code = 5;"}, nil},
		{"two fields", "", []string{"hdr.value.kind = meta.small[7:5];", "hdr.value.code = meta.small[4:0];"}, nil},
		{"other bytes", "", []string{"hdr.value.a = 3;", "hdr.value.code = meta.small[4:0];"}, nil},
		{"a byte that two fields end and begin in", "", []string{"hdr.value.wide = 3;", "hdr.value.low = meta.small[3:0];"}, []string{"2: " + share}},
		{"a slice that reaches the byte", "", []string{"hdr.value.wide[3:0] = 3;", "hdr.value.low = meta.small[3:0];"}, []string{"2: " + share}},
		{"a slice in front of the byte", "", []string{"hdr.value.wide[19:4] = 3;", "hdr.value.low = meta.small[3:0];"}, nil},
		{"parts of one field", "", []string{"hdr.value.wide[3:0] = 3;", "hdr.value.wide[7:4] = meta.small[3:0];"}, nil},
		{"metadata", "", []string{"meta.small[3:0] = 3;", "meta.small[7:4] = hdr.value.low;"}, nil},
		{"headers of one stack", "", []string{"hdr.blocks[0].word = 3;", "hdr.blocks[1].word = meta.z;"}, nil},
		{"a branch in between", "", []string{"hdr.value.kind = 3;", "if (hdr.mac.ether_type == 1) { hdr.value.code = meta.small[4:0]; }"}, nil},
		{"behind a branch", "", []string{"if (hdr.mac.ether_type == 1) { hdr.value.kind = 3; }", "hdr.value.code = meta.small[4:0];"}, nil},
		{"within a branch", "", []string{"if (hdr.mac.ether_type == 1) { hdr.value.kind = 3;", "hdr.value.code = meta.small[4:0]; }"}, []string{"2: " + share}},
		{"what depends on a statement before begins anew", "", []string{"meta.small = hdr.mac.dst[7:0];", "hdr.value.kind = 3;", "hdr.value.code = meta.small[4:0];"}, nil},
		{"a table in between", "action n() { meta.z = 1; } table t { actions = { n; } default_action = n(); }", []string{"hdr.value.kind = 3;", "t.apply();", "hdr.value.code = meta.small[4:0];"}, nil},
		{"the data of an action is a constant", "action a(bit<3> k) { hdr.value.kind = k; hdr.value.code = meta.small[4:0]; } table t { key = { hdr.mac.dst: exact; } actions = { a; } }", []string{"t.apply();"}, []string{"0: " + share}},
		{"the data of an action alone", "action a(bit<3> k, bit<5> c) { hdr.value.kind = k; hdr.value.code = c; } table t { key = { hdr.mac.dst: exact; } actions = { a; } }", []string{"t.apply();"}, nil},
		{"the hash unit's statements are apart", "", []string{"hdr.value.kind = 3;", "@in_hash { meta.z = 1; }", "hdr.value.code = meta.small[4:0];"}, nil},
	})
}

// An egress parser of a chip: how deep it reads, and which element of a stack next is.
func TestRulesOfEgressParsers(t *testing.T) {
	const (
		depth  = "reads 161 bytes"
		next   = "by the way into the state"
		choose = "transition select(hdr.mac.ether_type) { 1: one; 2: two; default: last; } }"
	)
	for _, c := range []struct {
		rule   string
		target lint.Target
		states []string
		want   []string
	}{
		{"a way of 160 bytes", lint.Tofino1, []string{"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); pkt.advance(8 * 119); transition accept; }"}, nil},
		{"a way of 161 bytes", lint.Tofino1, []string{"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac);", "pkt.advance(8 * 121 - 8); transition accept; }"}, []string{"1: state start of parser EgressParser " + depth}},
		{"Tofino 2 has no such bound", lint.Tofino2, []string{"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); pkt.advance(8 * 1330); transition accept; }"}, nil},
		{"within a block", lint.Tofino1, []string{"state start { { pkt.extract(eg_intr_md); } { pkt.advance(8 * 121 - 8); pkt.extract(hdr.mac); } transition accept; }"}, []string{"1: " + depth}},
		{"over states", lint.Tofino1, []string{"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); transition more; }", "state more { pkt.advance(8 * 120); transition accept; }"}, []string{"2: state more of parser EgressParser " + depth}},
		{"the longest way counts", lint.Tofino1, []string{
			"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); " + choose, "state one { transition last; }", "state two { pkt.advance(8 * 107); transition last; }", "state last { pkt.advance(8 * 13); transition accept; }",
		}, []string{"4: state last of parser EgressParser " + depth}},
		{"a look does not count", lint.Tofino1, []string{"state start { pkt.extract(eg_intr_md); meta.small = pkt.lookahead<bit<8>>(); pkt.advance(8 * 133); transition accept; }"}, nil},
		{"a loop counts as often as its stack has elements", lint.Tofino1, []string{
			"state start { pkt.extract(eg_intr_md); transition more; }", "state more { pkt.extract(hdr.blocks.next); pkt.advance(8 * 25); transition select(hdr.blocks.last.word) { 0: more; default: accept; } }",
		}, nil},
		{"a loop of more", lint.Tofino1, []string{
			"state start { pkt.extract(eg_intr_md); transition more; }", "state more { pkt.extract(hdr.blocks.next); pkt.advance(8 * 26); transition select(hdr.blocks.last.word) { 0: more; default: accept; } }",
		}, []string{"2: of parser EgressParser reads 163 bytes"}},
		{"next is known on one way", lint.Tofino1, []string{"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.blocks.next); pkt.extract(hdr.blocks.next); transition accept; }"}, nil},
		{"next is the same on both ways", lint.Tofino1, []string{
			"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); " + choose, "state one { pkt.extract(hdr.blocks.next); transition end; }", "state two { pkt.extract(hdr.blocks.next); transition end; }", "state last { transition accept; }",
			"state end { pkt.extract(hdr.blocks.next); transition accept; }",
		}, nil},
		{"next differs by the way", lint.Tofino1, []string{
			"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); " + choose, "state one { pkt.extract(hdr.blocks.next); transition last; }", "state two { transition last; }", "state last { pkt.extract(hdr.blocks.next); transition accept; }",
		}, []string{"4: hdr.blocks.next in state last is element 0 or 1 of the stack, " + next}},
		{"an index makes it known again", lint.Tofino1, []string{
			"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); " + choose, "state one { pkt.extract(hdr.blocks.next); transition last; }", "state two { transition last; }", "state last { pkt.extract(hdr.blocks[2]); pkt.extract(hdr.blocks.next); transition accept; }",
		}, nil},
		{"an index makes it known for the states behind", lint.Tofino1, []string{
			"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); " + choose, "state one { pkt.extract(hdr.blocks[0]); transition end; }", "state two { pkt.extract(hdr.blocks.next); transition end; }", "state last { transition accept; }",
			"state end { pkt.extract(hdr.blocks.next); transition accept; }",
		}, nil},
		{"an index that is another", lint.Tofino1, []string{
			"state start { pkt.extract(eg_intr_md); pkt.extract(hdr.mac); " + choose, "state one { pkt.extract(hdr.blocks[1]); transition end; }", "state two { pkt.extract(hdr.blocks.next); transition end; }", "state last { transition accept; }",
			"state end { pkt.extract(hdr.blocks.next); transition accept; }",
		}, []string{"5: hdr.blocks.next in state end is element 1 or 2 of the stack, " + next}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			lintText(t, c.target, "#define EGRESS_PARSER\n#include \"frame.p4\"\nparser EgressParser(packet_in pkt, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) {\n"+
				strings.Join(c.states, "\n")+"\n}"+pipeline, 3, c.want)
		})
	}
}
