package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

// Target is a chip.
type Target int

// Chips, with the value of __TARGET_TOFINO__.
const (
	Tofino1 Target = 1
	Tofino2 Target = 2
)

// Warning is something that the chip's compiler is known to refuse.
type Warning struct {
	At   ast.Pos
	Text string // what it is, why it is refused, what mends it
}

// Check looks at a checked program. Warnings come in the order of files and lines. ok
// is false if the program is not for TNA.
func Check(tree *ast.Program, target Target) (found []Warning, ok bool) {
	l := &linter{target: target, seen: map[Warning]bool{}}
	all := pipes(tree.Main)
	for _, pipe := range all {
		for i, arg := range pipe.Args {
			if arg == nil || arg.Instance == nil {
				continue
			}
			switch in := arg.Instance; {
			case in.Parser != nil:
				l.parser(in.Parser, i >= egressParser)
			case in.Control != nil && i != ingressDeparser && i != egressDeparser:
				l.control(in.Control)
			}
		}
	}
	slices.SortStableFunc(l.found, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Col, b.At.Col))
	})
	return l.found, len(all) > 0
}

// Arguments of the package Pipeline.
const (
	ingressDeparser = 2
	egressParser    = 3
	egressDeparser  = 5
)

// pipes are the packages among a package's arguments.
func pipes(main *ast.Instance) []*ast.Instance {
	var found []*ast.Instance
	for _, arg := range main.Args {
		if arg != nil && arg.Instance != nil && arg.Instance.Kind == ast.InstPackage {
			found = append(found, arg.Instance)
		}
	}
	return found
}

type linter struct {
	target Target
	found  []Warning
	seen   map[Warning]bool // what two parsers include is reported once
}

func (l *linter) warn(at ast.Pos, format string, args ...any) {
	w := Warning{at, fmt.Sprintf(format, args...)}
	if !l.seen[w] {
		l.seen[w] = true
		l.found = append(l.found, w)
	}
}
