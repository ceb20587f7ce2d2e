package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// compilers are tried in the order of the tables.
var compilers = []string{"p4test", "p4c-bm2-ss", "p4c-barefoot"}

// tool is a compiler.
type tool struct {
	path, version string
	include       []string // directories with core.p4 and the architectures
}

// longest is the time that a compiler may take for a program.
const longest = 30 * time.Minute

// findTools looks for compilers, and for what they include, in a directory and those
// below.
func findTools(dir string) (map[string]tool, error) {
	tools := map[string]tool{}
	var core, tna []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == "core.p4" {
			core = append(core, filepath.Dir(path))
		}
		if e.Name() == "t2na.p4" { // beside tna.p4
			tna = append(tna, filepath.Dir(path))
		}
		if _, have := tools[e.Name()]; have || !slices.Contains(compilers, e.Name()) {
			return nil
		}
		// A link to a file that is not there, or a directory of the name, is none.
		if at, err := os.Stat(path); err == nil && at.Mode().IsRegular() && at.Mode()&0o111 != 0 {
			tools[e.Name()] = tool{path: path}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(tools) == 0 {
		return nil, fmt.Errorf("%s has none of %s", dir, strings.Join(compilers, ", "))
	}
	for name, t := range tools {
		out, err := exec.Command(t.path, "--version").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s --version: %w", t.path, err)
		}
		t.version = versionOf(string(out))
		t.include = slices.Concat(first(tna), first(core))
		tools[name] = t
	}
	return tools, nil
}

func first(dirs []string) []string { return dirs[:min(1, len(dirs))] }

// versionOf finds the version in what --version prints: it stands behind a name, in a
// line of its own.
func versionOf(text string) string {
	for _, field := range strings.Fields(text) {
		if field[0] >= '0' && field[0] <= '9' && strings.Contains(field, ".") {
			return field
		}
	}
	return "unknown"
}

// job is a compiler's run for a program.
type job struct {
	compiler, chip string
	args           []string // OUT stands for where results go
}

// jobs returns the targets for which a program is compiled.
func jobs(program string) []job {
	if !strings.HasSuffix(program, "_tna.p4") {
		return []job{
			{"p4test", "v1model", nil},
			{"p4c-bm2-ss", "v1model", []string{"--arch", "v1model", "-o", "OUT/program.json"}},
		}
	}
	return []job{
		{"p4test", "Tofino 1", []string{"-D__TARGET_TOFINO__=1"}},
		{"p4test", "Tofino 2", []string{"-D__TARGET_TOFINO__=2"}},
		{"p4c-barefoot", "Tofino 1", []string{"--target", "tofino", "--arch", "tna", "-D__TARGET_TOFINO__=1", "-g", "-o", "OUT"}},
		{"p4c-barefoot", "Tofino 2", []string{"--target", "tofino2", "--arch", "t2na", "-D__TARGET_TOFINO__=2", "-g", "-o", "OUT"}},
	}
}

// row is a compiler's result for a program.
type row struct {
	job
	program string
	fault   string // the first error, or ""
	took    usage  // of the chip, where the compiler says that
}

func (t tool) compile(ctx context.Context, j job, program, out string) row {
	r := row{job: j, program: filepath.Base(program)}
	if err := os.Mkdir(out, 0o750); err != nil {
		r.fault = err.Error()
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	var args []string
	for _, dir := range t.include {
		args = append(args, "-I", dir)
	}
	for _, a := range j.args {
		args = append(args, strings.Replace(a, "OUT", out, 1))
	}
	abs, err := filepath.Abs(program)
	if err != nil {
		r.fault = err.Error()
		return r
	}
	cmd := exec.CommandContext(ctx, t.path, append(args, abs)...)
	cmd.Dir = out
	text, err := cmd.CombinedOutput()
	if err != nil {
		r.fault = firstError(text, err)
		return r
	}
	if j.compiler == "p4c-barefoot" {
		if r.took, err = readUsage(out); err != nil {
			r.fault = err.Error()
		}
	}
	return r
}

// firstError is a compiler's first line about an error.
func firstError(text []byte, err error) string {
	for l := range bytes.Lines(text) {
		if bytes.Contains(l, []byte("error:")) {
			return string(bytes.TrimSpace(l))
		}
	}
	return err.Error()
}
