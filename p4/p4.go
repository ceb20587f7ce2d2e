// Package p4 runs P4_16 programs as switches: Load reads, checks and compiles a
// program, Program.New makes a switch that runs it.
//
// The work is done below: package parse reads the text, check types it, run compiles it
// and holds a switch's state, stf runs packet tests. This package exports what other packages need.
// Architectures are v1model (as BMv2's simple_switch has it) and TNA (Tofino 1 and 2).
package p4

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/check"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/parse"
	"github.com/sluice-rdma/sluice/p4/internal/run"
)

// The types of a running program.
type (
	// Program is compiled code without state; any number of pipelines may share it.
	Program = run.Program
	// Report is Check's findings in a correct program.
	Report = run.Report
	// Pipeline is the state of one switch.
	Pipeline = run.Pipeline
	// Packet is one packet between ingress and egress.
	Packet = run.Packet
	// Intrinsic is the switch's knowledge of a packet besides its bytes.
	Intrinsic = run.Intrinsic
	// Depth is a queue's length.
	Depth = run.Depth
	// Verdict is the fate of a packet.
	Verdict = run.Verdict
	// Frame is a packet that leaves.
	Frame = run.Frame
	// Replica is one copy of a multicast packet.
	Replica = run.Replica
	// Mirror is the destination of a clone session's copies.
	Mirror = run.Mirror
	// Entry is a table's entry.
	Entry = run.Entry
	// Match is an entry's condition on one key.
	Match = run.Match
	// Action names an action and gives its arguments.
	Action = run.Action
	// TableInfo describes a table.
	TableInfo = run.TableInfo
	// Rate is a meter's setting.
	Rate = run.Rate
)

// Options are the inputs beside the program's own text.
type Options struct {
	// Include are directories in which #include looks, before the built-in
	// core.p4, v1model.p4, tna.p4 and t2na.p4.
	Include []string
	// Define are macros: NAME, which is 1, or NAME=value.
	Define []string
	// Target is the chip, one of Targets: __TARGET_TOFINO__ is then defined as its
	// compiler does. Without one it is what Define or the program says.
	Target string
}

// Load reads, checks and compiles the program in a file. Faults of the program are
// reported as file:line:column: text, each on a line of its own; what is valid P4 but not run here says "not
// supported".
func Load(path string, o Options) (*Program, error) {
	src, err := readText(path)
	if err != nil {
		return nil, err
	}
	return load(path, src, o, readText)
}

// readText reads a program, or what one includes, from a file.
func readText(name string) ([]byte, error) { return infile.Read(name, infile.MaxText) }

// LoadFS is Load for a program in fsys, as one that is embedded.
func LoadFS(fsys fs.FS, name string, o Options) (*Program, error) {
	read := func(name string) ([]byte, error) { return fs.ReadFile(fsys, name) }
	src, err := read(name)
	if err != nil {
		return nil, err
	}
	return load(name, src, o, read)
}

func load(name string, src []byte, o Options, read func(string) ([]byte, error)) (*Program, error) {
	tree, err := parsed(name, src, o, read)
	if err != nil {
		return nil, err
	}
	return run.Compile(tree)
}

// parsed reads a program's text and checks it.
func parsed(name string, src []byte, o Options, read func(string) ([]byte, error)) (*ast.Program, error) {
	defs := map[string]string{}
	for _, d := range o.Define {
		k, v, ok := strings.Cut(d, "=")
		if k == "" {
			return nil, fmt.Errorf("-D %q: a name is missing, as in -D NAME=value", d)
		}
		if !ok {
			v = "1"
		}
		defs[k] = v
	}
	if o.Target != "" {
		n := slices.Index(Targets(), o.Target) + 1
		if n == 0 {
			return nil, fmt.Errorf("unknown target %q: choose %s", o.Target, strings.Join(Targets(), " or "))
		}
		defs["__TARGET_TOFINO__"] = strconv.Itoa(n)
	}
	tree, err := parse.Program(name, src, parse.Options{Include: o.Include, Define: defs, ReadFile: read, Builtin: include.Builtin})
	if err != nil {
		return nil, err
	}
	if err := check.Program(tree, check.Options{}); err != nil {
		return nil, err
	}
	return tree, nil
}
