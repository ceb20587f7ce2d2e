//go:build linux

package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NewPages makes n pages of zeros that can be mapped into programs, too, by f. b is this
// process's mapping of them, which lasts until unix.Munmap(b), whatever programs do with
// theirs. name is what /proc shows of it.
func NewPages(name string, n int) (f *os.File, b []byte, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("memfd %s: %w", name, err)
	}
	f = os.NewFile(uintptr(fd), name)
	size := n * os.Getpagesize()
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		// A program that shrank it would have loads from b fault.
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		b, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("memfd %s of %d bytes: %w", name, size, err)
	}
	return f, b, nil
}
