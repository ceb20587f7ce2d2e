//go:build unix

package exchange

import (
	"errors"
	"syscall"
)

// closed reports whether the other end of a socket has closed it, and nothing is left to read.
func closed(c syscall.Conn) bool {
	n, err := peek(c)
	return n == 0 && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
}

// arrived reports whether a socket has bytes to be read.
func arrived(c syscall.Conn) bool {
	n, _ := peek(c)
	return n > 0
}

// peek looks at the next byte of a socket and leaves it there. It does not block.
func peek(c syscall.Conn) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	// Not by raw.Read, which a deadline that has passed keeps from looking.
	if failed := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK) // the socket does not block
	}); failed != nil {
		return 0, failed
	}
	return max(n, 0), err
}
