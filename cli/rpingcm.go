package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// resolvePing finds the address of a host: one of IPv6 if six asks for that, and else one of
// IPv4, where the host has one to which there is a route.
func resolvePing(ctx context.Context, host string, port int, six bool) (netip.AddrPort, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(reached(addrs, six, route.Lookup), uint16(port)), nil
}

// reached is the best of a host's addresses: with a route to it, then of the version of IP
// that is asked for, then as the resolver orders them.
func reached(addrs []netip.Addr, six bool, lookup func(peer, from netip.Addr) (route.Way, error)) netip.Addr {
	best, rank := addrs[0].Unmap(), -1
	for _, a := range addrs {
		a = a.Unmap()
		r := 0
		if a.Is6() == six {
			r++
		}
		if _, err := lookup(a, netip.Addr{}); err == nil || errors.Is(err, verbs.ErrNotSupported) {
			r += 2
		}
		if r > rank {
			best, rank = a, r
		}
	}
	return best
}

// serveCM is serve for clients that connect by rdma_cm's protocol.
func (f *rpingFlags) serveCM(ctx context.Context, dev verbs.Device, c perf.PingConfig, notes io.Writer) error {
	addr := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(f.Port))
	if f.Address != "" {
		var err error
		if addr, err = resolvePing(ctx, f.Address, f.Port, c.IPv6); err != nil {
			return err
		}
	}
	l, err := rdmacm.Listen(dev, addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(notes, "waiting for a client on port %d of %s\n", f.Port, dev.Name())
	err = perf.PingListen(ctx, l, dev, c, f.Persistent, func(err error) { fmt.Fprintf(notes, "sluice: %v\n", err) })
	return errors.Join(err, l.Close())
}
