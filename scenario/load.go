package scenario

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/internal/spelling"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/units"
)

//go:embed builtin/*.yaml reproduce/*.yaml speed/*.yaml systems.yaml
var builtins embed.FS

// Load reads a scenario: a built-in one by its name, or a file. A name with a
// slash or the ending .yaml or .yml is a file's. Each of sets is an override
// such as "nic.mtu=4096" or "systems[TIMELY].config.t_low=20us". The error is an
// Errors, unless the file could not be read.
func Load(name string, sets ...string) (*Scenario, error) { return LoadWithin(0, name, sets...) }

// LoadWithin is Load, but refuses a network whose simulation would take more memory, by an
// estimate that is no more than what it takes. It does so before it builds anything as
// large as that. A limit of 0 is none.
func LoadWithin(memory units.Bytes, name string, sets ...string) (*Scenario, error) {
	src, file, err := read(name)
	if err != nil {
		return nil, err
	}
	return ParseWithin(memory, file, src, sets...)
}

// Source returns the text of a scenario as it stands, comments and all.
func Source(name string) ([]byte, error) {
	src, _, err := read(name)
	return src, err
}

// Parse is Load for a text; file is what errors call it, and what paths of
// scenarios that it extends are relative to.
func Parse(file string, src []byte, sets ...string) (*Scenario, error) {
	return ParseWithin(0, file, src, sets...)
}

// ParseWithin is LoadWithin for a text, as Parse is Load.
func ParseWithin(memory units.Bytes, file string, src []byte, sets ...string) (*Scenario, error) {
	root, err := readTree(file, src, nil)
	if err != nil {
		return nil, asErrors(err)
	}
	// Once before the overrides, which may name a system or one of its parameters,
	// and once for systems that an override brings.
	if err := useSystems(root); err != nil {
		return nil, asErrors(err)
	}
	for _, set := range sets {
		if err := root.Override(set); err != nil {
			return nil, asErrors(err)
		}
	}
	if err := useSystems(root); err != nil {
		return nil, asErrors(err)
	}
	if err := applyParams(root); err != nil {
		return nil, asErrors(err)
	}
	s := Default()
	s.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".yaml"), ".yml")
	d := tree.NewDocument(file)
	d.Decode(root, "", s)
	s.source = d
	if len(d.Errs) == 0 {
		s.resolve(d, memory)
	}
	if len(d.Errs) > 0 {
		return nil, d.Errs
	}
	return s, nil
}

func asErrors(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return Errors{e}
	}
	return err
}

func isFile(name string) bool {
	return strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// read returns the text of a scenario and what errors call it.
func read(name string) (src []byte, file string, err error) {
	if !isFile(name) {
		var src []byte
		for _, dir := range []string{"builtin", "reproduce", "speed"} {
			if src, err = builtins.ReadFile(dir + "/" + name + ".yaml"); err == nil {
				break
			}
		}
		if err != nil {
			msg := fmt.Sprintf("there is no built-in scenario %q: take one of %s, or give a file's name with its ending .yaml", name, strings.Join(Builtins(), ", "))
			if near := spelling.Nearest(name, slices.Concat(Builtins(), Speeds(), Reproductions())); near != "" {
				msg = fmt.Sprintf("there is no built-in scenario %q: is %q meant?", name, near)
			}
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				msg = fmt.Sprintf("there is no built-in scenario %q: for the file of that name, write ./%[1]s", name)
			}
			return nil, "", errors.New(msg)
		}
		return src, name + ".yaml", nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", fmt.Errorf("there is no file %s", name)
	case err == nil && info.IsDir():
		return nil, "", fmt.Errorf("%s is a directory: name a scenario's file", name)
	}
	src, err = infile.Read(name, infile.MaxText)
	return src, name, err
}

// Builtins lists the names of the built-in scenarios, but for Speeds and Reproductions.
func Builtins() []string { return embedded("builtin") }

// Speeds lists the names of the built-in scenarios by which the simulator's own speed is
// measured: large networks, and no figures of interest.
func Speeds() []string { return embedded("speed") }

// Reproductions lists the names of the built-in scenarios that are a paper's
// experiment, which sluice reproduce runs. Each takes its systems from
// systems.yaml.
func Reproductions() []string { return embedded("reproduce") }

func embedded(dir string) []string {
	entries, err := builtins.ReadDir(dir)
	if err != nil {
		panic(err) // it is part of the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// maxExtends bounds how many scenarios stand on one another.
const maxExtends = 8

// readTree parses a scenario and lays it over the one that it extends.
func readTree(file string, src []byte, above []string) (*tree.Node, error) {
	root, err := tree.Parse(Pos{File: file}, src)
	if err != nil {
		return nil, err
	}
	if root.Kind != tree.Mapping {
		return nil, &Error{Pos: root.Pos, Msg: fmt.Sprintf("expected a scenario, which is a mapping, got %v: begin with name:, topology: and so on", root.Kind)}
	}
	base := root.Take("extends")
	if base == nil {
		return root, nil
	}
	fail := func(format string, args ...any) (*tree.Node, error) {
		return nil, &Error{Pos: base.Pos, Key: "extends", Msg: fmt.Sprintf(format, args...)}
	}
	if base.Kind != tree.Scalar {
		return fail("expected the name of a built-in scenario or a file, got %v", base.Kind)
	}
	if above = append(above, file); len(above) > maxExtends {
		return fail("%s: more than %d scenarios stand on one another: put some of them together", strings.Join(above, " -> "), maxExtends)
	}
	name := base.Text
	if isFile(name) && !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(file), name)
		if !isFile(name) {
			name = "./" + name
		}
	}
	baseSrc, baseFile, err := read(name)
	if err != nil {
		return fail("%v", err)
	}
	// Of built-in ones none extends a file.
	if chain := append(slices.Clone(above), baseFile); isFile(name) && slices.ContainsFunc(above, func(file string) bool { return sameFile(file, baseFile) }) {
		if len(chain) == 2 {
			return fail("the scenario extends itself: name another, or leave the key out")
		}
		return fail("scenarios extend one another in a circle, %s: one of them must stand alone", strings.Join(chain, " -> "))
	}
	under, err := readTree(baseFile, baseSrc, above)
	if err != nil {
		return nil, err
	}
	under.Take("name") // a scenario that changes another is not that one
	under.Merge(root)
	return under, nil
}

// sameFile reports whether two names are of one scenario.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// applyParams puts the parameters where they are used.
func applyParams(n *tree.Node) error {
	params := n.Take("params")
	if params != nil && params.Kind != tree.Mapping {
		return &Error{Pos: params.Pos, Key: "params", Msg: fmt.Sprintf("expected a mapping of names to values, got %v", params.Kind)}
	}
	used := map[string]bool{}
	if err := n.Substitute(params, used, ""); err != nil {
		return err
	}
	if params != nil {
		for _, f := range params.Fields {
			if !used[f.Key] {
				return &Error{Pos: f.Pos, Key: "params." + f.Key, Msg: "no value of the scenario is $" + f.Key + ": use the parameter or leave it out"}
			}
		}
	}
	return nil
}
