package p4

import (
	"fmt"

	"github.com/sluice-rdma/sluice/p4/internal/lint"
)

// Targets are the chips that a program can be for, by name.
func Targets() []string { return []string{"tofino1", "tofino2"} }

// Lint looks for what the compiler of Options.Target is known to refuse in the program
// that Find finds, and returns a warning for each place: file:line:column: warning: text.
// No warning is no promise that the program fits the chip. An error says that the
// program is faulty, or not for TNA.
func Lint(name string, o Options) ([]string, error) {
	text, err := find(name)
	if err != nil {
		return nil, err
	}
	tree, err := parsed(text.name, text.src, o, text.read)
	if err != nil {
		return nil, err
	}
	target := lint.Tofino1
	if o.Target == "tofino2" {
		target = lint.Tofino2
	}
	warnings, ok := lint.Check(tree, target)
	if !ok {
		return nil, fmt.Errorf("%s: target %s takes programs for TNA, which this is not", name, o.Target)
	}
	texts := make([]string, len(warnings))
	for i, w := range warnings {
		texts[i] = fmt.Sprintf("%s: warning: %s", w.At, w.Text)
	}
	return texts, nil
}
