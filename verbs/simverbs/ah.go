package simverbs

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/verbs"
)

// AH implements verbs.AH.
type AH struct {
	pd    *PD
	host  int
	label uint32
	gone  bool

	priority uint8
	ipv6     bool
}

// CreateAH implements verbs.PD.
func (p *PD) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	bad := func(cause error, format string, args ...any) (verbs.AH, error) {
		return nil, verbs.Errorf("create_ah", p.dev.name, cause, format, args...)
	}
	host, err := p.dev.peerOf(av.GID)
	switch {
	case p.gone:
		return bad(verbs.ErrClosed, "the protection domain is deallocated")
	case err != nil:
		return bad(verbs.ErrInvalid, "%v", err)
	case av.CheckSinglePort() != nil:
		return bad(verbs.ErrInvalid, "%v", av.CheckSinglePort())
	case av.StaticRate > 0:
		return bad(verbs.ErrNotSupported, "a static rate of datagrams")
	}
	p.users++
	return &AH{pd: p, host: host, label: av.FlowLabel, priority: p.dev.priority(av.SL), ipv6: byIPv6(av.GID)}, nil
}

// Close implements verbs.AH.
func (a *AH) Close() error {
	if a.gone {
		return verbs.Errorf("destroy_ah", a.pd.dev.name, verbs.ErrClosed, "")
	}
	a.gone = true
	a.pd.users--
	return nil
}

// address notes in q.wr where a datagram goes.
func (q *QP) address(wr *verbs.SendWR) error {
	bad := func(format string, args ...any) error {
		return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, format, args...)
	}
	a, ok := wr.AH.(*AH)
	switch {
	case !ok:
		return bad("the address handle belongs to another provider")
	case a.gone:
		return bad("the address handle is destroyed")
	case a.pd != q.pd:
		return bad("the address handle belongs to another protection domain")
	}
	q.wr.To = nicmodel.Peer{
		Host: a.host, QPN: wr.RemoteQPN, Priority: a.priority, IPv6: a.ipv6,
		FlowHash: flowHash(q.pd.dev.nic.Host(), a.host, q.num, wr.RemoteQPN, a.label),
	}
	q.wr.QKey = rc.QKey(wr.RemoteQKey, q.attr.QKey)
	return nil
}

// routerHops is the time to live that packets begin with, and fcsBytes are what Ethernet has behind them.
const (
	routerHops = 64
	fcsBytes   = 4
)

// writeGRH puts the header that a datagram came with into its GRH: IPv4's into the last bytes.
func writeGRH(header *[rc.GRHBytes]byte, host int, d nicmodel.Datagram) {
	tos := d.Frame.Priority << 5
	switch {
	case d.Frame.Flags&fabric.CE != 0:
		tos |= roce.ECNCE
	case d.Frame.Flags&fabric.ECT != 0:
		tos |= roce.ECNECT0
	}
	src := int(d.Src)
	if d.IPv6 {
		ip := roce.IPv6Fields{
			TrafficClass: tos, PayloadLen: int(d.Frame.Size) - roce.EthernetBytes - fcsBytes - roce.IPv6Bytes, HopLimit: routerHops - d.Frame.Hops,
			Src: gid6Of(src), Dst: gid6Of(host),
		}
		ip.Put(header[:])
		return
	}
	ip := roce.IPv4Fields{
		TOS: tos, TotalLen: int(d.Frame.Size) - roce.EthernetBytes - fcsBytes, DontFragment: true, TTL: routerHops - d.Frame.Hops,
		Src: gidOf(src), Dst: gidOf(host),
	}
	ip.Put(header[rc.GRHBytes-roce.IPv4Bytes:])
}

// byIPv6 reports whether packets to an address go by IPv6.
func byIPv6(gid netip.Addr) bool { return !gid.Unmap().Is4() }

// readGRH returns the addresses of what writeGRH wrote.
func readGRH(header []byte, ipv6 bool) (local, src netip.Addr) {
	if ipv6 {
		ip := roce.IPv6(header[:rc.GRHBytes])
		return ip.Dst(), ip.Src()
	}
	ip := roce.IPv4(header[rc.GRHBytes-roce.IPv4Bytes : rc.GRHBytes])
	return ip.Dst(), ip.Src()
}
