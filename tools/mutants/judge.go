package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Verdict is the fate of one mutant.
type Verdict struct {
	Found bool   `json:"found"`
	By    string `json:"by,omitempty"`    // which tests or storm found it
	How   string `json:"how,omitempty"`   // failed, panicked or hung
	What  string `json:"what,omitempty"`  // the storm says that is wrong
	Seeds int    `json:"seeds,omitempty"` // that the storm needed
	// Uncovered: no test runs the statement. It was not built.
	Uncovered bool    `json:"uncovered,omitempty"`
	Seconds   float64 `json:"seconds"`
}

// tests judges by the tests of packages, in turn until one finds the mutant.
type tests struct {
	w     *workspace
	limit time.Duration            // of a package's tests; 0 for what calibrate finds
	own   map[string]time.Duration // by package, if limit is 0
	long  bool                     // without -short
}

// calibrate makes sure that the tests of packages pass on the tree as it is, and bounds
// those of mutants by ten times what they take.
func (t *tests) calibrate(ctx context.Context, packages []string) error {
	t.own = map[string]time.Duration{}
	for _, p := range packages {
		if t.limit == 0 {
			t.own[p] = 10 * time.Minute
		}
		how, out, took, err := t.test(ctx, nil, p)
		if err != nil {
			return err
		}
		if how != passed {
			return fmt.Errorf("%s: the tests of the tree as it is %s:\n%s", p, how, out)
		}
		t.own[p] = max(5*time.Second, (10 * took).Round(time.Second))
	}
	return nil
}

func (t *tests) judge(ctx context.Context, m *Mutant, packages []string) (*Verdict, error) {
	start := time.Now()
	v := &Verdict{}
	for _, p := range packages {
		how, _, _, err := t.test(ctx, m, p)
		if err != nil {
			return nil, err
		}
		if how != passed {
			v.Found, v.By, v.How = true, p, how.String()
			break
		}
	}
	v.Seconds = time.Since(start).Seconds()
	return v, nil
}

// test runs the tests of one package on the tree with the mutant, or as it is.
func (t *tests) test(ctx context.Context, m *Mutant, pkg string, flags ...string) (outcome, []byte, time.Duration, error) {
	program := filepath.Join(t.w.dir, binary(pkg))
	build := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program}
	args := []string{"-test.failfast"}
	for _, f := range flags {
		if strings.HasPrefix(f, "-test.") {
			args = append(args, f)
		} else {
			build = append(build, f)
		}
	}
	if err := t.w.build(ctx, m, append(build, pkg)...); err != nil {
		return failed, nil, 0, err
	}
	limit := t.limit
	if limit == 0 {
		limit = t.own[pkg]
	}
	args = append(args, "-test.timeout", limit.String())
	if !t.long {
		args = append(args, "-test.short")
	}
	start := time.Now()
	how, out, err := run(ctx, filepath.Join(t.w.root, pkg), limit+10*time.Second, program, args...)
	return how, out, time.Since(start), err
}
