package nicmodel

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
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
	ReadTimes
	size units.Bytes // that the newest asks for
}

// readPart is the most that one request asks for: TIMELY's segment. Sixteen of
// them, as many as NICs commonly have outstanding, fill 200 Gbps over 10 us.
const readPart = 16 << 10

// ReadPackets is the most responses that a request of a READ asks for where an engine
// steers it (rc.SendConfig.ReadPackets), with packets of mtu bytes.
func ReadPackets(mtu units.Bytes) int { return max(readPart/int(mtu), 1) }

type readSent struct {
	psn units.PSN // of the first response
	at  units.Time
}

// ReadTimes holds the send times of a queue pair's outstanding READs. Make one with
// NewReadTimes.
type ReadTimes struct {
	// ring is of a power of two: the READs between the running counts from and to.
	ring     []readSent
	from, to uint32
}

// NewReadTimes has room for the READs that may be outstanding and for the one that
// takes the place of the oldest.
func NewReadTimes(maxRdAtomic int) ReadTimes {
	return ReadTimes{ring: make([]readSent, 1<<bits.Len(uint(maxRdAtomic)))}
}

// Requested notes a READ as it goes on the wire. One that is sent again takes the
// place of those from its number on.
func (p *ReadTimes) Requested(now units.Time, d *rc.Descriptor) {
	if d.Retransmit {
		mask := uint32(len(p.ring) - 1)
		for p.to != p.from && !p.ring[(p.to-1)&mask].psn.Before(d.Header.PSN) {
			p.to--
		}
	}
	p.ring[p.to&uint32(len(p.ring)-1)] = readSent{d.Header.PSN, now}
	p.to++
}

// Answered returns when the round trip of a response with that number began that comes
// now, over a line of that rate, in packets of mtu bytes: at its turn in the READ, since
// the time of the earlier responses at the line rate is not a delay. It is before now.
func (p *ReadTimes) Answered(now units.Time, psn units.PSN, line units.Rate, mtu units.Bytes) (sentAt units.Time, ok bool) {
	mask := uint32(len(p.ring) - 1)
	for p.to-p.from > 1 && !psn.Before(p.ring[(p.from+1)&mask].psn) {
		p.from++
	}
	if p.from == p.to || psn.Before(p.ring[p.from&mask].psn) {
		return 0, false
	}
	one := &p.ring[p.from&mask]
	return min(one.at+line.Serialize(units.Bytes(psn.Sub(one.psn))*mtu), now-1), true
}

// readArrived passes a READ response, f, with its payload of bytes bytes to the engine.
func (o *offload) readArrived(now units.Time, q *qp, f *frames.Frame, bytes units.Bytes) {
	p := q.pull
	p.acked += bytes
	sentAt, ok := p.Answered(now, f.Desc.Header.PSN, o.Line, units.Bytes(q.mtu))
	if !ok {
		return
	}
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
