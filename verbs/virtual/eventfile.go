//go:build linux

package virtual

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// eventFile is a file that a program reads events from, one record a read: completion
// events or asynchronous ones. It is one end of a pair of sockets, of which the program
// gets a copy. Events that the program has not read can be withdrawn, so that the device
// knows exactly how many it has.
type eventFile struct {
	record int // bytes of an event

	mu      sync.Mutex
	ours    int // the end that events go into
	theirs  int // a copy of the program's
	inode   uint64
	waiting [][]byte // events that found no room, in order
	retry   *time.Timer
	closed  bool
}

// newEventFile makes a file of events of record bytes. The program's end has a name, by
// which libsluice-virtual.so knows it when nobody has the other end any more: a program
// that reads on is then told what the kernel tells when a device is removed.
func newEventFile(record int) (*eventFile, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	f := &eventFile{record: record, ours: fds[0], theirs: fds[1]}
	var st unix.Stat_t
	if err := unix.Fstat(f.theirs, &st); err != nil {
		f.close()
		return nil, os.NewSyscallError("fstat", err)
	}
	f.inode = st.Ino
	kind := "completion"
	if record == uverbs.Sizeof(uverbs.AsyncEvent{}) {
		kind = "async"
	}
	if err := unix.Bind(f.theirs, &unix.SockaddrUnix{Name: fmt.Sprintf("@sluice-virtual-%s-%d", kind, st.Ino)}); err != nil {
		f.close()
		return nil, os.NewSyscallError("bind", err)
	}
	// The more events find room, the fewer wait here. The kernel takes what its limit allows.
	_ = unix.SetsockoptInt(f.ours, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<22)
	return f, nil
}

// program returns the descriptor that goes to the program.
func (f *eventFile) program() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(f.theirs), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(fd), "events"), nil
}

// send puts an event into the file. It does not wait.
func (f *eventFile) send(event []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, event)
	f.flush()
}

// flush sends what waits, with the lock held.
func (f *eventFile) flush() {
	for len(f.waiting) > 0 && !f.closed {
		err := unix.Sendto(f.ours, f.waiting[0], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN || err == unix.ENOBUFS {
			f.sendLater()
			return
		}
		f.waiting = f.waiting[1:] // sent, or there is nobody to send to
	}
	f.waiting = nil
}

// sendLater tries again when the program may have read some.
func (f *eventFile) sendLater() {
	if f.retry == nil {
		f.retry = time.AfterFunc(time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.flush()
		})
		return
	}
	f.retry.Reset(time.Millisecond)
}

// withdraw takes back the events that begin with key and that the program has not read,
// and returns how many they were.
func (f *eventFile) withdraw(key uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var kept [][]byte
	n := 0
	keep := func(event []byte) {
		if binary.LittleEndian.Uint64(event) == key {
			n++
			return
		}
		kept = append(kept, event)
	}
	for !f.closed {
		event := make([]byte, f.record)
		got, _, err := unix.Recvfrom(f.theirs, event, unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got != f.record {
			break
		}
		keep(event)
	}
	for _, event := range f.waiting {
		keep(event)
	}
	f.waiting = kept
	f.flush()
	return n
}

func (f *eventFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.closed = true
	if f.retry != nil {
		f.retry.Stop()
	}
	_ = unix.Close(f.ours)
	_ = unix.Close(f.theirs)
}
