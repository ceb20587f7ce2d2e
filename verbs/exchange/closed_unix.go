//go:build unix

package exchange

import "syscall"

// closed looks at the next byte of a socket and leaves it there.
func closed(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	// Not by raw.Read, which a deadline that has passed keeps from looking.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK) // the socket does not block
		gone = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return gone || err != nil
}
