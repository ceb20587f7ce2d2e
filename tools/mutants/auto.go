package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// goPackage is go list's description of a package.
type goPackage struct {
	Dir                       string
	GoFiles, CgoFiles         []string
	TestGoFiles, XTestGoFiles []string
	rel                       string // ./ and the folder, from the top of the tree
}

func (p *goPackage) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// list returns the packages that patterns name.
func (w *workspace) list(ctx context.Context, patterns []string) ([]*goPackage, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles", "--"}, patterns...)...)
	cmd.Dir = w.root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	var all []*goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		p := &goPackage{}
		if err := d.Decode(p); err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(w.root, p.Dir)
		if err != nil {
			return nil, err
		}
		p.rel = "./" + filepath.ToSlash(rel)
		all = append(all, p)
	}
	return all, nil
}

// candidates returns all automatic mutants of packages.
func (w *workspace) candidates(packages []*goPackage) ([]*Mutant, error) {
	var all []*Mutant
	for _, p := range packages {
		for _, f := range p.GoFiles {
			name := strings.TrimPrefix(p.rel+"/"+f, "./")
			source, err := os.ReadFile(filepath.Join(w.root, name))
			if err != nil {
				return nil, err
			}
			ms, err := mutations(name, source)
			if err != nil {
				return nil, err
			}
			all = append(all, ms...)
		}
	}
	return all, nil
}

// covered returns the code that the tests of packages run.
func (t *tests) covered(ctx context.Context, packages, testing []string) (coverage, error) {
	all := coverage{}
	module, err := t.w.module(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range testing {
		profile := filepath.Join(t.w.dir, "cover.out")
		how, out, _, err := t.test(ctx, nil, p, "-cover", "-coverpkg="+strings.Join(packages, ","), "-test.coverprofile="+profile)
		if err != nil {
			return nil, err
		}
		if how != passed {
			return nil, fmt.Errorf("%s: the tests of the tree as it is, with coverage, %s:\n%s", p, how, out)
		}
		text, err := os.ReadFile(profile)
		if err != nil {
			return nil, err
		}
		if err := all.add(module, text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (w *workspace) module(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m")
	cmd.Dir = w.root
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// coverage is the blocks of statements, by file, and whether a test runs them.
type coverage map[string]map[span]bool

type span struct{ from, to place }

type place struct{ line, column int }

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// runs reports whether tests run what is at a place. What lies in no block, as the expressions
// of a switch's cases do, may be run.
func (c coverage) runs(file string, at place) bool {
	for s, run := range c[file] {
		if !run && !at.before(s.from) && at.before(s.to) {
			return false
		}
	}
	return true
}

// add adds a cover profile, of module/FILE:L.C,L.C N COUNT.
func (c coverage) add(module string, profile []byte) error {
	s := bufio.NewScanner(bytes.NewReader(profile))
	for s.Scan() {
		where, rest, ok := strings.Cut(s.Text(), ".go:")
		if !ok {
			continue // mode:
		}
		file := strings.TrimPrefix(where+".go", module+"/")
		var b span
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.from.line, &b.from.column, &b.to.line, &b.to.column, &statements, &count); err != nil {
			return fmt.Errorf("cover profile: %q: %w", s.Text(), err)
		}
		if c[file] == nil {
			c[file] = map[span]bool{}
		}
		c[file][b] = c[file][b] || count > 0
	}
	return s.Err()
}

// draw chooses the automatic mutants to judge.
type draw struct {
	sample int               // how many; -1 for all
	seed   uint64            // of their order
	at     string            // FILE:LINE or FILE:LINE:COLUMN, with commas between; all places if empty
	alike  map[change]string // changes without a difference, and why
}

func (d *draw) has(m *Mutant) bool {
	return d.at == "" || slices.ContainsFunc(strings.Split(d.at, ","), func(at string) bool {
		place, _, _ := strings.Cut(m.Name, " ")
		return strings.HasPrefix(place+":", at+":")
	})
}

// judge finds out what becomes of an automatic mutant.
type judge interface {
	// ready makes sure that nothing is found in the tree as it is.
	ready(ctx context.Context, mutated, testing []string) error
	verdict(ctx context.Context, m *Mutant) (*Verdict, error)
}

// auto draws among the mutants of packages, has each judged, and calls report with each as
// it is. What does not compile is no mutant, and not counted; nor is what makes no
// difference, which is told to left.
func (w *workspace) auto(ctx context.Context, patterns []string, d draw, j judge, report func(*Result), left func(*Mutant, string)) (candidates int, err error) {
	packages, err := w.list(ctx, patterns)
	if err != nil {
		return 0, err
	}
	var mutated, testing []string
	for _, p := range packages {
		mutated = append(mutated, p.rel)
		if p.tested() {
			testing = append(testing, p.rel)
		}
	}
	all, err := w.candidates(packages)
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(m *Mutant) bool { return !d.has(m) })
	if candidates = len(all); candidates == 0 {
		return 0, fmt.Errorf("%s: nothing to change at %q", strings.Join(patterns, " "), d.at)
	}
	if err := j.ready(ctx, mutated, testing); err != nil {
		return 0, err
	}
	rand.New(rand.NewPCG(d.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, m := range all {
		if d.sample == 0 {
			break
		}
		if why := m.why(d.alike); why != "" {
			left(m, why)
			continue
		}
		v, err := j.verdict(ctx, m)
		if errors.Is(err, errBuild) {
			continue
		}
		if err != nil {
			return candidates, err
		}
		d.sample--
		report(&Result{m, v})
	}
	return candidates, nil
}

// byTests judges by the tests of packages. A change of what none of them runs is not tried.
type byTests struct {
	tests
	also    []string // packages that are not changed
	testing []string
	covered coverage
}

func (t *byTests) ready(ctx context.Context, mutated, testing []string) error {
	if len(testing) == 0 {
		return fmt.Errorf("%s: no tests", strings.Join(mutated, " "))
	}
	testing = append(testing, t.also...)
	t.testing = testing
	err := t.calibrate(ctx, testing)
	if err == nil {
		t.covered, err = t.tests.covered(ctx, mutated, testing)
	}
	return err
}

func (t *byTests) verdict(ctx context.Context, m *Mutant) (*Verdict, error) {
	if t.covered.runs(m.File, place{m.Line, m.column}) {
		return t.judge(ctx, m, near(m, t.testing))
	}
	return &Verdict{Uncovered: true}, t.w.build(ctx, m, "build", "./"+m.Dir())
}

// byStorms judges by storms over the providers that run the package's code.
type byStorms struct{ storms }

// stormed are the groups of over to which packages belong.
var stormed = map[string]string{
	"roce/rc": "transport", "verbs/softroce/internal/endpoint": "endpoint", "verbs/internal/cm": "cm",
	"ratelimiter": "shim", "completions": "shim", "verbs/paced": "shim", "verbs/paced/internal/core": "shim",
}

func (s *byStorms) ready(ctx context.Context, mutated, _ []string) error {
	var groups []string
	for _, p := range mutated {
		group := stormed[strings.TrimPrefix(p, "./")]
		if group == "" {
			return fmt.Errorf("%s: storms don't run it; they run %s", p, strings.Join(slices.Sorted(maps.Keys(stormed)), ", "))
		}
		groups = append(groups, group)
	}
	return s.calibrate(ctx, groups)
}

func (s *byStorms) verdict(ctx context.Context, m *Mutant) (*Verdict, error) {
	return s.judge(ctx, m, over[stormed[m.Dir()]])
}

// near puts the mutant's own package first: its tests find most.
func near(m *Mutant, packages []string) []string {
	own := "./" + m.Dir()
	i := slices.Index(packages, own)
	if i < 0 {
		return packages
	}
	return slices.Concat([]string{own}, packages[:i], packages[i+1:])
}
