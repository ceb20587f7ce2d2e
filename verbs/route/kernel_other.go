//go:build !linux

package route

import (
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/verbs"
)

func kernel(peer, _ netip.Addr, _ string) (Way, error) {
	return Way{}, fmt.Errorf("the route to %v: %w: only Linux is asked", peer, verbs.ErrNotSupported)
}

func loopback(string) bool { return false }

func rate(string) int64 { return 0 }
