package endpoint

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// gsi is the general services interface, queue pair 1 (IBA 13.5.1), which takes and
// sends management datagrams under a Q_Key that all know.
type gsi struct {
	handler MADHandler
	queue   [gsiDepth]mad
	first   int
	n       int
	psn     units.PSN
	to      Route
}

const gsiDepth = 64

type mad struct {
	to   Route
	qpn  uint32
	data [roce.MADBytes]byte
}

// MADHandler handles a received management datagram. data is valid until it returns.
// It reports whether it takes the datagram, and must not call the Endpoint.
type MADHandler func(local netip.Addr, src netip.AddrPort, srcQPN uint32, data []byte) bool

// OnMAD sets the handler of management datagrams; nil for none.
func (e *Endpoint) OnMAD(h MADHandler) { e.gsi.handler = h }

// SendMAD queues a management datagram to queue pair qpn, usually 1.
func (e *Endpoint) SendMAD(to verbs.AddressVector, qpn uint32, data []byte) error {
	if len(data) != roce.MADBytes {
		return verbs.Errorf("send_mad", e.cfg.Name, verbs.ErrInvalid, "a management datagram of %d bytes, expected %d", len(data), roce.MADBytes)
	}
	g := &e.gsi
	if g.n == gsiDepth {
		return verbs.Errorf("send_mad", e.cfg.Name, verbs.ErrQueueFull, "%d management datagrams wait to be sent", g.n)
	}
	route, err := e.cfg.Resolve(to)
	if err != nil {
		return verbs.Errorf("send_mad", e.cfg.Name, verbs.ErrInvalid, "%v", err)
	}
	route.SrcPort = srcPort(roce.GSIQP, qpn, to.FlowLabel)
	m := &g.queue[(g.first+g.n)%gsiDepth]
	m.to, m.qpn = route, qpn&maxPSN
	copy(m.data[:], data)
	g.n++
	return nil
}

func (e *Endpoint) nextMAD(buf []byte) (int, *Route) {
	g := &e.gsi
	m := &g.queue[g.first]
	g.first = (g.first + 1) % gsiDepth
	g.n--
	g.to = m.to
	g.psn = g.psn.Add(1)
	e.out = roce.GSI(g.psn, roce.DefaultPKey)
	e.out.DestQP = m.qpn
	n, payload := e.put(buf, roce.MADBytes)
	copy(payload, m.data[:])
	return n, &g.to
}

func (e *Endpoint) receiveMAD(p *Packet, in *inbound) {
	switch {
	case in.Opcode != ib.ServiceUD|ib.SendOnly:
		e.Counters.WrongService++
	case in.QKey != roce.GSIQKey:
		e.Counters.BadQKey++
	case e.gsi.handler == nil || len(in.payload) != roce.MADBytes:
		e.Counters.MADsDropped++
	case !e.gsi.handler(e.cfg.GIDs[p.GID], p.Src, in.SrcQP, in.payload):
		e.Counters.MADsDropped++
	}
}
