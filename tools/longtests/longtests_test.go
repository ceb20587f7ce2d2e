package main

import (
	"os"
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
		"c/testdata/d_test.go": &fstest.MapFile{Data: []byte("no Go")},
	}
	got, packages, err := find(root)
	want := []string{"TestAsks", "TestDraws", "TestDrawsWithin", "TestOfAnotherPackage", "TestProgram", "TestThroughAMethod", "TestThroughAnother"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if !slices.Equal(packages, []string{"a"}) {
		t.Errorf("packages %q", packages)
	}
}

// TestTree holds the tool to tests of this tree of which it is known.
func TestTree(t *testing.T) {
	got, packages, err := find(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(packages, "internal/rxetest") || slices.Contains(packages, "tools/longtests") {
		t.Errorf("packages %q", packages)
	}
	for name, want := range map[string]bool{"TestSluice": true, "TestOneGuest": true, "TestConservation": true, "TestFind": false, "TestRules": false, "TestPages": false} {
		if slices.Contains(got, name) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}
