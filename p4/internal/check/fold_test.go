package check

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/parse"
)

// genConst makes an expression of bit<w> out of literals, and its value by
// arithmetic modulo 2^w on machine words.
func genConst(t *rapid.T, w uint, depth int) (string, uint64) {
	m := uint64(1)<<w - 1
	kind := 0
	if depth > 0 {
		kind = rapid.IntRange(0, 14).Draw(t, "kind")
	}
	if kind == 0 {
		v := rapid.Uint64Range(0, m).Draw(t, "v")
		return fmt.Sprintf("%dw%#x", w, v), v
	}
	x, a := genConst(t, w, depth-1)
	bin := func(op string, f func(a, b uint64) uint64) (string, uint64) {
		y, b := genConst(t, w, depth-1)
		return "(" + x + " " + op + " " + y + ")", f(a, b) & m
	}
	switch kind {
	case 1:
		return bin("+", func(a, b uint64) uint64 { return a + b })
	case 2:
		return bin("-", func(a, b uint64) uint64 { return a - b })
	case 3:
		return bin("*", func(a, b uint64) uint64 { return a * b })
	case 4:
		return bin("&", func(a, b uint64) uint64 { return a & b })
	case 5:
		return bin("|", func(a, b uint64) uint64 { return a | b })
	case 6:
		return bin("^", func(a, b uint64) uint64 { return a ^ b })
	case 7:
		return bin("|+|", func(a, b uint64) uint64 { return min(a+b, m) })
	case 8:
		return bin("|-|", func(a, b uint64) uint64 { return a - min(a, b) })
	case 9:
		n := rapid.IntRange(0, 40).Draw(t, "shift")
		return fmt.Sprintf("(%s << %d)", x, n), a << n & m
	case 10:
		n := rapid.IntRange(0, 40).Draw(t, "shift")
		return fmt.Sprintf("(%s >> %d)", x, n), a >> n
	case 11:
		return "(~" + x + ")", ^a & m
	case 12:
		return "(-" + x + ")", -a & m
	case 13:
		y, b := genConst(t, w, depth-1)
		return "(" + x + " < " + y + " ? " + x + " : " + y + ")", min(a, b)
	}
	hi := rapid.UintRange(0, w-1).Draw(t, "hi")
	lo := rapid.UintRange(0, hi).Draw(t, "lo")
	return fmt.Sprintf("((bit<%d>)(%s)[%d:%d])", w, x, hi, lo), a >> lo & (uint64(1)<<(hi-lo+1) - 1)
}

func TestFolding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.UintRange(1, 31).Draw(t, "width")
		x, want := genConst(t, w, 4)
		p, err := load(fmt.Sprintf("const bit<%d> x = %s;", w, x), Options{NoMain: true})
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Decls[0].(*ast.ConstDecl).X.Const(); v == nil || v.Int.Uint64() != want {
			t.Fatalf("%s is %v, want %d", x, v.Int, want)
		}
	})
}

func TestFoldingSigned(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"int<8> x = 127 + 1", "-128"},
		{"int<8> x = -8s128", "-128"},
		{"int<8> x = 8s100 |+| 100", "127"},
		{"int<8> x = -8s100 |-| 100", "-128"},
		{"int<8> x = -8s7 >> 1", "-4"},
		{"bit<8> x = (bit<8>)-8s1", "255"},
		{"int<16> x = (int<16>)8s0xff", "-1"},
		{"bit<12> x = 4s0xf ++ 8w1 == 12s0xf01 ? 12w1 : 2", "1"},
		{"int x = 7 / 2 * 2 + 7 % 2", "7"},
		{"int x = 1 << 100 >> 98", "4"},
		{"bit<4> x = 18", "2"},
		{"bit<1> x = (bit<1>)true", "1"},
		{"bit<8> x = 0xabcd[11:4]", "188"},
	} {
		p, err := load("const "+c.src+";", Options{NoMain: true})
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		if v := p.Decls[0].(*ast.ConstDecl).X.Const(); v == nil || v.Int.String() != c.want {
			t.Errorf("%s gives %v, want %s", c.src, v, c.want)
		}
	}
}

// Every built-in include that is not part of another stands on its own.
func TestIncludes(t *testing.T) {
	for _, c := range []struct{ text, define, value string }{
		{"#include <core.p4>", "", ""},
		{"#include <v1model.p4>", "", ""},
		{"#include <v1model.p4>", "V1MODEL_VERSION", "20200408"},
		{"#include <tna.p4>", "", ""},
		{"#include <tna.p4>", "__TARGET_TOFINO__", "2"},
		{"#include <t2na.p4>", "", ""},
		{"#include <tofino1_specs.p4>\n#include <tofino1_arch.p4>", "", ""},
		{"#include <tofino2_specs.p4>\n#include <tofino2_arch.p4>", "", ""},
	} {
		p, err := parse.Program("t.p4", []byte(c.text+"\n"), parse.Options{Builtin: include.Builtin, Define: map[string]string{c.define: c.value}})
		if err != nil {
			t.Errorf("%s, %s=%s: %v", c.text, c.define, c.value, err)
			continue
		}
		if err := Program(p, Options{NoMain: true}); err != nil {
			t.Errorf("%s, %s=%s: %v", c.text, c.define, c.value, err)
		}
	}
}

// Comparisons of values of several parts, which are known when the program is compiled (8.12 to 8.17), and what "..." stands for (8.26).
func TestFoldingParts(t *testing.T) {
	const head = `header h_t { bit<8> a; bit<8> b; }
header_union u_t { h_t x; }
struct s_t { bit<8> f; h_t h; }
enum p_t { X, Y }
enum bit<8> c_t { A = 1, B = 2 }
struct t_t { bit<8> f; bool q; int<8> i; error e; tuple<bit<8>, bool> t; c_t c; p_t p; }
const s_t s1 = { 1, { 2, 3 } };
const s_t s2 = { h = { b = 3, a = 2 }, f = 1 };
const s_t s3 = { 1, { 2, 4 } };
const s_t s4 = { 1, (h_t){#} };
const s_t s5 = { 1, ... };
const h_t h1 = { 1, 2 };
const h_t h2 = (h_t){#};
const t_t z = { 7, ... };
const t_t y = ...;
const tuple<bit<8>, h_t> q1 = { 1, { 2, 3 } };
`
	for _, c := range []struct {
		rule, expr string
		want       bool
	}{
		{"8.16: structs of the same parts", "s1 == s2", true},
		{"8.16: and by !=", "s1 != s2", false},
		{"8.16: one part differs", "s1 == s3", false},
		{"8.16: and by !=", "s1 != s3", true},
		{"8.16: with a list", "s1 == { 1, { 2, 3 } }", true},
		{"8.16: a part of one", "s1.h == s2.h", true},
		{"8.17: headers", "h1 == { 1, 2 }", true},
		{"8.17: headers of other fields", "h1 == { 1, 3 }", false},
		{"8.17: a valid one and an invalid one", "h1 == h2", false},
		{"8.17: an invalid one and {#}", "h2 == (h_t){#}", true},
		{"8.17: a valid one and {#}", "h1 == {#}", false},
		{"8.17: within structs", "s1 == s4", false},
		{"8.26: ... is an invalid header", "s4 == s5", true},
		{"8.26: the number in front of ...", "z.f == 7", true},
		{"8.26: a bool", "z.q", false},
		{"8.26: a signed number", "z.i == 0", true},
		{"8.26: an error", "z.e == error.NoError", true},
		{"8.26: a tuple", "z.t[0] == 0 && !z.t[1]", true},
		{"8.26: an enum is its first member", "z.p == p_t.X", true},
		{"8.26: a number's enum is 0", "(bit<8>)z.c == 0", true},
		{"8.26: all of a struct", "y.f == 0 && !y.q && y.p == p_t.X", true},
		{"8.12: tuples", "q1 == { 1, { 2, 3 } }", true},
		{"8.12: tuples of other elements", "q1 == { 1, { 2, 4 } }", false},
		{"8.12: an element", "q1[1] == { 2, 3 }", true},
		{"8.2: strings", "\"a\" ++ \"b\" == \"ab\"", true},
		{"8.2: other strings", "\"a\" == \"b\"", false},
		{"8.2: the order of strings counts", "\"a\" ++ \"b\" != \"b\" ++ \"a\"", true},
		{"8.2: errors", "error.NoError == error.NoMatch", false},
		{"8.2: enums", "p_t.X != p_t.Y", true},
		{"8.3: enums of numbers", "c_t.A + 1 == c_t.B", true},
		{"8.5: not", "!(s1 == s3)", true},
		{"8.5: and, or", "s1 == s3 || s1 == s2 && h1 == h1", true},
		{"8.5.1: a choice of structs", "(s1 == s2 ? s3 : s1) == s3", true},
		{"8.6: a comparison of widths", "8w255 + 1 == 0 && 9w255 + 1 == 256", true},
		{"8.7: a comparison of signs", "8s0xff < 0 && 8w0xff > 0", true},
	} {
		p, err := load("#include <core.p4>\n"+head+"const bool x = "+c.expr+";", Options{NoMain: true})
		if err != nil {
			t.Errorf("%s: %s: %v", c.rule, c.expr, err)
			continue
		}
		if v := p.Decls[len(p.Decls)-1].(*ast.ConstDecl).X.Const(); v == nil || v.Bool != c.want {
			t.Errorf("%s: %s is %v, expected %v", c.rule, c.expr, v, c.want)
		}
	}
}
