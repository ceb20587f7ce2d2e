//go:build linux

package guest

import (
	"fmt"
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

	forced *forced // Memory in simulated time
}

// Writes counts the writes to Memory so far, in simulated time.
func (p *Process) Writes() uint64 { return p.forced.writes.Load() }

// memory is the memory of a process by its number.
type memory struct {
	pid   int
	ended atomic.Bool // the number may be another process's
}

var _ verbs.Memory = (*memory)(nil)

func (m *memory) ReadMemory(p []byte, addr uint64) error {
	return m.transfer(unix.SYS_PROCESS_VM_READV, p, addr)
}

func (m *memory) WriteMemory(p []byte, addr uint64) error {
	return m.transfer(unix.SYS_PROCESS_VM_WRITEV, p, addr)
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
