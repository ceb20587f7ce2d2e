package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// names are what a directory holds.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func put(t *testing.T, name, text string, mode fs.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(name, []byte(text), mode), os.Chmod(name, mode)); err != nil {
		t.Fatal(err)
	}
}

func say(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// A file has its old content until it is whole, and its mode after that.
func TestReplaces(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x.json")
	put(t, name, "old", 0o640)
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := say("new")(f); err != nil {
		t.Fatal(err)
	}
	if got := content(t, name); got != "old" {
		t.Errorf("before Commit: %q", got)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Abort() // does nothing any more
	if got := content(t, name); got != "new" {
		t.Errorf("after Commit: %q", got)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, expected 0640: %v", info.Mode(), err)
	}
	if got := names(t, dir); got != "x.json" {
		t.Errorf("the directory holds %s", got)
	}
}

// A new file has the mode that the process's mask leaves, as os.Create gives it.
func TestMode(t *testing.T) {
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "ours"), say("x")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "like"), "", 0o600)
	f, err := os.Create(filepath.Join(dir, "theirs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	ours, err := os.Stat(filepath.Join(dir, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err := os.Stat(f.Name()); err != nil || ours.Mode() != theirs.Mode() {
		t.Errorf("mode %v, expected %v: %v", ours.Mode(), theirs.Mode(), err)
	}
}

// What fails leaves the old file, and nothing else.
func TestFailureKeepsTheOldFile(t *testing.T) {
	full := errors.New("no space")
	for name, fail := range map[string]func(string) error{
		"its writer": func(name string) error {
			return Write(name, func(w io.Writer) error { return errors.Join(say("half")(w), full) })
		},
		"the disk": func(name string) error {
			f, err := Create(name)
			if err != nil {
				return err
			}
			f.file = disk{full}
			_, first := f.Write([]byte("half"))
			_, second := f.Write([]byte("more"))
			err = f.Commit()
			if first == nil || second != first || err != first {
				t.Errorf("the first write says %v, the second %v, Commit %v: expected the same", first, second, err)
			}
			if path := (*fs.PathError)(nil); !errors.As(err, &path) || path.Path != name {
				t.Errorf("error %q does not name %s", err, name)
			}
			return err
		},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "x")
		put(t, file, "old", 0o644)
		if err := fail(file); !errors.Is(err, full) {
			t.Errorf("%s: error %v", name, err)
		}
		if got := content(t, file); got != "old" || names(t, dir) != "x" {
			t.Errorf("%s: the file holds %q, the directory %s", name, got, names(t, dir))
		}
	}
}

// disk is one that is full.
type disk struct{ err error }

func (d disk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/tmp/.x123", Err: d.err}
}
func (d disk) Close() error { return nil }

// A symbolic link stays one, also a chain of them, and one to what is not there yet.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.Mkdir(there, 0o777); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"a": "b", "b": "there/file"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"first", "second"} {
		if err := Write(filepath.Join(dir, "a"), say(text)); err != nil {
			t.Fatal(err)
		}
		if got := content(t, filepath.Join(there, "file")); got != text {
			t.Errorf("%q, expected %q", got, text)
		}
	}
	if got := names(t, dir) + "; " + names(t, there); got != "a b there; file" {
		t.Errorf("there is %s", got)
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "loop"), say("x")); err == nil || !strings.Contains(err.Error(), "symbolic links") {
		t.Errorf("a link to itself: %v", err)
	}
}

// Pipes and devices are written as data come.
func TestPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skipf("no named pipe can be made: %v", err)
	}
	got := make(chan string)
	go func() {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		got <- string(b)
	}()
	if err := Write(name, say("through")); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "through" {
		t.Errorf("the reader has %q", text)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("mode %v, expected a pipe: %v", info.Mode(), err)
	}
}

func TestDevices(t *testing.T) {
	if err := Write("/dev/null", say("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().IsRegular() {
		t.Fatalf("/dev/null is replaced: %v", err)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skipf("no device that is full: %v", err)
	}
	if err := Write("/dev/full", say("x")); !errors.Is(err, syscall.ENOSPC) || err.Error() != "write /dev/full: no space left on device" {
		t.Errorf("error %v", err)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	for name, what := range map[string]error{filepath.Join(dir, "no", "x"): fs.ErrNotExist, dir: syscall.EISDIR} {
		err := Write(name, say("x"))
		if path := (*fs.PathError)(nil); !errors.As(err, &path) || path.Path != name || !errors.Is(err, what) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if got := names(t, dir); got != "" {
		t.Errorf("the directory holds %s", got)
	}
}
