//go:build linux

package guest

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs"
)

// Process is a process that opened a File, which has a Process of its own.
type Process struct {
	PID    int
	Memory verbs.Memory // the process's memory; fails once the process has ended
	Watch  *Watch       // nil where the kernel refuses userfaultfd

	writes *atomic.Uint64
}

// Writes counts the writes to Memory so far.
func (p *Process) Writes() uint64 { return p.writes.Load() }

// memory is the memory of a process by its number.
type memory struct {
	pid    int
	ended  atomic.Bool // the number may be another process's
	file   *os.File    // of /proc, for pages that the process itself may not reach; or nil
	writes atomic.Uint64
}

var _ verbs.Memory = (*memory)(nil)

func (m *memory) ReadMemory(p []byte, addr uint64) error {
	if m.file != nil {
		return m.force(m.file.ReadAt, "read", p, addr)
	}
	return m.transfer(unix.SYS_PROCESS_VM_READV, p, addr)
}

func (m *memory) WriteMemory(p []byte, addr uint64) error {
	m.writes.Add(1)
	if m.file != nil {
		return m.force(m.file.WriteAt, "write", p, addr)
	}
	return m.transfer(unix.SYS_PROCESS_VM_WRITEV, p, addr)
}

// force transfers by the process's file.
func (m *memory) force(transfer func([]byte, int64) (int, error), verb string, p []byte, addr uint64) error {
	err := os.ErrProcessDone
	if !m.ended.Load() {
		if addr > math.MaxInt64 {
			err = unix.EFAULT
		} else if _, err = transfer(p, int64(addr)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s %d bytes at %#x of process %d: %w", verb, len(p), addr, m.pid, err)
}

// transfer makes the system call itself: by x/sys/unix's functions in a variable the two
// vectors would be allocated each time.
func (m *memory) transfer(call uintptr, p []byte, addr uint64) error {
	for len(p) > 0 {
		if m.ended.Load() {
			return m.fail(call, len(p), addr, os.ErrProcessDone)
		}
		local := unix.Iovec{Base: &p[0]}
		local.SetLen(len(p))
		remote := unix.RemoteIovec{Base: uintptr(addr), Len: len(p)}
		n, _, errno := unix.Syscall6(call, uintptr(m.pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
		switch {
		case errno != 0:
			return m.fail(call, len(p), addr, errno)
		case n == 0:
			return m.fail(call, len(p), addr, unix.EFAULT)
		}
		// Fewer were transferred: the next ones are not mapped, which the next turn finds,
		// or more than the kernel takes at once.
		p, addr = p[n:], addr+uint64(n)
	}
	return nil
}

func (m *memory) fail(call uintptr, n int, addr uint64, err error) error {
	verb := "read"
	if call == unix.SYS_PROCESS_VM_WRITEV {
		verb = "write"
	}
	return fmt.Errorf("%s %d bytes at %#x of process %d: %w", verb, n, addr, m.pid, err)
}
