package namespace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter makes cmd, which is not started yet, run in a namespace of its own where each of
// paths, below /sys or /dev, is what dir has of it. stage is a command of this program that
// calls Exec with the arguments that follow it.
func Enter(cmd *exec.Cmd, stage []string, dir string, paths []string) {
	args := append(slices.Clone(stage), dir, fmt.Sprint(len(paths)))
	args = append(append(args, paths...), cmd.Path)
	cmd.Args = append(append([]string{os.Args[0]}, args...), cmd.Args...)
	cmd.Path = "/proc/self/exe"
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // to mount with, in the new namespace
	}
	cmd.SysProcAttr = attr
}

// Exec mounts as Enter said, and becomes the program. It returns only if it fails.
func Exec(args []string) error {
	var n int
	if len(args) < 2 {
		return errors.New("no directory and number of paths")
	}
	dir := args[0]
	if _, err := fmt.Sscan(args[1], &n); err != nil || n < 0 || len(args) < n+4 {
		return fmt.Errorf("%q: not as many paths and a program", args[1])
	}
	paths, path, argv := args[2:2+n], args[2+n], args[3+n:]
	if err := mount(dir, paths); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	// Of the capabilities in the namespace the program gets none.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, os.Environ()))
}

// mount builds the new trees beside dir's, in memory, and puts them over the old.
func mount(dir string, paths []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		if errors.Is(err, unix.EINVAL) { // what is mounted would show outside
			return errors.New("/ is no mount point, as in a chroot: run without --namespace")
		}
		return fmt.Errorf("/: %w", err)
	}
	t := tree{dir: dir, at: filepath.Join(dir, "mounts"), ours: map[string]bool{}, above: map[string]bool{}}
	for _, p := range paths {
		t.ours[p] = true
		for up := filepath.Dir(p); up != "/"; up = filepath.Dir(up) {
			t.above[up] = true
		}
	}
	if err := errors.Join(os.MkdirAll(t.at, 0o755), t.memory(t.at)); err != nil {
		return err
	}
	for _, top := range []string{"/sys", "/dev"} {
		if !t.above[top] {
			continue
		}
		if err := t.build(top); err != nil {
			return err
		}
		if err := bind(t.at+top, top); err != nil {
			return err
		}
	}
	return nil
}

type tree struct {
	dir, at     string
	ours, above map[string]bool // paths that dir has, and the directories above them
}

func (t *tree) memory(at string) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// build makes a directory anew: with what it has, and with what dir has of it.
func (t *tree) build(path string) error {
	if err := os.Mkdir(t.at+path, 0o755); err != nil { //nolint:gosec // as sysfs and devtmpfs have it
		return err
	}
	names := map[string]bool{}
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		names[e.Name()] = true
	}
	for _, all := range []map[string]bool{t.ours, t.above} {
		for p := range all {
			if filepath.Dir(p) == path {
				names[filepath.Base(p)] = true
			}
		}
	}
	for name := range names {
		p := path + "/" + name
		switch {
		case t.ours[p]:
			err = t.show(t.dir+p, p)
		case t.above[p]:
			err = t.build(p)
		default:
			err = t.show(p, p)
		}
		// What comes and goes, as in /dev, may have gone.
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// show has a file, a directory or a link at a path.
func (t *tree) show(from, path string) error {
	i, err := os.Lstat(from)
	if err != nil {
		return err
	}
	switch to := t.at + path; {
	case i.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case i.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil { //nolint:gosec // hidden by what is mounted there
			return err
		}
		return bind(from, to)
	default:
		if err := os.WriteFile(to, nil, 0o600); err != nil {
			return err
		}
		return bind(from, to)
	}
}

func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("%s on %s: %w", from, to, err)
	}
	return nil
}

// Refused says why the kernel starts no such namespace, or returns err.
func Refused(err error) error {
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EINVAL):
		var knobs []string
		for _, name := range []string{"/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"} {
			if b, readErr := os.ReadFile(name); readErr == nil {
				knobs = append(knobs, strings.TrimSpace(name+" is "+string(b)))
			}
		}
		return fmt.Errorf("%w: the kernel allows this user no user and mount namespace (%s): run without --namespace", err, strings.Join(knobs, ", "))
	}
	return err
}
