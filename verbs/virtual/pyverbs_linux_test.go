package virtual_test

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// TestPyverbs runs rdma-core's own tests, as Debian has them.
func TestPyverbs(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given: rdma-core's tests take half a minute")
	}
	const shipped, python = "/usr/share/doc/rdma-core/tests", "/usr/bin/python3"
	if _, err := os.Stat(filepath.Join(shipped, "run_tests.py")); err != nil {
		t.Skipf("python3-pyverbs is not installed: %v", err)
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import pyverbs.device").CombinedOutput(); err != nil {
		t.Skipf("pyverbs does not run: %v\n%s", err, out)
	}
	dir := t.TempDir()
	if err := unpack(shipped, filepath.Join(dir, "tests")); err != nil {
		t.Fatal(err)
	}
	lib := virtualLibrary(t)
	// Its tests of rdma_cm take the first address that the device's interface has.
	soft, err := verbs.Open("soft:127.0.0.1")
	if err != nil {
		t.Skipf("another test has the device's address: %v", err)
	}
	d, err := virtual.Open(virtual.Config{Model: "cx6dx", Name: "mlx5_0", Backend: soft})
	if err != nil {
		t.Fatal(err)
	}
	h, err := virtual.Serve(d)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	cmd := exec.CommandContext(t.Context(), python, "tests/run_tests.py", "--dev", "mlx5_0", "-v")
	cmd.Dir, cmd.Env = dir, h.Environ(os.Environ(), lib)
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	out := string(text)
	ran := regexp.MustCompile(`(?m)^Ran (\d+) tests`).FindStringSubmatch(out)
	if ran == nil {
		t.Fatalf("the tests did not end\n%s", out)
	}
	passed, skipped := strings.Count(out, "... ok\n"), strings.Count(out, "... skipped ")
	t.Logf("%s tests: %d passed, %d skipped", ran[1], passed, skipped)
	const least = 90 // some want an interface, huge pages or a graphics device
	if passed < least {
		t.Errorf("%d tests passed, expected %d at least", passed, least)
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:FAIL|ERROR): (\S+) \(tests\.(\w+)\.`).FindAllStringSubmatch(out, -1) {
		t.Errorf("%s of %s failed", m[1], m[2])
	}
	if t.Failed() {
		t.Log(out)
	}
}

// unpack copies a directory of files, of which Debian has compressed some.
func unpack(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var text io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			if text, err = gzip.NewReader(f); err != nil {
				return err
			}
			name = strings.TrimSuffix(name, ".gz")
		}
		whole, err := io.ReadAll(text)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), whole, 0o644)
	})
}
