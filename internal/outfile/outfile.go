package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// File is a file that is being written. One goroutine at a time may use it. End it
// by Commit, and by Abort where what was written is of no use.
type File struct {
	name string
	file interface {
		io.Writer
		io.Closer
	}
	// pending is nil for what can't be renamed onto.
	pending *renameio.PendingFile
	err     error // of the first Write that failed
}

// Create begins a file. An existing one keeps its mode, and a symbolic link to it
// stays a link. If no file can be made in the directory, but the file itself can be
// written, it is written in place.
func Create(name string) (*File, error) {
	target, plain, err := resolve(name)
	if err != nil {
		return nil, err
	}
	if plain {
		pending, err := renameio.NewPendingFile(target, renameio.WithTempDir(filepath.Dir(target)), renameio.WithPermissions(0o666), renameio.WithExistingPermissions())
		if err == nil {
			return &File{name: name, file: pending.File, pending: pending}, nil
		}
		if _, there := os.Stat(target); there != nil || !errors.Is(err, fs.ErrPermission) {
			return nil, named("create", name, err)
		}
	}
	// For writing only: the other end of a pipe is waited for.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	return &File{name: name, file: f}, nil
}

// resolve follows symbolic links to the name that a rename has to replace. plain is
// false for an existing file that is not regular, and for open files by the names
// that the kernel gives them, such as /dev/stdout: these belong to the process that
// opened them.
func resolve(name string) (target string, plain bool, err error) {
	target = name
	for range 40 { // as many as Linux follows
		for _, dir := range []string{"/dev/", "/proc/"} {
			if abs, err := filepath.Abs(target); err == nil && strings.HasPrefix(abs, dir) && !strings.HasPrefix(abs, "/dev/shm/") {
				return target, false, nil
			}
		}
		info, err := os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, true, nil
		case err != nil:
			return "", false, named("open", name, err)
		case info.Mode().Type() != fs.ModeSymlink:
			return target, info.Mode().IsRegular(), nil
		}
		next, err := os.Readlink(target)
		if err != nil {
			return "", false, named("open", name, err)
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(target), next)
		}
		target = next
	}
	return "", false, &fs.PathError{Op: "open", Path: name, Err: errors.New("too many levels of symbolic links")}
}

// Name is what Create was given.
func (f *File) Name() string { return f.name }

// Write implements io.Writer. Its errors name the file.
func (f *File) Write(b []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.file.Write(b)
	if err != nil {
		f.err = named("write", f.name, err)
	}
	return n, f.err
}

// Commit ends the file, which has its name from then on. After a Write that failed
// it does what Abort does, and returns that error again.
func (f *File) Commit() error {
	if f.err != nil {
		f.Abort()
		return f.err
	}
	if f.pending == nil {
		return named("close", f.name, f.file.Close())
	}
	if err := f.pending.CloseAtomicallyReplace(); err != nil {
		f.Abort()
		return named("write", f.name, err)
	}
	f.pending, f.file = nil, closed{}
	return nil
}

// Abort drops what was written, as far as it is a file's, unless Commit has ended
// it. Why it is called is the error to report.
func (f *File) Abort() {
	if f.pending == nil {
		_ = f.file.Close()
		return
	}
	_ = f.pending.Cleanup()
	f.pending, f.file = nil, closed{}
}

// closed is the file after its end.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, fs.ErrClosed }
func (closed) Close() error              { return fs.ErrClosed }

// Write makes a file of what write writes.
func Write(name string, write func(io.Writer) error) error {
	f, err := Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

// named gives an error the name that the caller knows, in place of the one that the
// file has until it is whole.
func named(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		op, err = path.Op, path.Err
	} else if link := (*os.LinkError)(nil); errors.As(err, &link) {
		op, err = link.Op, link.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
