package softroce

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/roce"
)

// pathCache keeps the last path, as packets come in runs.
type pathCache struct {
	src, dst netip.AddrPort
	path     roce.Path
}

func (c *pathCache) get(src, dst netip.AddrPort) *roce.Path {
	if c.src != src || c.dst != dst {
		// Both are of one family: a socket has only one.
		c.path, _ = roce.NewPath(src, dst)
		c.src, c.dst = src, dst
	}
	return &c.path
}
