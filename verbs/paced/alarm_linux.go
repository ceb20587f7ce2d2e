package paced

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a sleep that can be ended: ppoll on an eventfd.
type alarm struct {
	fd   int
	rung atomic.Bool // since the last wait ended
}

func newAlarm() (*alarm, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &alarm{fd: fd}, nil
}

// sharpen lets the calling thread's sleeps end on time: the kernel otherwise adds
// 50 us to save power. A refusal does no harm.
func (a *alarm) sharpen() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// ring ends the wait, this one or the next.
func (a *alarm) ring() {
	if a.rung.Swap(true) {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	// The counter has room: it is read before the next ring.
	_, _ = unix.Write(a.fd, one[:])
}

// wait sleeps for d, without end if d is negative, and reports whether ring ended
// it.
func (a *alarm) wait(d time.Duration) bool {
	var timeout *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(d.Nanoseconds())
		timeout = &t
	}
	fds := [1]unix.PollFd{{Fd: int32(a.fd), Events: unix.POLLIN}}
	// A signal of the runtime's may end it early, which is as good as a ring.
	n, err := unix.Ppoll(fds[:], timeout, nil)
	if n == 0 && err == nil {
		return false
	}
	if n > 0 {
		var count [8]byte
		_, _ = unix.Read(a.fd, count[:])
		a.rung.Store(false)
	}
	return true
}

func (a *alarm) close() { _ = unix.Close(a.fd) }
