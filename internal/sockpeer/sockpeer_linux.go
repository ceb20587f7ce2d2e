// Package sockpeer tells who is at the other end of a Unix socket.
package sockpeer

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Of returns the process that listens, or connected, at the other end of c, as it was then. It
// can't be forged as the owner of a file can, by a rename between looking and connecting.
func Of(c *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return peer, errors.Join(failed, err)
}
