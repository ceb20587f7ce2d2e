package p4

import (
	"fmt"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/lint"
	"github.com/sluice-rdma/sluice/p4/internal/run"
)

// Targets are the chips that a program can be for, by name.
func Targets() []string { return []string{"tofino1", "tofino2"} }

// Check reads, checks and compiles the program that Find finds, to report on it: it runs nothing.
// Its errors are Find's, except that an extern that the program itself declares gets a warning.
//
// With Options.Target there is a warning for each place that the chip's compiler is known to
// refuse. No warning does not mean that the program fits. A program that is not for TNA is then an error.
func Check(name string, o Options) (Report, error) {
	text, err := find(name)
	if err != nil {
		return Report{}, err
	}
	tree, err := parsed(text.name, text.src, o, text.read)
	if err != nil {
		return Report{}, err
	}
	report, err := run.Check(tree)
	if err != nil || o.Target == "" {
		return report, err
	}
	refused, ok := lintFor(tree, o.Target)
	if !ok {
		return Report{}, fmt.Errorf("%s: target %s takes programs for TNA, which this is not", name, o.Target)
	}
	report.Warnings = append(report.Warnings, refused...)
	return report, nil
}

// lintFor returns the known errors of a target's compiler; false if the program is not for TNA.
func lintFor(tree *ast.Program, name string) (texts []string, ok bool) {
	target := lint.Tofino1
	if name == "tofino2" {
		target = lint.Tofino2
	}
	warnings, ok := lint.Check(tree, target)
	for _, w := range warnings {
		texts = append(texts, fmt.Sprintf("%s: warning: %s", w.At, w.Text))
	}
	return texts, ok
}
