//go:build !linux

package metrics

import (
	"net"
	"os"
	"syscall"
)

// listener is the owner of the socket that c was connected to.
func listener(c *net.UnixConn) (uid int, err error) {
	info, err := os.Stat(c.RemoteAddr().String())
	if err != nil {
		return 0, err
	}
	return int(info.Sys().(*syscall.Stat_t).Uid), nil
}
