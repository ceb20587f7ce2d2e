package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Directory is where processes publish: $SLUICE_RUN, else sluice below
// $XDG_RUNTIME_DIR, else /run/sluice for root and sluice-UID in the directory for
// temporary files for others.
func Directory() string {
	if dir := os.Getenv("SLUICE_RUN"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "sluice")
	}
	if os.Geteuid() == 0 {
		return "/run/sluice"
	}
	return filepath.Join(os.TempDir(), "sluice-"+strconv.Itoa(os.Getuid()))
}

// Publish serves what g gathers on a socket of the local machine, DIR/PID.sock,
// where `sluice exporter` finds it; dir is made if it is not there, for its owner
// alone. The socket goes away with stop; that of a process that was killed is
// removed by whoever looks for it next.
func Publish(g prometheus.Gatherer, dir string) (stop func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("metrics: %w: name another directory with SLUICE_RUN", err)
	}
	if err := checkOwner(dir); err != nil {
		return nil, fmt.Errorf("%w: remove it, or name another directory with SLUICE_RUN", err)
	}
	path := filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock")
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	server := &http.Server{
		Handler:           promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}),
		ReadHeaderTimeout: scrapeTimeout,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return func() error {
		err := errors.Join(os.Remove(path), server.Close())
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// checkOwner refuses a directory of a user's who is neither root nor this process's
// nor one of users: whoever owns it could answer in others' names.
func checkOwner(dir string, users ...int) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("metrics: %s is not a directory", dir)
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); !believed(owner, users) {
		return fmt.Errorf("metrics: %w", &OwnerError{Path: dir, UID: owner})
	}
	return nil
}

// believed says whether a user is root, this process's, or one of users.
func believed(uid int, users []int) bool {
	return uid == 0 || uid == os.Geteuid() || slices.Contains(users, uid)
}

// An OwnerError says that a directory, or the process behind a socket, is another
// user's than root's, this process's or one that was named.
type OwnerError struct {
	Path string
	UID  int
}

func (e *OwnerError) Error() string { return fmt.Sprintf("%s belongs to user %d", e.Path, e.UID) }

// listen makes the socket under another name and renames it: whoever looks
// between bind and listen would take it for that of a process that was killed.
func listen(path string) (net.Listener, error) {
	early := path + ".new"
	if err := os.Remove(early); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	// To connect is to write. Who may enter the directory is the directory's to say.
	if err := errors.Join(os.Chmod(early, 0o660), os.Rename(early, path)); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(early))
	}
	return l, nil
}
