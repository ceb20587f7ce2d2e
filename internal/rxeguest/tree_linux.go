package rxeguest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// libDirs are where a Debian system keeps shared libraries.
var libDirs = []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"}

// A tree is a folder that packages are unpacked into. Names in it are
// slash-separated and relative; links can't lead out of it.
type tree struct{ root *os.Root }

// unpack puts those files of a .deb into the tree whose name keep accepts.
func (t tree) unpack(ctx context.Context, deb string, keep func(name string) bool) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	untarErr := t.untar(out, keep)
	// otherwise dpkg-deb fails on a closed pipe; if this copy fails, so does Wait.
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: dpkg-deb: %w %s", filepath.Base(deb), err, stderr.String())
	}
	if untarErr != nil {
		return fmt.Errorf("%s: %w", filepath.Base(deb), untarErr)
	}
	return nil
}

func (t tree) untar(r io.Reader, keep func(name string) bool) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		if !keep(name) {
			continue
		}
		if err := t.entry(name, h, archive); err != nil {
			return err
		}
	}
}

func (t tree) entry(name string, h *tar.Header, data io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return nil // made when something is put into it
	}
	if err := t.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := t.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		f, err := t.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600|fs.FileMode(h.Mode&0o111))
		if err != nil {
			return err
		}
		_, err = io.Copy(f, data)
		return errors.Join(err, f.Close())
	case tar.TypeLink:
		return t.root.Link(path.Clean(strings.TrimPrefix(h.Linkname, "/")), name)
	case tar.TypeSymlink:
		return t.root.Symlink(h.Linkname, name)
	}
	return fmt.Errorf("%s: an entry of type %q is not expected in a package", name, h.Typeflag)
}

// glob returns the files that match a pattern as of path.Match, sorted.
func (t tree) glob(pattern string) ([]string, error) { return fs.Glob(t.root.FS(), pattern) }

// one returns the only file that matches.
func (t tree) one(pattern string) (string, error) {
	names, err := t.glob(pattern)
	if err == nil && len(names) != 1 {
		err = fmt.Errorf("%d files %s in the packages, want one", len(names), pattern)
	}
	if err != nil {
		return "", err
	}
	return names[0], nil
}

// libraries returns, by name, the paths in the tree of the shared libraries that
// the programs load, directly or not, and of the interpreter. A library is
// in a folder of libDirs under the name by which it is loaded.
func (t tree) libraries(programs []string) (map[string]string, error) {
	libs := make(map[string]string)
	queue := slices.Clone(programs)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		f, err := t.root.Open(name)
		if err != nil {
			return nil, err
		}
		needed, interpreter, err := neededBy(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if interpreter != "" {
			needed = append(needed, path.Base(interpreter))
		}
		for _, lib := range needed {
			if libs[lib] != "" {
				continue
			}
			at := slices.IndexFunc(libDirs, func(dir string) bool {
				_, err := t.root.Stat(path.Join(dir, lib))
				return err == nil
			})
			if at < 0 {
				return nil, fmt.Errorf("%s needs %s, which no package brought", name, lib)
			}
			libs[lib] = path.Join(libDirs[at], lib)
			queue = append(queue, libs[lib])
		}
	}
	return libs, nil
}
