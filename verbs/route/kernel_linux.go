package route

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/netif"
)

// kernel is the lookup of the network namespace that the calling thread is in. It asks by
// netlink alone: sysfs may be another namespace's (nsenter --net).
func kernel(peer, from netip.Addr, by string) (Way, error) {
	bad := func(err error) (Way, error) { return Way{}, fmt.Errorf("the route to %v: %w", peer, err) }
	o := &netlink.RouteGetOptions{Oif: by}
	if zone := peer.Zone(); zone != "" && by == "" {
		if n, err := strconv.Atoi(zone); err == nil {
			o.OifIndex = n
		} else {
			o.Oif = zone
		}
	}
	if from.IsValid() && !from.IsUnspecified() {
		o.SrcAddr = from.Unmap().WithZone("").AsSlice()
	}
	routes, err := netlink.RouteGetWithOptions(peer.Unmap().WithZone("").AsSlice(), o)
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		return bad(err)
	}
	r := &routes[0]
	out, err := netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		return bad(err)
	}
	w := Way{Interface: out.Attrs().Name, MTU: out.Attrs().MTU, Itself: r.Type == unix.RTN_LOCAL, ToMany: r.Type == unix.RTN_BROADCAST || r.Type == unix.RTN_MULTICAST}
	if r.MTU > 0 {
		w.MTU = min(w.MTU, r.MTU)
	}
	if a, ok := netip.AddrFromSlice(r.Src); ok {
		w.Source = a.Unmap()
	} else if from.IsValid() {
		w.Source = from.Unmap().WithZone("")
	}
	return w, nil
}

// loopback reports whether an interface is the loopback.
func loopback(name string) bool {
	f, err := netif.ByName(name)
	return err == nil && f.Loopback
}

// rate is the line rate of an interface in bits per second; 0 where it is not known.
func rate(name string) int64 {
	f, err := netif.ByName(name)
	if err != nil {
		return 0
	}
	return f.Rate
}
