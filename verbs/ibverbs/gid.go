//go:build ibverbs

package ibverbs

// #include "shim.h"
import "C"

import (
	"math"
	"net"
	"net/netip"

	"github.com/sluice-rdma/sluice/verbs"
)

// reaches reports whether packets for an address can be sent from the entry: in
// RoCEv2, with an address of the same kind.
func (e GIDEntry) reaches(to netip.Addr) bool {
	to = to.Unmap()
	return e.Type == GIDRoCEv2 && e.Addr.Is4() == to.Is4() && (to.Is4() || e.Addr.IsLinkLocalUnicast() == to.IsLinkLocalUnicast())
}

// GIDEntry returns an entry of a port's GID table, whatever its type. An empty
// one is an error.
func (d *Device) GIDEntry(port, index int) (GIDEntry, error) {
	var c C.struct_ibv_gid_entry
	switch {
	case port < 1 || port > d.attr.PhysPorts:
		return GIDEntry{}, verbs.Errorf("query_gid", d.name, verbs.ErrInvalid, "port %d does not exist: the device has ports 1 to %d", port, d.attr.PhysPorts)
	case index < 0:
		return GIDEntry{}, verbs.Errorf("query_gid", d.name, verbs.ErrInvalid, "GID %d: they count from 0", index)
	case index > math.MaxInt32:
		return GIDEntry{}, verbs.Errorf("query_gid", d.name, verbs.ErrInvalid, "GID %d: no table has more than %d entries", index, math.MaxInt32)
	}
	if e := C.shim_query_gid(d.ctx, C.int(port), C.int(index), &c); e != 0 {
		return GIDEntry{}, fail("query_gid", d.name, int(e), "port %d has no GID %d, or the entry is empty", port, index)
	}
	out := GIDEntry{Index: index, Type: GIDType(c.gid_type), Addr: netip.AddrFrom16(c.gid).Unmap()}
	if out.Addr.IsUnspecified() {
		return GIDEntry{}, verbs.Errorf("query_gid", d.name, verbs.ErrInvalid, "GID %d of port %d is empty", index, port)
	}
	if c.ndev_ifindex != 0 {
		if i, err := net.InterfaceByIndex(int(c.ndev_ifindex)); err == nil {
			out.Netdev = i.Name
		}
	}
	return out, nil
}

// GIDs returns the entries of a port's GID table that are not empty.
func (d *Device) GIDs(port int) ([]GIDEntry, error) {
	p, err := d.queryPort(port)
	if err != nil {
		return nil, err
	}
	var out []GIDEntry
	for i := range int(p.gid_tbl_len) {
		if e, err := d.GIDEntry(port, i); err == nil {
			out = append(out, e)
		}
	}
	return out, nil
}

// GID implements verbs.Device. Entries that are empty or of RoCE v1, whose packets are
// not IP packets, are errors. So the first address of a kind is one of RoCE v2.
func (d *Device) GID(port, index int) (netip.Addr, error) {
	e, err := d.GIDEntry(port, index)
	if err != nil {
		return netip.Addr{}, err
	}
	if e.Type == GIDRoCEv1 {
		detail := "take one of RoCE v2"
		if all, err := d.GIDs(port); err == nil {
			for _, other := range all {
				if other.Type == GIDRoCEv2 && other.Addr == e.Addr {
					detail = "the same address in RoCE v2 is GID " + itoa(uint32(other.Index))
				}
			}
		}
		return netip.Addr{}, verbs.Errorf("query_gid", d.name, verbs.ErrNotSupported, "GID %d is %v in RoCE v1: %s", index, e.Addr, detail)
	}
	return e.Addr, nil
}

// BestGID is the index of the GID that perftest uses by default: RoCE v2 before RoCE v1,
// then an IPv4 address before an IPv6 one and that before a link-local one; of equals the
// first.
func (d *Device) BestGID(port int) (int, error) {
	all, err := d.GIDs(port)
	if err != nil {
		return 0, err
	}
	return best(d.name, port, all, func(GIDEntry) bool { return true })
}

// gidFor is the best GID from which an address can be reached.
func (d *Device) gidFor(port int, to netip.Addr) (int, error) {
	all, err := d.GIDs(port)
	if err != nil {
		return 0, err
	}
	return best(d.name, port, all, func(e GIDEntry) bool { return e.reaches(to) })
}

func best(device string, port int, all []GIDEntry, fits func(GIDEntry) bool) (int, error) {
	found, index := -1, 0
	for _, e := range all {
		if !fits(e) {
			continue
		}
		rank := 0
		if e.Type == GIDRoCEv2 {
			rank += 4
		}
		if e.Addr.Is4() {
			rank += 2
		}
		if !e.Addr.IsLinkLocalUnicast() {
			rank++
		}
		if rank > found {
			found, index = rank, e.Index
		}
	}
	if found < 0 {
		return 0, verbs.Errorf("query_gid", device, verbs.ErrInvalid, "port %d has no GID that fits: give its interface an IP address", port)
	}
	return index, nil
}
