package nicmodel

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// pull steers what READs bring, from the requester's end. Responses bring the data
// and what the switches wrote on their way, so that the requester knows of
// congestion as soon as anyone can; the responder would have to be told, and
// InfiniBand has no packet for that. The window bounds the bytes asked for and not
// yet here, the rate spaces the requests.
//
// READs are cut, so that one is no burst: what a request asks for comes at the
// responder's line rate. A request for more than the window goes alone, and the
// pace then keeps the mean to what the window comes to.
type pull struct {
	steering
	// ring is the outstanding READs, of a power of two: those between the running
	// counts from and to.
	ring     []readSent
	from, to uint32
	size     units.Bytes // that the newest asks for
}

// readPart is what a request asks for at most: TIMELY's segment, of which sixteen,
// as many as NICs commonly have outstanding, fill 200 Gbps over 10 us.
const readPart = 16 << 10

type readSent struct {
	psn units.PSN // of the first response
	at  units.Time
}

// newPull has room for the READs that may be outstanding and for the one that
// takes the place of the oldest.
func newPull(maxRdAtomic int) *pull {
	return &pull{ring: make([]readSent, 1<<bits.Len(uint(maxRdAtomic)))}
}

// requested notes a READ as it goes on the wire. One that is sent again takes the
// place of those from its number on.
func (p *pull) requested(now units.Time, d *rc.Descriptor) {
	if d.Retransmit {
		mask := uint32(len(p.ring) - 1)
		for p.to != p.from && !p.ring[(p.to-1)&mask].psn.Before(d.Header.PSN) {
			p.to--
		}
	}
	p.size = units.Bytes(d.Expect)
	p.ring[p.to&uint32(len(p.ring)-1)] = readSent{d.Header.PSN, now}
	p.to++
}

// answered returns when the READ was sent that a response with that number answers,
// and how many of its responses come before that one.
func (p *pull) answered(psn units.PSN) (sentAt units.Time, before int32, ok bool) {
	mask := uint32(len(p.ring) - 1)
	for p.to-p.from > 1 && !psn.Before(p.ring[(p.from+1)&mask].psn) {
		p.from++
	}
	if p.from == p.to || psn.Before(p.ring[p.from&mask].psn) {
		return 0, 0, false
	}
	one := &p.ring[p.from&mask]
	return one.at, psn.Sub(one.psn), true
}

// pulled tells the engine of a READ response, f, whose payload is to be placed. Its
// round trip begins when its turn in the READ comes: what the responses before it
// take at the line rate is no delay.
func (n *NIC) pulled(now units.Time, q *qp, f *frame) {
	p := q.pull
	bytes := units.Bytes(n.eff.Place.Length)
	p.acked += bytes
	sentAt, before, ok := p.answered(f.desc.Header.PSN)
	if !ok {
		return
	}
	sentAt = min(sentAt+n.line.Serialize(units.Bytes(before)*units.Bytes(q.mtu)), now-1)
	n.ack = cc.Ack{
		Now: now, SentAt: sentAt, RTT: now - sentAt, Bytes: bytes, Packets: 1,
		ECN: q.report.ECN, EIN: q.report.EIN,
	}
	c := n.inform(now, q, &p.steering)
	if q.report.ECN && q.cong.CNPInterval > 0 && now >= q.cnpAfter {
		// Notification and reaction point are one.
		q.cnpAfter = now + q.cong.CNPInterval
		c = p.Engine().OnCNP(now)
	}
	if p.size > c.Window {
		c.Rate = max(min(c.Rate, units.RateOf(c.Window, now-sentAt)), 1)
	}
	n.steer(q, &p.steering, c)
}

// turnTo puts the steering in force that the queue pair's next request is under.
func (n *NIC) turnTo(now units.Time, q *qp) {
	s := &q.steering
	if q.rc.PeekRead(now) {
		s = &q.pull.steering
	}
	if s != q.next {
		q.next = s
		_ = n.limiter.SetRate(q.flow, s.Control().Rate) // never zero, so this can't fail
	}
}
