package main

import (
	"bytes"
	"context"
	"errors"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// kinds are those of the planted faults.
var kinds = []string{
	"acknowledgement", "clock", "completion", "data", "event", "leak", "limit", "memory",
	"order", "pacing", "read-atomic", "retry", "sequence", "state", "timer",
}

// Each planted fault fits the tree as it is now. That it compiles too only `plant` finds
// out; here it has to be Go.
func TestPlantedFaultsFit(t *testing.T) {
	all, err := planted()
	if err != nil {
		t.Fatal(err)
	}
	tree := os.DirFS("../..")
	if err := errors.Join(fit(tree, all), fitAlike(tree, alike)); err != nil {
		t.Error(err)
	}
	changed := map[string]string{}
	for _, m := range all {
		if !slices.Contains(kinds, m.Kind) {
			t.Errorf("%s: unknown kind %q, expected one of %s", m.FullName(), m.Kind, strings.Join(kinds, ", "))
		}
		if !strings.HasSuffix(m.Breaks, ".") {
			t.Errorf("%s: what it breaks is no sentence: %q", m.FullName(), m.Breaks)
		}
		source, err := os.ReadFile(filepath.Join("../..", m.File))
		if err != nil {
			continue // fit has said it
		}
		text, err := m.apply(source)
		if err != nil {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", m.FullName(), err)
		}
		if other := changed[string(text)]; other != "" {
			t.Errorf("%s is the same as %s", m.FullName(), other)
		}
		changed[string(text)] = m.FullName()
	}
}

func TestParse(t *testing.T) {
	got, err := parse("g", `A comment.

= one kind a/b.go
# It breaks
# at once.
 kept
-old
+new
@@
-gone

= two kind a/c.go
# So does this.
+only new
 kept
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []*Mutant{
		{Name: "one", Kind: "kind", Group: "g", File: "a/b.go", Breaks: "It breaks at once.", hunks: []hunk{
			{old: []string{"kept", "old"}, new: []string{"kept", "new"}}, {old: []string{"gone"}},
		}},
		{Name: "two", Kind: "kind", Group: "g", File: "a/c.go", Breaks: "So does this.", hunks: []hunk{
			{old: []string{"kept"}, new: []string{"only new", "kept"}},
		}},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(Mutant{}, hunk{})); d != "" {
		t.Error(d)
	}
	text, err := got[0].apply([]byte("first\nkept\nold\nmore\ngone\nlast\n"))
	if want := "first\nkept\nnew\nmore\nlast\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v, expected %q", text, err, want)
	}
}

func TestWhatDoesNotFitIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ text, source, want string }{
		"gone":         {"= n k f\n# B.\n-old", "new\n", "has these lines 0 times, expected once"},
		"twice":        {"= n k f\n# B.\n-old", "old\nx\nold\n", "has these lines 2 times, expected once"},
		"part of one":  {"= n k f\n# B.\n-old", "older\n", "has these lines 0 times"},
		"no change":    {"= n k f\n# B.\n old", "old\n", "a change of nothing"},
		"no sentence":  {"= n k f\n-old", "", "a sentence on what breaks"},
		"no kind":      {"= n f\n# B.\n-old", "", "line 1: expected = NAME KIND FILE"},
		"same name":    {"= n k f\n# B.\n-a\n\n= n k f\n# B.\n-b", "", "line 5: the name is taken"},
		"another mark": {"= n k f\n# B.\n*old", "", "line 3: expected =, #, @@"},
	} {
		t.Run(name, func(t *testing.T) {
			ms, err := parse("g", c.text)
			if err == nil {
				_, err = ms[0].apply([]byte(c.source))
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %q", err, c.want)
			}
		})
	}
}

// Each operator changes what it should, and leaves names and messages alone.
func TestMutations(t *testing.T) {
	const source = `package p

import "fmt"

const k = 1 + 2

func (t T) String() string { return "a" + "b" }

func f(a, b int, ok bool) (int, error) {
	if a < b && ok {
		a++
		return min(a, b), nil
	}
	for {
		a += b - 1
		break
	}
	ok = true
	_ = ok
	g(a)
	if a == 0 {
		panic("zero" + "!")
	}
	return 0, fmt.Errorf("f: %d", a+b)
}

func g(int) { h() }
`
	ms, err := mutations("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range ms {
		got = append(got, strings.TrimPrefix(m.Name, "p.go:")+": "+m.Breaks)
		if _, err := parser.ParseFile(token.NewFileSet(), "p.go", m.source, 0); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if bytes.Equal(m.source, []byte(source)) {
			t.Errorf("%s changes nothing", m.Name)
		}
	}
	slices.Sort(got)
	want := []string{
		"10:7 compare: < becomes <=", "10:11 logic: && becomes ||", "10:5 negate: a < b && ok becomes !(a < b && ok)",
		"11:3 drop: a++ is gone", "11:4 step: ++ becomes --", "12:10 min-max: min becomes max",
		"15:10 arith: - becomes +", "15:3 drop: a += b - 1 is gone", "15:5 arith: += becomes -=",
		"16:3 loop-ctrl: break becomes continue", "18:2 drop: ok = true is gone", "18:7 bool: true becomes false",
		"20:2 drop: g(a) is gone", "21:5 negate: a == 0 becomes !(a == 0)", "21:7 compare: == becomes !=",
		"27:15 drop: h() is gone", "27:14 return: g returns at once",
	}
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDraw(t *testing.T) {
	m := &Mutant{Name: "a/b.go:12:3 drop"}
	for at, want := range map[string]bool{
		"": true, "a/b.go:12": true, "a/b.go:12:3": true, "a/c.go:1,a/b.go:12": true, "a/b.go:1": false, "a/b.go:12:33": false, "b.go:12": false,
	} {
		if got := (&draw{at: at}).has(m); got != want {
			t.Errorf("-at %q: %v, expected %v", at, got, want)
		}
	}
}

func TestCoverage(t *testing.T) {
	c := coverage{}
	for _, profile := range []string{
		"mode: set\nm/a/b.go:3.14,5.2 2 1\nm/a/b.go:7.1,8.2 1 0\nm/a/b.go:9.5,9.7 1 12\nm/a/b.go:9.12,9.20 1 0\n",
		"mode: set\nm/a/b.go:3.14,5.2 2 0\n",
	} {
		if err := c.add("m", []byte(profile)); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[place]bool{
		{3, 14}: true, {4, 1}: true, {7, 1}: false, {7, 99}: false, {8, 1}: false, {8, 2}: true, {9, 5}: true, {9, 9}: true, {9, 12}: false,
	} {
		if got := c.runs("a/b.go", at); got != want {
			t.Errorf("%v: %v, expected %v", at, got, want)
		}
	}
	if err := c.add("m", []byte("m/a/b.go:3.14,5 2 1")); err == nil {
		t.Error("a line that is none was taken")
	}
}

func TestTally(t *testing.T) {
	results := []*Result{
		{&Mutant{Kind: "b"}, &Verdict{Found: true, Seeds: 30}}, {&Mutant{Kind: "b"}, &Verdict{Found: true, Seeds: 10}},
		{&Mutant{Kind: "a"}, &Verdict{}}, {&Mutant{Kind: "b"}, &Verdict{Found: true, Seeds: 20}},
	}
	var out bytes.Buffer
	if err := table(&out, "kind", tally(results, func(r *Result) string { return r.Kind }), true); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for l := range strings.Lines(out.String()) {
		got = append(got, strings.Fields(l))
	}
	want := [][]string{
		{"kind", "mutants", "found", "share", "seeds", "(median)"},
		{"a", "1", "0", "0%", "-"}, {"b", "3", "3", "100%", "20"}, {"all", "4", "3", "75%", "20"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A module with a package whose tests find one fault, miss another, and hang or crash
// at others.
func TestJudge(t *testing.T) {
	w := module(t, map[string]string{
		"p/p.go": "package p\n\nfunc Sum(n int) (s int) {\n\tfor i := range n {\n\t\ts += i\n\t}\n\tnever()\n\treturn s\n}\n\nfunc never() {}\n\n" +
			"func unused() {\n\tnever()\n}\n\nfunc small(n int) bool {\n\tswitch {\n\tcase n > 4:\n\t\treturn false\n\t}\n\treturn true\n}\n",
		"p/p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif s := Sum(4); s != 6 || !small(4) {\n\t\tt.Error(s)\n\t}\n}\n",
	})
	judge := &tests{w: w, limit: 2 * time.Second}
	ctx := context.Background()
	for name, c := range map[string]struct{ change, want string }{
		"found":    {"-\t\ts += i\n+\t\ts -= i", "failed"},
		"survived": {"-\tnever()\n \treturn s", "passed"},
		"crash":    {"-\t\ts += i\n+\t\tpanic(i)", "panicked"},
		"hang":     {"-\t\ts += i\n+\t\tfor s = i; ; {\n+\t\t}", "hung"},
		"no Go":    {"-\t\ts += i\n+\t\ts +=", "does not compile"},
	} {
		ms, err := parse("g", "= n k p/p.go\n# B.\n"+c.change)
		if err != nil {
			t.Fatal(err)
		}
		v, err := judge.judge(ctx, ms[0], []string{"./p"})
		got := "passed"
		if err != nil {
			got = err.Error()
		} else if v.Found {
			got = v.How
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, expected %s", name, got, c.want)
		}
	}

	results := map[string]string{}
	var left []string
	known := map[change]string{{"p/p.go", opReturn, "func never() {»}"}: "It does nothing."}
	candidates, err := w.auto(ctx, []string{"./p"}, draw{sample: -1, alike: known}, &byTests{tests: *judge}, func(r *Result) {
		what := "survived"
		if r.Found {
			what = "found"
		} else if r.Uncovered {
			what = "uncovered"
		}
		results[strings.TrimPrefix(r.Name, "p/p.go:")] = what
	}, func(m *Mutant, why string) { left = append(left, m.place+" "+why) })
	want := map[string]string{
		"5:5 arith": "found", "7:2 drop": "survived", "13:16 return": "uncovered", "14:2 drop": "uncovered",
		"19:9 compare": "found", "20:10 bool": "uncovered", "22:9 bool": "found",
	}
	if d := cmp.Diff(want, results); d != "" || err != nil || candidates != len(want)+1 { // one does not compile
		t.Errorf("%d candidates, %v:\n%s", candidates, err, d)
	}
}

// Changes that make no difference are known by their line, wherever that is.
func TestAlike(t *testing.T) {
	const source = "package p\n\nfunc max0(a int) int {\n\tif a < 0 {\n\t\treturn 0\n\t}\n\treturn a\n}\n"
	tree := fstest.MapFS{"p.go": {Data: []byte(source)}}
	const good = "# About this file.\n\n= p.go compare\n if a »< 0 {\n# 0 is returned either way,\n# as it is.\n"
	if err := fitAlike(tree, good); err != nil {
		t.Error(err)
	}
	known, err := reasons(good)
	if want := map[change]string{{"p.go", "compare", "if a »< 0 {"}: "0 is returned either way, as it is."}; err != nil || !maps.Equal(known, want) {
		t.Errorf("%q, %v", known, err)
	}
	for _, bad := range []string{
		"= p.go compare\n if a »> 0 {\n# Other line.\n", "= p.go arith\n if a »< 0 {\n# Other kind.\n", "= p.go\n", "= p.go compare\n if a < 0 {\n",
		"= p.go compare\n# No line.\n", " if a »< 0 {\n", "x\n",
	} {
		if err := fitAlike(tree, bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A command that answers as tools/mutants/seeds does.
func TestJudgeByStorm(t *testing.T) {
	w := module(t, map[string]string{
		"tools/mutants/seeds/main.go": `package main

import (
	"fmt"
	"os"
	"slices"
)

const answer = "{\"seeds\": 30}"

func main() {
	if !slices.Contains(os.Args, "-provider") {
		os.Exit(2)
	}
	fmt.Println(answer)
}
`,
	})
	ctx := context.Background()
	judge := &storms{w: w, seeds: 30}
	if err := judge.calibrate(ctx, []string{"transport", "cm"}); err != nil {
		t.Fatal(err)
	}
	mutant := func(with string) *Mutant {
		const file = "tools/mutants/seeds/main.go"
		ms, err := parse("transport", "= n k "+file+"\n# B.\n-const answer = \"{\\\"seeds\\\": 30}\"\n+"+with)
		if err != nil {
			t.Fatal(err)
		}
		return ms[0]
	}
	for name, c := range map[string]struct {
		change string
		want   Verdict
	}{
		"found": {
			"const answer = `{\"seeds\": 7, \"failed\": \"a request is lost\"}`",
			Verdict{Found: true, By: "-provider soft", How: "failed", What: "a request is lost", Seeds: 7},
		},
		"survived": {"const answer = `{\"seeds\": 30}`", Verdict{}},
		"crash":    {"var answer = os.Args[100]", Verdict{Found: true, By: "-provider soft", How: "panicked"}},
	} {
		v, err := judge.judge(ctx, mutant(c.change), over["transport"])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v.Seconds = 0
		if d := cmp.Diff(&c.want, v); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if v, err := judge.judge(ctx, mutant("const answer = `?`"), over["transport"]); err == nil {
		t.Errorf("an answer that is none gave %+v", v)
	}
}

// module writes a module m and returns a workspace for it.
func module(t *testing.T, files map[string]string) *workspace {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("needs the go command: %v", err)
	}
	w, err := newWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.close() })
	files["go.mod"] = "module m\n\ngo 1.26.0\n"
	for name, text := range files {
		file := filepath.Join(w.root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}
