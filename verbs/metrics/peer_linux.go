package metrics

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// listener is the user whose process listens at the other end of c. It can't be
// forged as the owner of a file can, by a rename between looking and connecting.
func listener(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(failed, err); err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}
