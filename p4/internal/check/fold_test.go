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
