//go:build linux

package guest

import (
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs"
)

// Process is a process that opened a File, which has a Process of its own.
type Process struct {
	PID    int
	Memory verbs.Memory // the process's memory; fails once the process has ended
	Watch  *Watch       // nil where the kernel refuses userfaultfd
}

// memory is the memory of a process by its number.
type memory struct {
	pid   int
	ended atomic.Bool // the number may be another process's
}

var _ verbs.Memory = (*memory)(nil)

func (m *memory) ReadMemory(p []byte, addr uint64) error {
	return m.transfer("read", unix.ProcessVMReadv, p, addr)
}

func (m *memory) WriteMemory(p []byte, addr uint64) error {
	return m.transfer("write", unix.ProcessVMWritev, p, addr)
}

type processVM func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

func (m *memory) transfer(verb string, vm processVM, p []byte, addr uint64) error {
	for len(p) > 0 {
		if m.ended.Load() {
			return fmt.Errorf("%s %d bytes at %#x of process %d: %w", verb, len(p), addr, m.pid, os.ErrProcessDone)
		}
		local := [1]unix.Iovec{{Base: &p[0]}}
		local[0].SetLen(len(p))
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
		n, err := vm(m.pid, local[:], remote[:], 0)
		if err == nil && n == 0 {
			err = unix.EFAULT
		}
		if err != nil {
			return fmt.Errorf("%s %d bytes at %#x of process %d: %w", verb, len(p), addr, m.pid, err)
		}
		// Fewer were transferred: the next ones are not mapped, which the next turn finds,
		// or more than the kernel takes at once.
		p, addr = p[n:], addr+uint64(n)
	}
	return nil
}
