// Package ctest compiles C programs, and talks to them, in tests that hold generated C
// to the Go it is from.
package ctest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Flags that the semantics of generated C rest on, and flags for a compiler's warnings.
var flags = []string{
	"-std=c11", "-fwrapv", "-ffp-contract=off", "-fno-math-errno",
	"-Wall", "-Wextra", "-Werror",
}

// Compiler returns the C compiler, or skips the test.
func Compiler(t testing.TB) string {
	t.Helper()
	name := os.Getenv("CC")
	if name == "" {
		name = "cc"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no C compiler: %v", err)
	}
	return path
}

// Compile runs the compiler; its messages are the test's.
func Compile(t testing.TB, args ...string) {
	t.Helper()
	for _, arg := range args {
		if strings.HasSuffix(arg, ".c") {
			Track(t, filepath.Dir(arg))
		}
	}
	cmd := exec.Command(Compiler(t), append(append([]string{}, flags...), args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// Track reads the files of a directory, which a compiler will, so that go test runs
// again when they have changed.
func Track(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// Program is a program that runs until the end of its input.
type Program struct {
	In       io.WriteCloser
	Out      *bufio.Reader
	messages bytes.Buffer
}

// Start starts a program. The test fails if it does not end well.
func Start(t testing.TB, program string) *Program {
	t.Helper()
	p := &Program{}
	cmd := exec.Command(program)
	cmd.Stderr = &p.messages
	var err error
	if p.In, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Out = bufio.NewReaderSize(out, 1<<20)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.In.Close(), cmd.Wait()); err != nil {
			t.Errorf("the C program: %v\n%s", err, p.messages.String())
		}
	})
	return p
}

// Exchange sends a text, and fills reply with what comes back.
func (p *Program) Exchange(t testing.TB, text, reply []byte) {
	t.Helper()
	if _, err := p.In.Write(text); err != nil {
		t.Fatalf("the C program: %v\n%s", err, p.messages.String())
	}
	if _, err := io.ReadFull(p.Out, reply); err != nil {
		t.Fatalf("the C program: %v\n%s", err, p.messages.String())
	}
}
