package fakeverbs

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:embed csrc
var sources embed.FS

// ErrUnavailable is in the error of Compile where the machine has no compiler
// or no headers of libibverbs.
var ErrUnavailable = errors.New("the fake libibverbs can't be built here")

// Build compiles the libraries into a directory of tb's, to be named in
// LD_LIBRARY_PATH, and returns it. It skips tb where that can't be done.
func Build(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	if err := Compile(dir); errors.Is(err, ErrUnavailable) {
		tb.Skipf("skipping: %v", err)
	} else if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Compile is Build for where there is no test, as in TestMain. dir exists.
func Compile(dir string) error {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return fmt.Errorf("%w: no gcc: install Debian's gcc", ErrUnavailable)
	}
	if err := exec.Command(cc, "-E", "-include", "infiniband/verbs.h", "-include", "infiniband/mlx5dv.h", "-x", "c", os.DevNull).Run(); err != nil {
		return fmt.Errorf("%w: no infiniband/verbs.h and mlx5dv.h: install Debian's libibverbs-dev", ErrUnavailable)
	}
	src, err := os.MkdirTemp(dir, "src")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(src) }()
	if err := os.CopyFS(src, sources); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(src, "csrc", "*.c"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var verbs, mlx5 []string
	for _, f := range files {
		if strings.HasPrefix(filepath.Base(f), "mlx5") {
			mlx5 = append(mlx5, f)
		} else {
			verbs = append(verbs, f)
		}
	}
	for _, lib := range []struct {
		name  string
		files []string
		libs  []string
	}{
		{"libibverbs", verbs, nil},
		{"libmlx5", mlx5, []string{"-L" + dir, "-libverbs"}},
	} {
		so := filepath.Join(dir, lib.name+".so.1")
		args := slices.Concat([]string{
			"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread", "-o", so,
			"-Wl,-soname," + lib.name + ".so.1",
			"-Wl,--version-script=" + filepath.Join(src, "csrc", lib.name+".map"),
		}, lib.files, lib.libs)
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("building the fake %s: %w\n%s", lib.name, err, out)
		}
		if err := os.Symlink(lib.name+".so.1", filepath.Join(dir, lib.name+".so")); err != nil {
			return err
		}
	}
	return nil
}

// Environ is this process's environment with the libraries in dir before the
// system's, and settings ("FAKEVERBS_...=...") added.
func Environ(dir string, settings ...string) []string {
	path := dir
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		path += ":" + old
	}
	return append(append(os.Environ(), "LD_LIBRARY_PATH="+path), settings...)
}
