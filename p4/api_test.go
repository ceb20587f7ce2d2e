package p4_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4"
)

const tinyProgram = `#include <core.p4>
#include <v1model.p4>
#ifndef WIDTH
#define WIDTH 8
#endif
header h_t { bit<WIDTH> a; }
struct headers { h_t h; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    action set(bit<WIDTH> v) { hdr.h.a = v; }
    table t { key = { hdr.h.a: exact; } actions = { set; NoAction; } }
    apply { sm.egress_spec = 1; t.apply(); }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`

// tiny writes files into a directory of the test's and returns the first one's path.
func tiny(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, files[0])
}

// Options define macros, name directories of includes and a chip, and what is wrong with them is said.
func TestOptions(t *testing.T) {
	path := tiny(t, "p.p4", strings.Replace(tinyProgram, "struct meta", "#include <more.p4>\nstruct meta", 1), "inc/more.p4", "const bit<8> k = 1;", "other/more.p4", "const bit<8> k = ;")
	dir := filepath.Dir(path)
	inc, other := filepath.Join(dir, "inc"), filepath.Join(dir, "other")
	for _, c := range []struct {
		name string
		path string
		o    p4.Options
		want string
	}{
		{"an include's directory", path, p4.Options{Include: []string{inc}}, ""},
		{"the first directory counts", path, p4.Options{Include: []string{inc, other}}, ""},
		{"another first", path, p4.Options{Include: []string{other, inc}}, "more.p4:1:18"},
		{"no directory", path, p4.Options{}, "more.p4"},
		{"a macro", path, p4.Options{Include: []string{inc}, Define: []string{"WIDTH=16"}}, ""},
		{"a macro without a value is 1", path, p4.Options{Include: []string{inc}, Define: []string{"WIDTH"}}, ""},
		{"a macro that does not fit", path, p4.Options{Include: []string{inc}, Define: []string{"WIDTH=x"}}, "x"},
		{"a macro without a name", path, p4.Options{Define: []string{"=3"}}, `-D "=3": a name is missing, as in -D NAME=value`},
		{"a chip", "int_tna.p4", p4.Options{Target: "tofino2"}, ""},
		{"a chip that there is not", "int_tna.p4", p4.Options{Target: "tofino3"}, `unknown target "tofino3": choose tofino1 or tofino2`},
		{"a file that there is not", filepath.Join(dir, "q.p4"), p4.Options{}, "q.p4"},
		{"a directory", dir, p4.Options{}, "directory"},
	} {
		_, err := p4.Load(c.path, c.o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is %v, expected %q", c.name, err, c.want)
		}
	}
}

// Check reports what Load refuses, and what a chip's compiler would.
func TestCheck(t *testing.T) {
	path := tiny(t, "p.p4", tinyProgram)
	for _, c := range []struct {
		name, path string
		o          p4.Options
		warnings   int
		want       string
	}{
		{"a program", path, p4.Options{}, 0, ""},
		{"one of Sluice's own", "p4/int.p4", p4.Options{}, 0, ""},
		{"one of Sluice's own for a chip", "p4/int_tna.p4", p4.Options{Target: "tofino1"}, 0, ""},
		{"as it was when the chip's compiler refused it", "internal/lint/testdata/before/poseidon_mpd_tna.p4", p4.Options{Target: "tofino1"}, 1, ""},
		{"without a chip nothing is said of it", "internal/lint/testdata/before/poseidon_mpd_tna.p4", p4.Options{Define: []string{"__TARGET_TOFINO__=1"}}, 0, ""},
		{"too deep for Tofino 1", "internal/lint/testdata/cut/depth.p4", p4.Options{Target: "tofino1"}, 1, ""},
		{"but not for Tofino 2", "internal/lint/testdata/cut/depth.p4", p4.Options{Target: "tofino2"}, 0, ""},
		{"a chip for a program that is not for it", path, p4.Options{Target: "tofino1"}, 0, "target tofino1 takes programs for TNA, which this is not"},
		{"a fault", path, p4.Options{Define: []string{"WIDTH=x"}}, 0, "x"},
		{"a file that there is not", "none.p4", p4.Options{}, 0, "there is no file none.p4, nor a program of Sluice's own of that name: those are p4/"},
	} {
		r, err := p4.Check(c.path, c.o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is %v, expected %q", c.name, err, c.want)
		}
		if len(r.Warnings) != c.warnings {
			t.Errorf("%s: warnings are %q, expected %d", c.name, r.Warnings, c.warnings)
		}
	}
}

// Sluice's own programs are found by their names unless a file has that name.
func TestFind(t *testing.T) {
	names := p4.Names()
	if len(names) < 8 || !slices.Contains(names, "p4/int.p4") || !slices.IsSorted(names) {
		t.Errorf("names are %q", names)
	}
	for _, n := range names {
		if own, ok := p4.Own(n); !ok || "p4/"+own != n {
			t.Errorf("%s is %q, %v", n, own, ok)
		}
	}
	for _, n := range []string{"p4/none.p4", "int.p4", "p4/int.stf", "p4/sluice/headers.p5", "", "p4", "../p4/x.p4"} {
		if own, ok := p4.Own(n); ok {
			t.Errorf("%q is Sluice's own %q", n, own)
		}
	}
	if _, ok := p4.Own("./p4/../p4/int.p4"); !ok {
		t.Error("a path that goes up and down again is not found")
	}
	t.Chdir(filepath.Dir(filepath.Dir(tiny(t, "p4/int.p4", tinyProgram))))
	if own, ok := p4.Own("p4/int.p4"); ok {
		t.Errorf("a file of this name is there, but %q is taken", own)
	}
	p, err := p4.Find("p4/int.p4", p4.Options{})
	if err != nil || len(p.Tables()) != 1 {
		t.Errorf("the file has the tables %v: %v", p.Tables(), err)
	}
	if p, err := p4.Find("p4/csig_mpd.p4", p4.Options{}); err != nil || len(p.Tables()) == 0 {
		t.Errorf("Sluice's own: %v", err)
	}
	if _, err := p4.Find("p4/none.p4", p4.Options{}); err == nil || !strings.Contains(err.Error(), "p4/int.p4") {
		t.Errorf("a program that there is not: %v", err)
	}
}

// A script that is read, run, and put into a switch by the package's own names.
func TestScripts(t *testing.T) {
	p, err := p4.Load(tiny(t, "p.p4", tinyProgram), p4.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, script string
		failures     int
		want         string
	}{
		{"it holds", "add t hdr.h.a:1 set(v:5)\npacket 0 01\nexpect 1 05$\n", 0, ""},
		{"it does not", "add t hdr.h.a:1 set(v:5)\npacket 0 01\nexpect 1 06$\n", 1, ""},
		{"it cannot be read", "adds t", 0, "s.stf:1"},
		{"a table that there is not", "add u hdr.h.a:1 set(v:5)\n", 0, `unknown table "u"`},
	} {
		s, err := p4.ParseScript("s.stf", []byte(c.script))
		var r p4.Result
		if err == nil {
			r, err = p4.RunScript(p, s)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is %v, expected %q", c.name, err, c.want)
		}
		if len(r.Failures) != c.failures {
			t.Errorf("%s: failures are %v, expected %d", c.name, r.Failures, c.failures)
		}
	}
	pl := p.New()
	if err := p4.Configure(pl, "c", []byte("packet 0 01")); err == nil {
		t.Error("a packet configures a switch")
	}
	if err := p4.Configure(pl, "c", []byte("add t hdr.h.a:1 set(v:5)")); err != nil {
		t.Error(err)
	}
	var v p4.Verdict
	if pl.Process([]byte{1}, &p4.Intrinsic{}, &v); len(v.Sent) != 1 || v.Sent[0].Data[0] != 5 {
		t.Errorf("%+v left", v.Sent)
	}
}
