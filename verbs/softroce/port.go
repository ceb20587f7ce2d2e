package softroce

import (
	"net/netip"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/netif"
	"github.com/sluice-rdma/sluice/verbs"
)

// port is the state of a device's port, which follows its interface. Kernel drivers
// are the model: rdma_rxe and mlx5 for the state and its events, ib_core's cache
// (drivers/infiniband/core/cache.c) for the GID table.
type port struct {
	active bool
	up     bool // as its interface is
	down   bool // SetPort says so
	gone   bool // with its interface, or since the device died, for good
	name   string
	rate   int64  // bits per second, 0 for unknown
	mtu    ib.MTU // the largest path MTU
	gids   []gidEntry
}

// gidEntry is a place of the GID table. An address that was removed leaves its place
// to whoever uses it still, as an empty one: until nobody does, nobody else gets it.
type gidEntry struct {
	addr    netip.Addr
	present bool
}

// newGIDs is the table of a port's first addresses.
func newGIDs(addrs []netip.Addr) []gidEntry {
	var t []gidEntry
	for _, a := range addrs {
		t = append(t, gidEntry{a, true})
	}
	return t
}

// nextGIDs is the table after the port's addresses have become others. Those that stay
// keep their places, and one that comes back gets the one it had, if nobody else has
// got it. Others get the first places that are empty and that nobody uses, or new ones.
func nextGIDs(table []gidEntry, addrs []netip.Addr, used func(int) bool) []gidEntry {
	next := slices.Clone(table)
	for i := range next {
		next[i].present = slices.Contains(addrs, next[i].addr)
	}
	for _, a := range addrs {
		if slices.Contains(next, gidEntry{a, true}) {
			continue
		}
		free := -1
		for i := range next {
			if !next[i].present && !used(i) {
				free = i
				break
			}
		}
		if free < 0 {
			next = append(next, gidEntry{})
			free = len(next) - 1
		}
		next[free] = gidEntry{a, true}
	}
	return next
}

// follow returns the port after its interface has changed to f, with the addresses of
// f that are the device's. more are bytes that packets have beyond RoCEv2's headers.
func (p *port) follow(f *netif.Facts, addrs []netip.Addr, used func(int) bool, more int) port {
	next := *p
	next.name, next.rate = f.Name, f.Rate
	if p.gone || f.Gone {
		next.gone, next.active, next.up = true, false, false
		next.gids = nextGIDs(p.gids, nil, used)
		return next
	}
	next.up = f.Active()
	next.active = next.up && !next.down
	if m := pathMTU(f.MTU, more); m > 0 { // else the port keeps what no packet fits any more
		next.mtu = m
	}
	next.gids = nextGIDs(p.gids, addrs, used)
	return next
}

// events returns a port's events on its way from p to next.
func (p *port) events(next *port) (all []ib.EventType) {
	if p.active && !next.active {
		all = append(all, ib.EventPortErr)
	}
	switch {
	case p.gone:
		return nil
	case next.gone:
		return append(all, ib.EventDeviceFatal)
	}
	for i, e := range next.gids {
		if i >= len(p.gids) || e.present != p.gids[i].present || e.present && e.addr != p.gids[i].addr {
			all = append(all, ib.EventGIDChange)
			break
		}
	}
	if !p.active && next.active {
		all = append(all, ib.EventPortActive)
	}
	return all
}

// state is the port's state as verbs have it.
func (p *port) state() verbs.PortState {
	if p.active {
		return verbs.PortActive
	}
	return verbs.PortDown
}

// at is the address at an index, if there is one.
func (p *port) at(i int) (netip.Addr, bool) {
	if i < 0 || i >= len(p.gids) || !p.gids[i].present {
		return netip.Addr{}, false
	}
	return p.gids[i].addr, true
}

// become makes next the port's state, and raises the events.
func (d *device) become(was, next *port) {
	d.mu.Lock()
	defer d.flush()
	d.muteWire() // new addresses' sockets, too
	if d.closed {
		return
	}
	d.port = *next
	d.core.SetPort(gidAddrs(next.gids), next.mtu)
	for _, t := range was.events(next) {
		d.raisePort(t)
	}
	if next.gone && !was.gone {
		d.core.Fail(d.now())
		if d.gone != nil {
			close(d.gone)
		}
	}
}

// end is become for a port that is gone: no packet passes any more.
func (d *device) end(was, next *port) {
	if d.clock.world == nil {
		d.pause() // for good
		d.wire.stop()
		<-d.received
		d.closeWire()
	} else {
		d.wire.stop()
	}
	d.become(was, next)
}

// gidAddrs are the addresses of the table's places.
func gidAddrs(table []gidEntry) []netip.Addr {
	var addrs []netip.Addr
	for _, e := range table {
		addrs = append(addrs, e.addr)
	}
	return addrs
}
