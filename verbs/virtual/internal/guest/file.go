//go:build linux

package guest

import (
	"os"
	"syscall"
)

// Opener opens a device node, such as "uverbs0" or "rdma_cm", for a process. The file it
// returns, if not nil, is what the program gets as its descriptor, to poll: readable
// exactly while an event waits. It must not be O_NONBLOCK, which is the program's to set.
// The server closes its own copy once that is sent, so give it a duplicate. Without one
// the program gets a descriptor of /dev/null.
//
// Openers run concurrently.
type Opener func(p *Process, node string) (File, *os.File, syscall.Errno)

// File is a device node that a process opened. Its methods are called one at a time,
// and Close last, once: when the program has closed its last descriptor of the file,
// executed another program, or ended. Those of other files run concurrently.
type File interface {
	// Write carries out what the program wrote. cmd is valid until it returns.
	// EAGAIN, on a file whose Opener gave a descriptor, has the library wait until that
	// is readable and write again, unless the program set O_NONBLOCK.
	Write(cmd []byte) Reply
	// Ioctl carries out ioctl(fd, request, arg).
	Ioctl(request, arg uint64) Reply
	// Mmap says what to map of the file: length bytes, a multiple of the page size, at
	// offset, which is mmap's.
	Mmap(offset uint64, length int, writable bool) MapReply
	// Mapped follows a Mmap that succeeded: what MapReply.Cookie names lies at addr in
	// the program.
	Mapped(cookie, addr uint64)
	Close()
}

// Reply is the answer to a Write or an Ioctl.
type Reply struct {
	Errno syscall.Errno // 0 if it succeeded
	Value int           // what a successful Ioctl returns; a Write returns its length
	// Data goes to To in the program if Errno is 0 and To is not: at most MaxData bytes.
	// The program's call fails with EFAULT if it can't be written there.
	To   uint64
	Data []byte
	// FD, if not nil, becomes a descriptor of the program, with close-on-exec, and its
	// number the int32 at Data[FDAt]. The server closes FD once it is sent.
	FD   *os.File
	FDAt int
}

// MapReply is the answer to Mmap.
type MapReply struct {
	Errno  syscall.Errno // 0 if it succeeded
	FD     *os.File      // of NewPages; the server closes it once it is sent
	Offset int64         // where in FD the mapping begins
	Cookie uint64        // what Mapped names the mapping by
	// Watch has the mapping registered with Process.Watch, if there is one.
	Watch bool
	// Clock has each load from the mapping read the counter that the page after it, in FD,
	// describes; see ClockPage. The program can write both: no other mapping shares FD.
	Clock bool
}

// MaxWrite and MaxData bound, in bytes, what a program can write at once (longer writes
// fail with EINVAL) and what Reply.Data can have.
const (
	MaxWrite = 64 << 10
	MaxData  = 64 << 10
)
