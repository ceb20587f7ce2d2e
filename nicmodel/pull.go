package nicmodel

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// pull steers the data of READs from the requester's end. Responses carry the data
// and the telemetry of the switches, so the requester is the first to know of
// congestion. The responder would need a notification, and InfiniBand has no packet
// for that. The window bounds the bytes requested but not yet received, the rate
// spaces the requests.
//
// READs are cut to bound bursts: the data of one request arrive at the responder's
// line rate. A request for more than the window goes alone, and the pace then keeps
// the mean rate to that of the window.
type pull struct {
	steering
	// ring is the outstanding READs, of a power of two: those between the running
	// counts from and to.
	ring     []readSent
	from, to uint32
	size     units.Bytes // that the newest asks for
}

// readPart is the most that one request asks for: TIMELY's segment. Sixteen of
// them, as many as NICs commonly have outstanding, fill 200 Gbps over 10 us.
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

// readArrived passes a READ response, f, with its payload of so many bytes to the engine.
// Its round trip begins at its turn in the READ: the time of the earlier responses at the
// line rate is not a delay.
func (o *offload) readArrived(now units.Time, q *qp, f *frame, bytes units.Bytes) {
	p := q.pull
	p.acked += bytes
	sentAt, before, ok := p.answered(f.desc.Header.PSN)
	if !ok {
		return
	}
	sentAt = min(sentAt+o.line.Serialize(units.Bytes(before)*units.Bytes(q.mtu)), now-1)
	o.ack = cc.Ack{
		Now: now, SentAt: sentAt, RTT: now - sentAt, Bytes: bytes, Packets: 1,
		ECN: q.report.ECN, EIN: q.report.EIN,
	}
	o.submit(now, q, eventRead)
}

// takeSteering applies the steering of the queue pair's next request.
func (s *scheduler) takeSteering(now units.Time, q *qp) {
	under := &q.steering
	if q.rc.PeekRead(now) {
		under = &q.pull.steering
	}
	if under != q.next {
		q.next = under
		_ = q.ring.limiter.SetRate(q.flow, under.Control().Rate) // never zero, so this can't fail
	}
}
