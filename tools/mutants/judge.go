package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// Verdict is what became of one mutant.
type Verdict struct {
	Found bool   `json:"found"`
	By    string `json:"by,omitempty"`    // which tests or storm found it
	How   string `json:"how,omitempty"`   // failed, panicked or hung
	Seeds int    `json:"seeds,omitempty"` // that the storm needed
	// Uncovered: no test runs the statement. It was not built.
	Uncovered bool    `json:"uncovered,omitempty"`
	Seconds   float64 `json:"seconds"`
}

// tests judges by the tests of packages, in turn until one finds the mutant. Each
// package may take that long.
type tests struct {
	w     *workspace
	limit time.Duration
	long  bool // without -short
}

func (t *tests) judge(ctx context.Context, m *Mutant, packages []string) (*Verdict, error) {
	start := time.Now()
	v := &Verdict{}
	for _, p := range packages {
		how, out, err := t.test(ctx, m, p)
		if err != nil {
			return nil, err
		}
		if how != passed {
			v.Found, v.By, v.How = true, p, how.String()
			if m == nil {
				return nil, fmt.Errorf("%s: the tests of the tree as it is %s:\n%s", p, how, out)
			}
			break
		}
	}
	v.Seconds = time.Since(start).Seconds()
	return v, nil
}

func (t *tests) test(ctx context.Context, m *Mutant, pkg string) (outcome, []byte, error) {
	program := filepath.Join(t.w.dir, binary(pkg))
	if err := t.w.build(ctx, m, "test", "-c", "-vet=off", "-o", program, pkg); err != nil {
		return failed, nil, err
	}
	args := []string{"-test.failfast", "-test.timeout", t.limit.String()}
	if !t.long {
		args = append(args, "-test.short")
	}
	return run(ctx, filepath.Join(t.w.root, pkg), t.limit+10*time.Second, program, args...)
}
