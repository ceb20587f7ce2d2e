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
)

// resolvePing finds the address of a host, an IPv4 one where there is one and six
// does not ask for IPv6.
func resolvePing(ctx context.Context, host string, port int, six bool) (netip.AddrPort, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	best := addrs[0].Unmap()
	for _, a := range addrs {
		if a = a.Unmap(); a.Is6() == six {
			best = a
			break
		}
	}
	return netip.AddrPortFrom(best, uint16(port)), nil
}

// serveCM is serve for clients that connect by rdma_cm's protocol.
func (f *rpingFlags) serveCM(ctx context.Context, dev verbs.Device, c perf.PingConfig, notes io.Writer) error {
	addr := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(f.port))
	if f.address != "" {
		var err error
		if addr, err = resolvePing(ctx, f.address, f.port, c.IPv6); err != nil {
			return err
		}
	}
	l, err := rdmacm.Listen(dev, addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(notes, "waiting for a client on port %d of %s\n", f.port, dev.Name())
	for {
		err := perf.PingAccept(ctx, l, dev, c)
		if !f.persistent || ctx.Err() != nil || errors.Is(err, verbs.ErrClosed) {
			return errors.Join(err, l.Close())
		}
		if err != nil {
			fmt.Fprintf(notes, "sluice: %v\n", err)
		}
	}
}
