package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/check"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/lint"
	"github.com/sluice-rdma/sluice/p4/internal/parse"
)

// warnings are those of the program in a file, by file and line.
func warnings(t *testing.T, name string, target lint.Target, define ...string) map[string][]string {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defs := map[string]string{"__TARGET_TOFINO__": fmt.Sprint(int(target))}
	for _, d := range define {
		k, v, _ := strings.Cut(d, "=")
		defs[k] = v
	}
	tree, err := parse.Program(name, src, parse.Options{Define: defs, ReadFile: os.ReadFile, Builtin: include.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Program(tree, check.Options{}); err != nil {
		t.Fatal(err)
	}
	return byLine(t, tree, target)
}

func byLine(t *testing.T, tree *ast.Program, target lint.Target) map[string][]string {
	t.Helper()
	found, ok := lint.Check(tree, target)
	if !ok {
		t.Fatal("it is not for TNA")
	}
	m := map[string][]string{}
	for _, w := range found {
		at := fmt.Sprintf("%s:%d", filepath.Base(w.At.File), w.At.Line)
		m[at] = append(m[at], w.Text)
	}
	return m
}

// A program for each rule: the lines that end in "warns: text" get a warning with that
// text, and no others do.
func TestRules(t *testing.T) {
	files, err := filepath.Glob("testdata/cut/*.p4")
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "frame.p4" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			got := warnings(t, file, lint.Tofino1)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range strings.Split(string(text), "\n") {
				at := fmt.Sprintf("%s:%d", filepath.Base(file), i+1)
				_, want, ok := strings.Cut(l, "// warns: ")
				if ok != (len(got[at]) == 1) {
					t.Errorf("%s: %q", at, got[at])
				} else if ok && !strings.Contains(got[at][0], want) {
					t.Errorf("%s: %q does not say %q", at, got[at][0], want)
				}
				delete(got, at)
			}
			for at, texts := range got {
				t.Errorf("%s: %q", at, texts)
			}
		})
	}
}

// Tofino 2's egress parser has no such bound.
func TestDepthIsOfTofino1(t *testing.T) {
	if got := warnings(t, "testdata/cut/depth.p4", lint.Tofino2); len(got) != 0 {
		t.Error(got)
	}
}

// Sluice's programs as they were when the compiler refused all of them: the warnings
// stand where it did.
func TestProgramsThatTheCompilerRefused(t *testing.T) {
	const (
		stages    = "which would take several stages"
		condition = "moves the operation into the condition"
		sources   = "too many sources"
		depth     = "reads 173 bytes"
		next      = "by the way into the state"
	)
	for file, want := range map[string]map[string]string{
		"poseidon_mpd_tna.p4": {"poseidon_mpd_tna.p4:86": stages},
		"csig_mpd_tna.p4":     {"csig_mpd_tna.p4:143": condition, "csig_mpd_tna.p4:152": condition, "csig_mpd_tna.p4:154": sources},
		"ein_tna.p4":          {"ein_tna.p4:194": stages, "ein_tna.p4:208": stages, "ein_tna.p4:210": condition, "ein_tna.p4:212": condition},
		"int_tna.p4": {
			"parser.p4:181": depth, "int_tna.p4:158": sources, "parser.p4:172": next, "parser.p4:173": next, "parser.p4:174": next,
			"parser.p4:175": next, "parser.p4:176": next, "parser.p4:177": next, "parser.p4:178": next,
		},
	} {
		got := warnings(t, "testdata/before/"+file, lint.Tofino1)
		for at, text := range want {
			if !slices.ContainsFunc(got[at], func(s string) bool { return strings.Contains(s, text) }) {
				t.Errorf("%s: %q, expected %q", at, got[at], text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: warnings in %d lines, expected %d: %v", file, len(got), len(want), got)
		}
	}
}

// Sluice's programs have none.
func TestShippedProgramsHaveNoWarnings(t *testing.T) {
	files, err := filepath.Glob("../../*_tna.p4")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, define := range [][]string{nil, {"WIDE_BASE=4096", "WIDE_STEP_LOG2=9", "WIDE_LOCATOR=3", "COMPACT_LOCATOR=1"}} {
			for _, target := range []lint.Target{lint.Tofino1, lint.Tofino2} {
				if got := warnings(t, file, target, define...); len(got) != 0 {
					t.Errorf("%s for Tofino %d with %v: %v", file, target, define, got)
				}
			}
		}
	}
}

// What is not for TNA is told apart.
func TestOtherArchitectures(t *testing.T) {
	src := []byte("#include <core.p4>\n#include <v1model.p4>\n" + `
struct h_t {}
struct m_t {}
parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) { state start { transition accept; } }
control C(inout h_t h, inout m_t m) { apply { } }
control I(inout h_t h, inout m_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in h_t h) { apply { } }
V1Switch(P(), C(), I(), I(), C(), D()) main;
`)
	tree, err := parse.Program("v1.p4", src, parse.Options{Builtin: include.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Program(tree, check.Options{}); err != nil {
		t.Fatal(err)
	}
	if found, ok := lint.Check(tree, lint.Tofino1); ok || len(found) > 0 {
		t.Errorf("a program for v1model: %v, %v", found, ok)
	}
}
