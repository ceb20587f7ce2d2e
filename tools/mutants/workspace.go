package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// workspace builds the tree at root with a mutant in it. What it writes lies in dir.
type workspace struct {
	root, dir string
}

func newWorkspace(root string) (*workspace, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants")
	return &workspace{root, dir}, err
}

func (w *workspace) close() error { return os.RemoveAll(w.dir) }

// errBuild is the error of a mutant that does not compile.
var errBuild = errors.New("does not compile")

// overlay writes the mutant's file and what go build -overlay reads. The tree as it
// is has none: m is nil.
func (w *workspace) overlay(m *Mutant) (flag string, err error) {
	if m == nil {
		return "-overlay=", nil
	}
	original := filepath.Join(w.root, m.File)
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	text, err := m.apply(source)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.FullName(), err)
	}
	changed := filepath.Join(w.dir, "mutant.go")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(w.dir, "overlay.json")
	return "-overlay=" + file, errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(file, list, 0o600))
}

// build runs the go command, such as build or test -c, on the tree with the mutant.
func (w *workspace) build(ctx context.Context, m *Mutant, args ...string) error {
	flag, err := w.overlay(m)
	if err != nil {
		return err
	}
	verb := 1
	if args[0] == "test" {
		verb = 2 // test -c
	}
	args = append(append(args[:verb:verb], flag), args[verb:]...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = w.root
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit):
		return fmt.Errorf("%w: %s", errBuild, out)
	}
	return err
}

// outcome is the way in which a program under test ended.
type outcome uint8

const (
	passed outcome = iota
	failed
	panicked
	hung // or wanted more memory than it may have
)

var outcomes = [...]string{"passed", "failed", "panicked", "hung"}

func (o outcome) String() string { return outcomes[o] }

// maxMemory bounds what a mutant may take, in KiB of address space.
const maxMemory = 6_000_000

// run runs a program for at most that long and returns how it ended and what it wrote.
func run(ctx context.Context, dir string, limit time.Duration, program string, args ...string) (outcome, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// exec: what is killed when the time is over is the program itself.
	script := fmt.Sprintf(`ulimit -v %d 2>/dev/null; exec "$0" "$@"`, maxMemory)
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, program}, args...)...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // its children may hold the pipe
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	text := out.Bytes()
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return hung, text, nil
	case ctx.Err() != nil:
		return hung, text, ctx.Err()
	case err == nil:
		return passed, text, nil
	case !errors.As(err, &exit):
		return failed, text, err
	case bytes.Contains(text, []byte("panic: test timed out")), bytes.Contains(text, []byte("out of memory")):
		return hung, text, nil
	case bytes.Contains(text, []byte("\ngoroutine ")), bytes.HasPrefix(text, []byte("goroutine ")):
		return panicked, text, nil
	}
	return failed, text, nil
}

// tail keeps the end of what is written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	const keep = 1 << 20
	if t.Len()+len(p) > 2*keep && t.Len() > keep {
		t.Next(t.Len() - keep)
	}
	return t.Buffer.Write(p)
}

// binary is the name of a package's test program.
func binary(pkg string) string {
	return strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "_") + ".test"
}
