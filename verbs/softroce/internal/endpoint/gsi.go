package endpoint

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// The general services interface (IBA 13.5.1): queue pair 1, which takes and
// sends management datagrams of 256 bytes under a Q_Key that all know.
const (
	gsiQKey  = 0x80010000
	MADBytes = 256
)

// gsi is queue pair 1.
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
	data [MADBytes]byte
}

// MADHandler is given the management datagrams that come. data is valid until it
// returns. It must not call the Endpoint.
type MADHandler func(local netip.Addr, src netip.AddrPort, srcQPN uint32, data []byte)

// OnMAD sets who gets management datagrams; nil for nobody.
func (e *Endpoint) OnMAD(h MADHandler) { e.gsi.handler = h }

// SendMAD queues a management datagram to queue pair qpn, usually 1.
func (e *Endpoint) SendMAD(to verbs.AddressVector, qpn uint32, data []byte) error {
	if len(data) != MADBytes {
		return verbs.Errorf("send_mad", e.cfg.Name, verbs.ErrInvalid, "%d bytes: a management datagram has %d", len(data), MADBytes)
	}
	g := &e.gsi
	if g.n == gsiDepth {
		return verbs.Errorf("send_mad", e.cfg.Name, verbs.ErrQueueFull, "%d management datagrams wait to be sent", g.n)
	}
	route, err := e.cfg.Resolve(to)
	if err != nil {
		return verbs.Errorf("send_mad", e.cfg.Name, verbs.ErrInvalid, "%v", err)
	}
	route.SrcPort = srcPort(1, qpn, to.FlowLabel)
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
	n, payload := encodeUD(buf, ib.ServiceUD|ib.SendOnly, m.qpn, gsiQKey, 1, g.psn, 0, false, MADBytes)
	copy(payload, m.data[:])
	return n, &g.to
}

func (e *Endpoint) receiveMAD(p *Packet, in *inbound) {
	switch {
	case in.Opcode != ib.ServiceUD|ib.SendOnly:
		e.Counters.WrongService++
	case in.qkey != gsiQKey:
		e.Counters.BadQKey++
	case e.gsi.handler == nil || len(in.payload) != MADBytes:
		e.Counters.MADsDropped++
	default:
		e.gsi.handler(e.cfg.GIDs[p.GID], p.Src, in.srcQPN, in.payload)
	}
}
