package rundir

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// rounds bounds how often End looks for processes that began while it ended others.
const rounds = 100

// End kills the processes that belong to a directory, other than the caller: those in
// whose environment, as they started, the value of a variable is the directory's path, and which
// the caller may kill. It returns when a look finds none that is alive.
func End(path string) {
	for range rounds {
		if !endOnce(path) {
			return
		}
	}
}

func endOnce(path string) (found bool) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !names(pid, path) {
			continue
		}
		if kill(pid, path) {
			found = true
		}
	}
	return found
}

// names reports whether a process's environment has a variable with the value path. That
// of one that has ended is empty.
func names(pid int, path string) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if _, value, ok := bytes.Cut(v, []byte{'='}); ok && string(value) == path {
			return true
		}
	}
	return false
}

// kill kills a process and waits until it has ended.
func kill(pid int, path string) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)   //nolint:errcheck // it was only waited for
	if !names(pid, path) { // the number may be another process's by now
		return false
	}
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	const atMost = 5000 // ms: what hangs in the kernel is not waited for
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, atMost)
	return true
}
