//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerFile is in each directory. Whoever made the directory holds a lock on it, which the
// kernel releases when that process ends, however it ends.
const ownerFile = "owner"

// beginning is how names begin of directories that are not yet locked.
const beginning = ".sluice-new-"

// A Dir is a temporary directory of this process. Its methods may be called concurrently.
type Dir struct {
	Path  string
	owner *os.File
}

// Make makes a directory in os.TempDir whose name begins with kind, a file name such as
// "sluice-virtual-". First it sweeps: of directories of that kind that this user's processes
// left when they were killed, it ends the processes (see End) and removes what is there.
func Make(kind string) (*Dir, error) {
	sweep(os.TempDir(), kind)
	path, err := os.MkdirTemp("", beginning)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, err
	}
	d, err := lockIn(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	// It has its name once it is locked: else a sweep could take it for one that was left.
	d.Path = filepath.Join(filepath.Dir(path), kind+strings.TrimPrefix(filepath.Base(path), beginning))
	if err := os.Rename(path, d.Path); err != nil {
		return nil, errors.Join(err, d.owner.Close(), os.RemoveAll(path))
	}
	return d, nil
}

func lockIn(path string) (*Dir, error) {
	f, err := os.OpenFile(filepath.Join(path, ownerFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f, unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return &Dir{path, f}, nil
}

func lock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Remove removes the directory. Processes that belong to it go on: see End.
func (d *Dir) Remove() error {
	return errors.Join(os.RemoveAll(d.Path), d.owner.Close())
}

// sweep takes away what was left of directories of a kind. What it can't take away stays
// until the next time.
func sweep(in, kind string) {
	paths, err := filepath.Glob(filepath.Join(in, kind+"*"))
	if err != nil { // the pattern: TMPDIR has characters of one
		return
	}
	for _, path := range paths {
		_ = Abandoned(path)
	}
}

// Abandoned ends what belongs to a directory that Make made, and removes it, if the
// process that made it is there no more; otherwise it does nothing.
func Abandoned(path string) error { return abandoned(path, unix.LOCK_NB) }

// Await waits until the process that made a directory has ended or called Remove. If it did
// not call it, Await ends what belongs to the directory, and removes it.
func Await(path string) error { return abandoned(path, 0) }

func abandoned(path string, how int) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() {
		return nil // gone, or not ours
	}
	f, err := os.OpenFile(filepath.Join(path, ownerFile), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if lock(f, how) != nil {
		return nil // its owner lives
	}
	if !present(f) {
		return nil // its owner removed it
	}
	End(path)
	return os.RemoveAll(path)
}

// present reports whether an open file is still where it was opened.
func present(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, there)
}
