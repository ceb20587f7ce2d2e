package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// translate generates C from the texts of packages, whose exported functions are roots.
func translate(t testing.TB, sources ...string) (map[string]string, error) {
	t.Helper()
	root, module, err := findModule(mustGetwd(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(root, module)
	spec := &Spec{Header: "core.h", Source: "core.c", Packages: []Package{{Path: "internal/detmath", Prefix: "math"}}}
	for i, source := range sources {
		name := fmt.Sprintf("snippet%d", i)
		f, err := parser.ParseFile(p.fset, filepath.Join("snippet", "x.go"), "package "+name+"\n"+source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.check(module+"/"+name, []*ast.File{f}); err != nil {
			t.Fatal(err)
		}
		spec.Packages = append(spec.Packages, Package{Path: name, Prefix: name})
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.IsExported() {
				spec.Roots = append(spec.Roots, name+"."+fn.Name.Name)
			}
		}
	}
	return generate(p, spec)
}

func mustGetwd(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// ints and floats are what the functions of the table are called with.
const inputs = `
var ints = []int64{0, 1, -1, 2, 3, 5, 7, -7, 63, 64, 65, 127, 128, 255, 256, -256, 1 << 31, -1 << 31, 1<<31 - 1, 1 << 32, 1<<53 + 1,
	math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 0x5555555555555555}
var floats = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 1e-310, 5e-324, 1e308, -1e308, math.Pi,
	1 << 52, 1<<52 + 1, 1 << 63, -1 << 63, 1e19, math.Inf(1), math.Inf(-1), math.NaN(), 1.0 / 3}
`

// snippets are functions of two integers, I, or two numbers, D. Go and C have to agree
// on them for all pairs of the inputs.
var snippets = []struct{ name, source string }{
	{"wrap", `func I(a, b int64) int64 { return a*b + a - b }`},
	{"narrow", `func I(a, b int64) int64 { x, y := uint8(a), uint8(b); z := x + y; x -= 3; z ^= ^y; return int64(z) + int64(x*y) + int64(-x) + int64(x<<3) }`},
	{"narrow signed", `func I(a, b int64) int64 { x, y := int16(a), int16(b); x++; y += x * 3; return int64(x*y) + int64(x<<2) + int64(y>>1) }`},
	{"words", `func I(a, b int64) int64 { x, y := uint32(a), uint32(b); return int64(x*y+x-y) + int64(int32(a)*int32(b)) }`},
	{"division", `func I(a, b int64) int64 { if b == 0 { return a }; return a/b + a%b + a/7 + a%16 }`},
	{"unsigned division", `func I(a, b int64) int64 { if b == 0 { return a }; x := uint64(a); x /= uint64(b); return int64(x) + int64(uint64(a)%uint64(b)) }`},
	{"narrow division", `func I(a, b int64) int64 { if int8(b) == 0 { return a }; return int64(int8(a) / int8(b)) }`},
	{"shifts", `func I(a, b int64) int64 { n := uint(b) & 127; return a<<n ^ a>>n ^ int64(uint64(a)>>n) ^ int64(uint16(a)<<n) ^ int64(int32(a)>>n) }`},
	{"shifts by much", `func I(a, b int64) int64 { n := uint64(b); x := a; x <<= n; y := a; y >>= n; return x ^ y ^ a<<63 ^ a>>63 ^ 1<<(n&15) }`},
	{"bits", `func I(a, b int64) int64 { x := a &^ b; x |= a & 0xff; x &^= 1 << 3; return x ^ ^b }`},
	{"wide constants", `func I(a, b int64) int64 { x := uint64(a) &^ math.MaxUint32; x ^= uint64(b) &^ 0x80000000; return int64(x + uint64(uint32(a)&^0xf0000000)) }`},
	{"a table by index", `var table = [...]uint16{3: 9, 1: 4}
func I(a, b int64) int64 { return int64(table[uint64(a)%4]) }`},
	{"an array by its address", `func set(x *[3]int64, v int64) { x[0] = v; x[2] = v + 1 }
type box struct { held [3]int64 }
func (x *box) fill(v int64) { set(&x.held, v) }
func I(a, b int64) int64 { var x [3]int64; set(&x, a); var y box; y.fill(b); return x[0]*3 + x[2] + y.held[0]*7 + y.held[2] }`},
	{"precedence", `func I(a, b int64) int64 { return a&b + a<<1 | b ^ a&3 - (a - (b - a)) - -b }`},
	{"comparisons", `func I(a, b int64) int64 { if a < b && b > 0 || a == b != (a > 3) { return 1 }; return 0 }`},
	{"min and max", `func I(a, b int64) int64 { return min(a, b, 5) + max(a, b) + int64(min(uint64(a), uint64(b))) + int64(max(uint8(a), uint8(b))) }`},
	{"floats", `func D(a, b float64) float64 { return float64(a*b) + float64(b-a)/b - a }`},
	{"float min", `func D(a, b float64) float64 { return min(a, b) }`},
	{"float max", `func D(a, b float64) float64 { return max(a, b, -1) }`},
	{"to integer", `func D(a, b float64) float64 { return float64(detmath.Int64(a) ^ detmath.Int64(b)) }`},
	{"to float", `func I(a, b int64) int64 { return int64(math.Float64bits(float64(a) + float64(uint64(b)))) }`},
	{"rounding", `func D(a, b float64) float64 { return math.Floor(a) + math.Ceil(b) }`},
	{"half", `func D(a, b float64) float64 { return math.Round(a) - math.Round(b) }`},
	{"root", `func D(a, b float64) float64 { return math.Sqrt(a) * math.Abs(b) }`},
	{"exponent", `func D(a, b float64) float64 { f, e := math.Frexp(a); return math.Ldexp(f, e-60) + math.Ldexp(b, e) }`},
	{"tiny", `func D(a, b float64) float64 { return math.Ldexp(a, int(detmath.Int64(max(min(b, 4000), -4000)))) }`},
	{"exp and log", `func D(a, b float64) float64 { return detmath.Exp(a) + detmath.Log(b) }`},
	{"128 bits", `func I(a, b int64) int64 { hi, lo := bits.Mul64(uint64(a), uint64(b)); lo, c := bits.Add64(lo, uint64(a), 0); hi += c; d, w := bits.Sub64(uint64(a), uint64(b), c); hi ^= d*3 + w; y := hi | 1<<63; q, r := bits.Div64(hi&^(1<<63), lo, y); return int64(q ^ r ^ hi) }`},
	{"lengths", `func I(a, b int64) int64 { return int64(bits.Len64(uint64(a))*100 + bits.TrailingZeros64(uint64(b))*7 + bits.TrailingZeros16(uint16(b))) }`},
	{"loops", `func I(a, b int64) (s int64) { for i := range 10 { if i == 3 { continue }; if i == 7 { break }; s += int64(i) * a }; for n := uint8(b); n > 0; n /= 2 { s ^= int64(n) }; for range 3 { s++ }; return }`},
	{"range over a byte", `func I(a, b int64) int64 { n := uint8(a); s := int64(0); for i := range n { s += int64(i) * b }; return s }`},
	{"two variables of a loop", `func I(a, b int64) int64 { s := a; for i, j := 0, 9; i < j; i, j = i+1, j-1 { s = s*3 + int64(i*j) }; return s }`},
	{"switch", `func I(a, b int64) int64 { switch { case a < 0: return -1; case a == b, a == 3: return 2; default: return 3 } }`},
	{"switch over a constant", `type kind uint8
const ( one kind = iota + 1; two; three )
func I(a, b int64) int64 { s := b; switch kind(a) { case one: s++; case two, three: x := s * 2; s += x; if s > 5 { break }; s-- }; return s }`},
	{"switch over a variable", `func I(a, b int64) int64 { switch x := a * 2; x { case b: return 1; case b + 1: return 2 }; return 3 }`},
	{"if with a statement", `func I(a, b int64) int64 { if x := a + b; x > 3 { return x } else if y := x * 2; y < -5 { return y }; x := a - b; return x }`},
	{"shadowing", `func I(a, b int64) int64 { x := a; { x := x + 1; b += x }; for x := range 2 { b += int64(x) }; return x + b }`},
	{"structs", `type pair struct { x, y int64 }
type outer struct { pair; z int64 }
func (p *pair) swap() { p.x, p.y = p.y, p.x }
func (p pair) sum() int64 { p.x *= 3; return p.x + p.y }
func I(a, b int64) int64 { o := outer{pair{a, b}, 5}; o.swap(); s := o.sum(); q := o; q.x++; o.pair = pair{x: 9}; return s + o.z*o.x - q.x + q.y }`},
	{"parallel assignment", `type s struct { a, b, c int64 }
func I(a, b int64) int64 { v := s{a, b, 1}; v.a, v.b, v.c = v.b, v.c, v.a; a, b = b+v.a, a; w := &v; w.a, w.b = w.b, w.a; return a - 2*b + 3*v.a - 5*v.b + 7*v.c }`},
	{"several results", `func two(a, b int64) (x, y int64, ok bool) { if a > b { return a, b, true }; y = b; return }
func again(a, b int64) (int64, int64, bool) { return two(b, a) }
func I(a, b int64) int64 { x, y, ok := two(a, b); if !ok { x, _, ok = again(a, b); y++ }; if ok { return x }; return y }`},
	{"arrays", `type t struct { v [8]int64; n uint8 }
func I(a, b int64) int64 { var s t; for i := range s.v { s.v[i] = a + int64(i) }; s.v[uint(b)%8] = 7; s.n = uint8(b) & 7; r := int64(0); for i := range s.n { r += s.v[i&7] }; return r + s.v[2] + int64(len(s.v)) }`},
	{"slices", `type h struct { v [6]int64 }
func (x *h) some(n int) []int64 { return x.v[1:n] }
func I(a, b int64) int64 { var s h; p := s.some(int(a&3) + 2); for i := range p { p[i] = b + int64(i) }; c := copy(s.v[2:], p); r := int64(c); for _, v := range s.v[:] { r = r*3 + v }; return r + int64(len(p)*10+cap(p)) }`},
	{"an arena", `type node struct { next uint32; v int64 }
type list struct { nodes []node; used int }
func (l *list) add(v int64) bool { if l.used == len(l.nodes) { return false }; l.nodes[l.used] = node{uint32(l.used), v}; l.used++; return true }
func I(a, b int64) int64 { var room [3]node; l := list{nodes: room[:]}; n := int64(0); for l.add(a + n) { n++ }; return n*100 + room[1].v + b }`},
	{"pointers", `type c struct { n int64; next *c }
func bump(p *c) { for p != nil { p.n++; p = p.next } }
func I(a, b int64) int64 { x := c{n: a}; y := c{n: b, next: &x}; bump(&y); p := &x; p.n *= 2; *p = c{n: p.n + 1}; return x.n - y.n }`},
	{"constants", `const ( big = 1 << 40; small = big >> 38; ratio = 1.0 / 3; mask = ^uint32(0) )
type span int64
const ( tick span = 1000; long = 5 * tick )
func I(a, b int64) int64 { const local = 12; x := uint32(b) & mask; return a*small + big + int64(x) + local + int64(3*long) + int64(math.Float64bits(ratio)) }`},
	{"a table", `var table = [4]float64{1, 0.5, 1.0 / 3, -2}
func D(a, b float64) float64 { s := 0.0; for i := len(table) - 1; i >= 0; i-- { s = table[i] + float64(s*a) }; return s + b }`},
	{"words", `const ( yes = "yes"; no = "no" )
type t struct { word string; n int64 }
func word(x t) int64 { switch x.word { case yes: return 1; case no, "maybe": return 2 }; if x.word != "" { return x.n }; return 3 }
func I(a, b int64) int64 { x := t{word: yes, n: b}; if a < 0 { x.word = no }; if a > 64 { x = t{n: a} }; if a == 5 { x.word = "x" }; return word(x) }`},
	{"errors", `func bad(a int64) error { if a < 0 { return fmt.Errorf("%d is below 0", a) }; return nil }
func two(a int64) (int64, error) { if err := bad(a); err != nil { return 1, err }; return 2, nil }
func I(a, b int64) int64 { r, err := two(a); if err == nil { r += 10 }; if a > 0 && b > 0 && a*0 > b { panic("never") }; return r }`},
	{"or", `func I(a, b int64) int64 { return cmp.Or(a, b) + 1 }`},
	{"words of C", `type t struct { int, register, default_ int64 }
func I(a, b int64) int64 { short, long, double := a, b, a+b; x := t{short, long, double}; return x.int - x.register + x.default_ }`},
}

const snippetImports = `import ("cmp"; "fmt"; "math"; "math/bits"; "github.com/sluice-rdma/sluice/internal/detmath")
var _, _, _, _, _ = cmp.Or[int], fmt.Errorf, math.Abs, bits.Len, detmath.Int64
`

// Each snippet is compiled by both compilers, run on all pairs of inputs, and has to
// give the same bits.
func TestSnippets(t *testing.T) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("there is no C compiler: %v", err)
	}
	root, _, err := findModule(mustGetwd(t))
	if err != nil {
		t.Fatal(err)
	}
	// One program of Go prints what all of them give; each has a package of its own.
	// It has to be in the module for internal/detmath.
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("testdata", "snippets")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	var imports, calls strings.Builder
	for i, s := range snippets {
		pkg := fmt.Sprintf("s%d", i)
		if err := os.MkdirAll(filepath.Join(dir, pkg), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, pkg, "x.go"), []byte("package "+pkg+"\n"+snippetImports+s.source), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&imports, "import %s \"github.com/sluice-rdma/sluice/tools/cgen/testdata/%s/%s\"\n", pkg, filepath.Base(dir), pkg)
		if strings.Contains(s.source, "func D(") {
			fmt.Fprintf(&calls, "\tfor _, a := range floats { for _, b := range floats { show(%d, math.Float64bits(canonical(%s.D(a, b)))) } }\n", i, pkg)
		} else {
			fmt.Fprintf(&calls, "\tfor _, a := range ints { for _, b := range ints { show(%d, uint64(%s.I(a, b))) } }\n", i, pkg)
		}
	}
	program := "package main\nimport (\"bufio\"; \"fmt\"; \"math\"; \"os\")\n" + imports.String() + inputs + `
var out = bufio.NewWriter(os.Stdout)
func show(i int, bits uint64) { fmt.Fprintf(out, "%d %x\n", i, bits) }
func canonical(x float64) float64 { if x != x { return math.NaN() }; return x }
func main() {
` + calls.String() + "\tout.Flush()\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "./"+filepath.Join("tools", "cgen", dir))
	cmd.Dir = root
	want, err := cmd.Output()
	if err != nil {
		t.Fatalf("Go: %v\n%s", err, stderr(err))
	}
	var sources []string
	for _, s := range snippets {
		sources = append(sources, snippetImports+s.source)
	}
	files, err := translate(t, sources...)
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]string{{"-O2"}, {"-O3", "-march=native", "-DSLUICE_PORTABLE"}, {"-O0"}} {
		t.Run(strings.Join(options, " "), func(t *testing.T) {
			got := strings.Split(runC(t, cc, files, options), "\n")
			for k, w := range strings.Split(string(want), "\n") {
				if k >= len(got) || got[k] != w {
					var i int
					if _, err := fmt.Sscan(w, &i); err != nil {
						t.Fatalf("Go printed %q", w)
					}
					t.Fatalf("%s: C gives %s, Go %s\n%s", snippets[i].name, got[min(k, len(got)-1)], w, files[fmt.Sprintf("snippet%d.c", i)])
				}
			}
		})
	}
}

func stderr(err error) string {
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return string(e.Stderr)
	}
	return ""
}

// runC compiles the snippets with a program that calls them as Go's does.
func runC(t *testing.T, cc string, files map[string]string, options []string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var calls strings.Builder
	for i, s := range snippets {
		if strings.Contains(s.source, "func D(") {
			fmt.Fprintf(&calls, "\tFLOATS(%d, sluice_snippet%d_d)\n", i, i)
		} else {
			fmt.Fprintf(&calls, "\tINTS(%d, sluice_snippet%d_i)\n", i, i)
		}
	}
	main := `#include <inttypes.h>
#include <stdio.h>
#include "core.h"
static const int64_t ints[] = {0, 1, -1, 2, 3, 5, 7, -7, 63, 64, 65, 127, 128, 255, 256, -256, INT64_C(1) << 31, -(INT64_C(1) << 31), 2147483647, INT64_C(1) << 32,
	(INT64_C(1) << 53) + 1, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, 0x5555555555555555};
static const double floats[] = {0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 1e-310, 5e-324, 1e308, -1e308, 3.141592653589793,
	4503599627370496.0, 4503599627370497.0, 9223372036854775808.0, -9223372036854775808.0, 1e19, __builtin_inf(), -__builtin_inf(), __builtin_nan(""), 1.0 / 3};
#define INTS(n, f)                                                      \
	for (unsigned i = 0; i < sizeof ints / sizeof *ints; i++)         \
		for (unsigned k = 0; k < sizeof ints / sizeof *ints; k++) \
			printf("%d %" PRIx64 "\n", n, (uint64_t)f(ints[i], ints[k]));
#define FLOATS(n, f)                                                                                                \
	for (unsigned i = 0; i < sizeof floats / sizeof *floats; i++)                                                 \
		for (unsigned k = 0; k < sizeof floats / sizeof *floats; k++) {                                       \
			double d = f(floats[i], floats[k]);                                                           \
			printf("%d %" PRIx64 "\n", n, d != d ? UINT64_C(0x7ff8000000000001) : sluice_float64bits(d)); \
		}
int main(void)
{
CALLS	return 0;
}
`
	source := filepath.Join(dir, "main.c")
	if err := os.WriteFile(source, []byte(strings.Replace(main, "CALLS", calls.String(), 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	args := append([]string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-I" + dir, "-o", program, source, filepath.Join(dir, "core.c")}, options...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What C can't have is refused by function, file and line.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"map", "func F(m map[int]int) int { return m[1] }", "snippet0.F: the type map[int]int"},
		{"two functions of one name", "type T struct { a int }\nfunc F(t *T) int { return t.Get() }\nfunc (t *T) Get() int { return t.get() }\nfunc (t *T) get() int { return t.a }", "it and snippet0.T.Get are both sluice_snippet0_t_get in C"},
		{"closure", "func F(a int) int { f := func() int { return a }; return f() }", "snippet0.F: a closure"},
		{"joined strings", "func F(s string) bool { return s+s == \"aa\" }", "snippet0.F: + of strings"},
		{"length of a string", "func F(s string) int { return len(s) }", "snippet0.F: len"},
		{"part of a string", "func F(s string) byte { return s[0] }", "snippet0.F: an index of string"},
		{"append", "func F(s []int) []int { return append(s, 1) }", "snippet0.F: append"},
		{"make", "func F(n int) []int { return make([]int, n) }", "snippet0.F: make"},
		{"new", "func F() *int { return new(int) }", "snippet0.F: new"},
		{"allocation", "type t struct{ a int }\nfunc F() *t { return &t{1} }", "snippet0.F: an allocation, &T{...}"},
		{"interface", "type i interface{ M() int }\nfunc F(x i) int { return x.M() }", "snippet0.F: a call by the interface"},
		{"any", "func F(x any) bool { return x == nil }", "snippet0.F: the type"},
		{"channel", "func F(c chan int) { c <- 1 }", "snippet0.F: SendStmt"},
		{"goroutine", "func g() {}\nfunc F() { go g() }", "snippet0.F: GoStmt"},
		{"defer", "func g() {}\nfunc F() { defer g() }", "snippet0.F: DeferStmt"},
		{"float to integer", "func F(x float64) int64 { return int64(x) }", "a conversion from floating point, which Go leaves open"},
		{"fused", "func F(a, b, c float64) float64 { return a*b + c }", "a product that a compiler of Go may fuse"},
		{"fused assignment", "func F(a, b, c float64) float64 { c -= a * b; return c }", "a product that a compiler of Go may fuse"},
		{"signed shift", "func F(a, n int) int { return a << n }", "a shift by a signed count"},
		{"order of calls", "type t struct{ n int }\nfunc (x *t) next() int { x.n++; return x.n }\nfunc F(x *t) int { return x.next() - x.next() }", "a call that writes beside what may see it"},
		{"order of reads", "type t struct{ n int }\nfunc (x *t) next() int { x.n++; return x.n }\nfunc F(x *t) int { return x.n * x.next() }", "a call that writes beside what may see it"},
		{"generic", "func g[T int | int8](x T) T { return x }\nfunc F(a int) int { return g(a) }", "snippet0.F: a call of"},
		{"variadic", "func g(x ...int) int { return 0 }\nfunc F() int { return g(1, 2) }", "any number of arguments"},
		{"global", "var n int\nfunc F() int { n++; return n }", "var n: a variable of a package"},
		{"method value", "type t struct{ n int }\nfunc (x t) m() int { return x.n }\nfunc F(x t) int { f := x.m; return f() }", "snippet0.F: the method value m"},
		{"comparison of structs", "type t struct{ a, b int }\nfunc F(x, y t) bool { return x == y }", "a comparison of two values"},
		{"library", "import \"math\"\nfunc F(x float64) float64 { return math.Sin(x) }", "a call of math.Sin"},
		{"label", "func F(n int) int { s := 0\nouter:\n for i := range n { for range 2 { if i > 3 { break outer }; s++ } }; return s }", "LabeledStmt"},
		{"break of a switch", "func F(n int) int { for { switch { case n > 3: break }; return 1 } }", "break out of a switch"},
		{"goto", "func F(n int) int { if n > 0 { goto end }\nend:\n return n }", "goto"},
		{"dangling", "type t struct{ n int }\nfunc F() *t { var x t; return &x }", "the address of a variable that ends"},
		{"range over an array's values", "func F(n int) int { v := [3]int{1, 2, 3}; for _, x := range v { n += x }; return n }", "range over the values of an array"},
		{"types that differ by case", "type T struct{ a int }\ntype t struct{ b int }\nfunc F(x T, y t) int { return x.a + y.b }", "the types T and t, both sluice_snippet0_t in C"},
		{"complex", "func F(c complex128) float64 { return real(c) }", "snippet0.F: the type complex128"},
		{"float32", "func F(x float32) float32 { return x }", "snippet0.F: the type float32"},
		{"line", "\n\n\nfunc F(x float64) int64 {\n\treturn int64(x)\n}", "snippet/x.go:6: snippet0.F:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, err := translate(t, c.source)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("expected %q, got %v\n%s", c.want, err, files["snippet0.c"])
			}
		})
	}
}

func TestSnake(t *testing.T) {
	for in, want := range map[string]string{
		"OnCNP": "on_cnp", "minRTT": "min_rtt", "TLow": "t_low", "HAICount": "hai_count", "CNPs": "cnps", "wAI": "w_ai", "n": "n",
		"RTT": "rtt", "Float64bits": "float64bits", "SerializeRem": "serialize_rem", "MaxMDF": "max_mdf", "rRef": "r_ref",
	} {
		if got := snake(in); got != want {
			t.Errorf("snake(%q): expected %q, got %q", in, want, got)
		}
	}
}

// The committed C is what the generator writes today.
func TestTheGeneratedFilesAreFresh(t *testing.T) {
	const dir = "../../libsluice/internal/ccore/"
	want, err := fromSpec(dir + "core.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir + "src")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		got, err := os.ReadFile(dir + "src/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, []byte(want[e.Name()])) {
			t.Errorf("libsluice/internal/ccore/src/%s is not what go generate writes", e.Name())
		}
	}
	if all := slices.Sorted(maps.Keys(want)); !slices.Equal(names, all) {
		t.Errorf("libsluice/internal/ccore/src has %v, expected %v", names, all)
	}
}
