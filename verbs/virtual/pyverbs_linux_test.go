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
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// pyverbsMayFail are the modules of rdma-core's tests that need commands of the device's
// which have a form for ioctl only, and why.
var pyverbsMayFail = map[string]string{
	"test_mlx5_dr":         "firmware commands (DEVX)",
	"test_mlx5_flow":       "firmware commands (DEVX)",
	"test_mlx5_mkey":       "memory keys of mlx5dv",
	"test_mlx5_query_port": "a query of mlx5dv",
	"test_mlx5_uar":        "registers of mlx5dv",
	"test_mlx5_var":        "doorbells of mlx5dv",
	"test_shared_pd":       "contexts that another process made",
}

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
	var missing []string
	for _, m := range regexp.MustCompile(`(?m)^(?:FAIL|ERROR): (\S+) \(tests\.(\w+)\.`).FindAllStringSubmatch(out, -1) {
		if why := pyverbsMayFail[m[2]]; why == "" {
			t.Errorf("%s of %s failed", m[1], m[2])
		} else if why = m[2] + ": " + why; !slices.Contains(missing, why) {
			missing = append(missing, why)
		}
	}
	t.Logf("not there: %s", strings.Join(missing, "; "))
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
