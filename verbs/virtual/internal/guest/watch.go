//go:build linux

package guest

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch sees a process's stores into its mappings of files whose MapReply set Watch, by
// userfaultfd's write protection. Its methods may be called concurrently.
type Watch struct {
	f *os.File
}

// From <linux/userfaultfd.h>.
const (
	uffdioRegister         = 0xc020aa00 // _IOWR(0xaa, 0, struct uffdio_register)
	uffdRegisterModeWP     = 1 << 1
	uffdioWriteProtect     = 0xc018aa06 // _IOWR(0xaa, 6, struct uffdio_writeprotect)
	uffdWriteProtectModeWP = 1
	uffdEventPageFault     = 0x12
	uffdMsgSize            = 32
)

// Protect has the next store into a page of the range wait, and Fault return it, until
// Release. addr and length are multiples of the page size. It fails with ENOENT if the
// process has unmapped the range, or the kernel does not watch such pages.
func (w *Watch) Protect(addr, length uint64) error {
	return w.ioctl(uffdioWriteProtect, "write protection", &[4]uint64{addr, length, uffdWriteProtectModeWP})
}

// Release lets stores into the range go on, also waiting ones.
func (w *Watch) Release(addr, length uint64) error {
	return w.ioctl(uffdioWriteProtect, "end of write protection", &[4]uint64{addr, length, 0})
}

func (w *Watch) register(addr, length uint64) error {
	return w.ioctl(uffdioRegister, "registration", &[4]uint64{addr, length, uffdRegisterModeWP})
}

// ioctl carries out a request whose argument begins with a range.
func (w *Watch) ioctl(request uintptr, name string, arg *[4]uint64) error {
	c, err := w.f.SyscallConn()
	if err != nil {
		return err
	}
	var errno unix.Errno
	err = c.Control(func(fd uintptr) {
		for {
			_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(arg)))
			if errno != unix.EAGAIN && errno != unix.EINTR { // EAGAIN: the process is mapping something
				return
			}
		}
	})
	if err == nil && errno != 0 {
		err = fmt.Errorf("userfaultfd, %s of %d bytes at %#x: %w", name, arg[1], arg[0], errno)
	}
	return err
}

// Fault waits for a store into a protected page and returns the address stored to. It
// fails with os.ErrClosed or io.EOF when the file has been closed.
func (w *Watch) Fault() (addr uint64, err error) {
	for {
		var msg [uffdMsgSize]byte
		n, err := w.f.Read(msg[:])
		if err != nil {
			return 0, err
		}
		if n == len(msg) && msg[0] == uffdEventPageFault {
			return binary.NativeEndian.Uint64(msg[16:]), nil
		}
	}
}
