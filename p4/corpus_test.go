package p4

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/check"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/parse"
	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// unsupported matches an error of a construct that is not run here, after its position.
var unsupported = regexp.MustCompile(`(?m)^[^\n]*: not supported: (.*)$`)

// TestP4CCorpus runs the v1model tests of the reference compiler, which are not part of this project: the first directory of SLUICE_P4C
// is testdata/p4_16_samples of its source. A program has to pass its .stf or to be refused as "not
// supported"; docs/p4.md has how many do which.
func TestP4CCorpus(t *testing.T) {
	dir := p4cSamples(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.stf"))
	if err != nil {
		t.Fatal(err)
	}
	var passed, refused, failed, skipped int
	reasons := map[string][]string{}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".stf")
		program := strings.TrimSuffix(f, ".stf") + ".p4"
		src, err := os.ReadFile(program)
		if why := notOurs(string(src)); err != nil || why != "" {
			skipped++
			reasons["skipped: "+why] = append(reasons["skipped: "+why], name)
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fail := func(what string, err any) {
			failed++
			s := strings.ReplaceAll(fmt.Sprint(err), dir+string(filepath.Separator), "")
			t.Logf("%s: %s: %s", name, what, s)
			reasons[what] = append(reasons[what], name)
		}
		prog, err := Load(program, Options{})
		if err != nil && strings.Contains(err.Error(), "no package instance called main") {
			skipped++
			reasons["skipped: no main"] = append(reasons["skipped: no main"], name)
			continue
		}
		if err != nil {
			if m := unsupported.FindStringSubmatch(err.Error()); m != nil {
				refused++
				reasons["not supported: "+m[1]] = append(reasons["not supported: "+m[1]], name)
			} else {
				fail("does not load", err)
			}
			continue
		}
		script, err := stf.Parse(f, text)
		if err != nil {
			fail("stf not read", err)
			continue
		}
		script.NamedPorts = true
		r, err := stf.Run(prog, script)
		switch {
		case err != nil:
			fail("stf not run", err)
		case len(r.Failures) > 0:
			fail("wrong packets", fmt.Sprintf("line %d: %s", r.Failures[0].Line, r.Failures[0].Text))
		default:
			passed++
		}
	}
	var keys []string
	for k := range reasons {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		t.Logf("%d: %s: %s", len(reasons[k]), k, strings.Join(reasons[k], " "))
	}
	t.Logf("%d of %d pass, %d are refused as not supported, %d fail; %d skipped", passed, passed+refused+failed, refused, failed, skipped)
	if passed+refused+failed == 0 {
		t.Errorf("%s has no programs with packet tests", dir)
	}
	if failed > 0 {
		t.Errorf("%d programs fail", failed)
	}
}

// p4cSamples is the first directory of SLUICE_P4C.
func p4cSamples(t *testing.T) string {
	dirs := filepath.SplitList(os.Getenv("SLUICE_P4C"))
	if len(dirs) == 0 {
		t.Skip("SLUICE_P4C names no directory with the reference compiler's p4_16_samples")
	}
	return dirs[0]
}

// TestP4CAcceptance holds the checker against what the reference compiler takes and refuses: its p4_16_samples and, beside
// them, p4_16_errors. Of the samples at most 3 percent are refused as wrong and not as not supported, of the others at most
// 10 percent are taken; docs/p4.md has the figures.
func TestP4CAcceptance(t *testing.T) {
	dir := p4cSamples(t)
	each := func(dir string, f func(name string, err error)) (n int) {
		files, err := filepath.Glob(filepath.Join(dir, "*.p4"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil || notOurs(string(src)) != "" {
				continue
			}
			opts := parse.Options{Include: []string{dir}, ReadFile: os.ReadFile, Builtin: include.Builtin}
			tree, err := parse.Program(file, src, opts)
			if err == nil {
				err = check.Program(tree, check.Options{NoMain: true})
			}
			n++
			f(filepath.Base(file), err)
		}
		if n == 0 {
			t.Errorf("%s has no programs", dir)
		}
		return n
	}
	taken, refused := 0, 0
	samples := each(dir, func(name string, err error) {
		switch {
		case err == nil:
			taken++
		case unsupported.MatchString(err.Error()):
			t.Logf("%s: %v", name, err)
		default:
			refused++
			t.Logf("%s is refused: %v", name, err)
		}
	})
	if 100*refused > 3*samples {
		t.Errorf("%d of %d samples are refused as wrong", refused, samples)
	}
	var wrong []string
	errs := each(filepath.Join(dir, "..", "p4_16_errors"), func(name string, err error) {
		if err == nil {
			wrong = append(wrong, name)
		}
	})
	t.Logf("%d of %d samples are taken, %d are refused as wrong; of %d programs with errors %d are taken: %s", taken, samples, refused, errs, len(wrong), strings.Join(wrong, " "))
	if len(wrong) > errs/10 {
		t.Errorf("%d of %d programs with errors are taken", len(wrong), errs)
	}
}

// TestP4CCheck has Check take at least 99 percent of the reference compiler's samples for v1model that include
// v1model.p4, themselves or by a skeleton, and have a main.
func TestP4CCheck(t *testing.T) {
	dir := p4cSamples(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.p4"))
	if err != nil {
		t.Fatal(err)
	}
	var taken, warned, refused int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		src := string(text)
		if notOurs(src) != "" || !strings.Contains(src, "v1model.p4") && !strings.Contains(src, `skeleton.p4"`) {
			continue
		}
		r, err := Check(file, Options{})
		switch {
		case err == nil:
			taken++
			if slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, " is an extern of the program's own") }) {
				warned++
			}
		case !strings.Contains(err.Error(), "no package instance called main"):
			refused++
			t.Logf("%s is refused: %v", filepath.Base(file), err)
		}
	}
	t.Logf("%d of %d programs for v1model are taken, %d of them with an extern of their own", taken, taken+refused, warned)
	if taken == 0 || 100*refused > taken+refused {
		t.Errorf("%d of %d programs for v1model are refused", refused, taken+refused)
	}
}

// notOurs names the architecture of a program that is not for v1model.
func notOurs(src string) string {
	for _, arch := range []string{"psa.p4", "pna.p4", "ebpf_model.p4", "ubpf_model.p4", "xdp_model.p4"} {
		if strings.Contains(src, arch) {
			return arch
		}
	}
	return ""
}
