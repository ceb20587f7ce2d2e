package exchange

import (
	"context"
	"crypto/rand"
	"encoding/binary"

	"github.com/sluice-rdma/sluice/verbs"
)

// ConnectRC greets, swaps addresses, takes a fresh RC queue pair to RTS, and
// returns once both ends have done so. Both ends must call it: it sends perftest's
// messages, but in an order that no program of perftest uses. Unless ready is nil,
// ConnectRC calls it before it signals to the other end that this one is connected:
// ready is the place to post receives.
//
// local.OutReads becomes p.MaxDestRdAtomic. The path MTU and the reads outstanding
// are the smaller of p's and the other end's. ConnectRC waits for the other end until ctx
// is done.
func (c *Conn) ConnectRC(ctx context.Context, qp verbs.QP, local Dest, p verbs.RCParams, ready func() error) (Dest, error) {
	defer c.until(ctx)()
	local.OutReads = uint16(p.MaxDestRdAtomic)
	g, err := c.Greet(DefaultGreeting(p.PathMTU))
	if err != nil {
		return Dest{}, err
	}
	p.PathMTU = g.MTU
	remote, err := c.Swap(local)
	if err != nil {
		return Dest{}, err
	}
	if err := CheckFamilies(local, remote); err != nil {
		return Dest{}, err
	}
	p.MaxRdAtomic = uint8(min(uint16(p.MaxRdAtomic), remote.OutReads))
	if err := verbs.ConnectRC(qp, local.Endpoint(), remote.Endpoint(), p); err != nil {
		return Dest{}, err
	}
	if ready != nil {
		if err := ready(); err != nil {
			return Dest{}, err
		}
	}
	_, err = c.Swap(local)
	return remote, err
}

// CheckFamilies fails if one end has an IPv4 address as its GID and the other an
// IPv6 one: no packet gets from one to the other.
func CheckFamilies(local, remote Dest) error {
	if local.GID.Is4() != remote.GID.Is4() || !remote.GID.IsValid() || remote.GID.IsUnspecified() {
		return verbs.Errorf("exchange", "GID", verbs.ErrInvalid, "this end has %v and the other %v: choose GIDs of one family with -x", local.GID, remote.GID)
	}
	return nil
}

// RandomPSN returns a PSN to start from, out of a cryptographic source: who can
// guess it can inject packets.
func RandomPSN() uint32 {
	var b [4]byte
	// It never fails: crypto/rand ends the program first.
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint32(b[:]) & 0xffffff
}
