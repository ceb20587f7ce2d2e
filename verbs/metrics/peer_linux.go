package metrics

import (
	"net"

	"github.com/sluice-rdma/sluice/internal/sockpeer"
)

// listener is the user whose process listens at the other end of c.
func listener(c *net.UnixConn) (uid int, err error) {
	peer, err := sockpeer.Of(c)
	if err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}
