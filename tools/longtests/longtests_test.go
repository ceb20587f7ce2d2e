package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
)

func TestFind(t *testing.T) {
	file := func(imports, text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package p\n\nimport (\n\"testing\"\n" + imports + "\n)\n" + text)}
	}
	root := fstest.MapFS{
		"a/a_test.go": file(`"pgregory.net/rapid"
	"github.com/sluice-rdma/sluice/b/helpers"`, `
func TestAsks(t *testing.T) { if testing.Short() { t.Skip() } }
func TestDraws(t *testing.T) { rapid.Check(t, nil) }
func TestDrawsWithin(t *testing.T) { t.Run("x", rapid.MakeCheck(nil)) }
func TestThroughAnother(t *testing.T) { half(t) }
func TestThroughAMethod(t *testing.T) { var r runner; r.quick(t) }
func TestOfAnotherPackage(t *testing.T) { helpers.Conform(t) }
func TestProgram(t *testing.T) { if _, err := exec.LookPath("promtool"); err != nil { t.Skip() } }
func TestAlways(t *testing.T) { whole(t) }
func Testing(t *testing.T) { half(t) }
func TestMain(m *testing.M) { if testing.Short() { return } }
func BenchmarkShort(b *testing.B) { if testing.Short() { b.Skip() } }
type runner struct{}
func (runner) quick(t *testing.T) { half(t) }
func half(t *testing.T) { if testing.Short() { return } }
func whole(t *testing.T) {}
`),
		"b/helpers/helpers.go": file("", `
func Conform(t *testing.T) { if testing.Short() { return } }
`),
		"c/c_test.go": file("", `
func TestElsewhere(t *testing.T) { half(t) }
func half(t *testing.T) {}
`),
		"d/d_test.go": file("", `
func TestAlways(t *testing.T) { if testing.Short() { t.Skip() } }
func TestAsks(t *testing.T) {}
`),
		"c/testdata/d_test.go": &fstest.MapFile{Data: []byte("no Go")},
	}
	got, err := find(root)
	want := map[string][]string{"d": {"TestAlways"}, "a": {"TestAsks", "TestDraws", "TestDrawsWithin", "TestOfAnotherPackage", "TestProgram", "TestThroughAMethod", "TestThroughAnother"}}
	if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// TestTree holds the tool to tests of this tree of which it is known.
func TestTree(t *testing.T) {
	got, err := find(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[name]bool{
		{"internal/rxetest", "TestSluice"}: true, {"internal/rxetest", "TestOneGuest"}: true, {"nicmodel", "TestConservation"}: true,
		{"sim/fabric", "TestConservation"}: true, {"tools/longtests", "TestFind"}: false, {"cli", "TestPages"}: false,
	} {
		if slices.Contains(got[name.dir], name.function) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
	if len(got["tools/longtests"]) > 0 {
		t.Errorf("this package's %q", got["tools/longtests"])
	}
}

// only.sh runs of a package's tests those that its line names.
func TestOnly(t *testing.T) {
	here, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(here, "list")
	if err := os.WriteFile(list, []byte("./a ^(TestA)$\n./a/b ^(TestB|TestC)$\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(here, "a", "b", "c"), 0o700); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("only.sh")
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"a": "-x y -test.run=^(TestA)$\n", "a/b": "-x y -test.run=^(TestB|TestC)$\n", "a/b/c": ""} {
		cmd := exec.CommandContext(t.Context(), script, here, list, "echo", "-x", "y")
		cmd.Dir = filepath.Join(here, dir)
		out, err := cmd.Output()
		if string(out) != want || (err == nil) != (want != "") {
			t.Errorf("in %s: %q, %v; want %q", dir, out, err, want)
		}
	}
}
