//go:build linux

package guest

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs"
)

// forced is a process's memory with the pages that the process itself may not reach, such as
// those of completion queues whose looks take simulated time.
type forced struct {
	of     *memory
	file   *os.File // /proc/PID/mem
	writes atomic.Uint64
}

var _ verbs.Memory = (*forced)(nil)

func newForced(of *memory) (*forced, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", of.pid), os.O_RDWR, 0)
	return &forced{of: of, file: f}, err
}

func (f *forced) ReadMemory(p []byte, addr uint64) error {
	return f.transfer(f.file.ReadAt, "read", p, addr)
}

func (f *forced) WriteMemory(p []byte, addr uint64) error {
	f.writes.Add(1)
	return f.transfer(f.file.WriteAt, "write", p, addr)
}

func (f *forced) transfer(call func([]byte, int64) (int, error), verb string, p []byte, addr uint64) error {
	var err error
	switch {
	case f.of.ended.Load():
		err = os.ErrProcessDone
	case addr > math.MaxInt64:
		err = unix.EFAULT
	default:
		_, err = call(p, int64(addr))
	}
	if err != nil {
		return fmt.Errorf("%s %d bytes at %#x of process %d: %w", verb, len(p), addr, f.of.pid, err)
	}
	return nil
}
