package storm

import (
	"math/rand/v2"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// pace is what a queue pair of the shim hands to the one below, held against what its engine
// allows and what the shim says of it.
type pace struct {
	p     *Process
	qpn   uint32
	cfg   *paced.Config
	line  units.Rate
	mtu   units.Bytes
	since units.Time // its making

	segments []segment // with the provider
	done     []segment // that have succeeded, of which the engine is to hear
	out      units.Bytes
	acked    units.Bytes // since RESET
	base     units.Bytes // before
	sent     units.Bytes
	taken    uint64 // since its making
	bytes    units.Bytes
	acks     uint64
	zero     int // segments without bytes, since RESET
	failed   bool

	rate, most, least units.Rate // the engine's, and its bounds since the last segment
	window            units.Bytes
	anchor            units.Time // from which the rate counts until the next segment
	last              units.Bytes
	lastAt            units.Time
	sends             verbs.CQ
}

type segment struct {
	wrid  uint64
	bytes units.Bytes
	at    units.Time
}

// drawShim draws what a seed's shim is like.
func drawShim(seed uint64, c *paced.Config) (erratic bool) {
	r := rand.New(rand.NewPCG(seed, 0x5417))
	c.Batch = []int{1, 2, 16, 256}[r.IntN(4)]
	c.CatchUp = []units.Time{0, units.Microsecond, 10 * units.Microsecond}[r.IntN(3)]
	if r.IntN(2) == 0 {
		c.MaxOutstanding = c.Segment * units.Bytes(1+r.IntN(8))
	}
	c.Clock = []paced.RTTClock{paced.CalibratedClock, paced.NICClock, paced.SoftwareClock}[r.IntN(3)]
	if r.IntN(4) == 0 {
		c.CalibrateEvery = 0
	}
	return r.IntN(2) == 0
}

// erratic is an engine that allows anything, each time something else.
type erratic struct {
	r *rand.Rand
	c cc.Control
}

func (e *erratic) draw() cc.Control {
	e.c = cc.Control{Rate: units.Rate(1+e.r.IntN(1<<e.r.IntN(16))) * units.Mbps, Window: cc.Unlimited}
	if e.r.IntN(2) == 0 {
		e.c.Window = units.Bytes(1 + e.r.IntN(64<<10))
	}
	if e.r.IntN(8) == 0 {
		e.c.Rate = 1000 * units.Gbps
	}
	return e.c
}

func (e *erratic) OnAck(*cc.Ack) cc.Control        { return e.draw() }
func (e *erratic) OnLoss(units.Time) cc.Control    { return e.c }
func (e *erratic) OnTimeout(units.Time) cc.Control { return e.c }
func (e *erratic) OnCNP(units.Time) cc.Control     { return e.c }
func (e *erratic) Control() cc.Control             { return e.c }

// connected is called as the queue pair goes to RTS, with what its engine allows.
func (p *pace) connected(c cc.Control, mtu ib.MTU) {
	p.rate, p.most, p.least, p.window, p.mtu = c.Rate, c.Rate, c.Rate, c.Window, units.Bytes(mtu)
}

func (p *pace) reset() {
	p.segments, p.done, p.out, p.acked, p.sent, p.zero, p.failed = nil, nil, 0, 0, 0, 0, false
}

// handed takes note of requests that the provider takes now.
func (p *pace) handed(now units.Time, wrs []verbs.SendWR) {
	for i := range wrs {
		n := units.Bytes(wrs[i].Length())
		due := p.earliest()
		if now+units.Nanosecond < due {
			p.p.Failf("rule 16: queue pair %#x: a segment leaves %v before the rate of %v lets it", p.qpn, due-now, p.most)
		}
		if n > 0 && p.out > 0 && p.out+n > p.window && !p.failed {
			p.p.Failf("rule 17: queue pair %#x: %v are with the NIC, %v more leave, and the window is %v", p.qpn, p.out, n, p.window)
		}
		if bound := p.cfg.Outstanding(p.line); n > 0 && p.out > 0 && p.out+n > bound && !p.failed {
			p.p.Failf("rule 17: queue pair %#x: %v are with the NIC, %v more leave, and the bound is %v", p.qpn, p.out, n, bound)
		}
		p.anchor, p.last, p.lastAt = max(due, now-p.cfg.CatchUp), n, now
		p.most, p.least = p.rate, p.rate
		p.segments = append(p.segments, segment{wrs[i].WRID, n, now})
		p.out += n
		p.sent += n
		p.taken++
		p.bytes += n
		p.p.ward.bytes += n
		if n == 0 {
			p.zero++
		}
	}
}

// earliest is when the next segment may leave, by the highest rate since the last.
func (p *pace) earliest() units.Time {
	if p.most >= p.line {
		return 0
	}
	return p.anchor + min(p.most.Serialize(p.last), units.Second)
}

// allowed takes what the engine allows from now on.
func (p *pace) allowed(c cc.Control) {
	p.rate, p.window, p.most, p.least = c.Rate, c.Window, max(p.most, c.Rate), min(p.least, c.Rate)
}

// completed takes a completion of the provider's, which the shim gets now.
func (p *pace) completed(wc *verbs.WC) {
	for i := range p.segments {
		if p.segments[i].wrid != wc.WRID {
			continue
		}
		for _, s := range p.segments[:i+1] {
			p.out -= s.bytes
		}
		if p.failed = p.failed || wc.Status != ib.WCSuccess; !p.failed {
			p.done = append(p.done, p.segments[i])
		}
		p.segments = p.segments[:copy(p.segments, p.segments[i+1:])]
		return
	}
}

// observed holds what an engine is told against what has happened.
func (p *pace) observed(a *cc.Ack, c cc.Control) {
	if len(p.done) == 0 {
		p.p.Failf("rule 18: queue pair %#x: the engine is told of a segment that has not completed", p.qpn)
		return
	}
	s := p.done[0]
	p.done = p.done[1:]
	p.acked += s.bytes
	p.acks++
	p.p.ward.acks++
	if p.acked == s.bytes {
		p.base = a.Acked - p.acked // what was acknowledged before RESET counts on
	}
	wire := p.line.Serialize(s.bytes)
	switch packets := max(1, int32((s.bytes+p.mtu-1)/p.mtu)); {
	case a.Bytes != s.bytes || a.Packets != packets || a.Acked != p.base+p.acked || a.Sent != p.base+p.sent:
		p.p.Failf("rule 18: queue pair %#x: the engine is told of %v in %d packets, %v of %v: it was %v in %d, %v of %v",
			p.qpn, a.Bytes, a.Packets, a.Acked, a.Sent, s.bytes, packets, p.base+p.acked, p.base+p.sent)
	case !p.p.ward.later && (a.SentAt > s.at || s.at-a.SentAt > units.Microsecond):
		p.p.Failf("rule 18: queue pair %#x: the engine is told of a segment of %v, which left at %v", p.qpn, a.SentAt, s.at)
	case a.RTT < 0 || a.NetRTT < 0 || a.NetRTT > 0 && a.RTT-a.NetRTT != wire || a.NetRTT == 0 && a.RTT > wire+units.Nanosecond:
		p.p.Failf("rule 18: queue pair %#x: the engine is told of a round trip of %v, %v without the %v on the wire", p.qpn, a.RTT, a.NetRTT, wire)
	case a.Scale < 0 || a.Scale > 1:
		p.p.Failf("rule 18: queue pair %#x: the engine is told of a share of %v", p.qpn, a.Scale)
	}
	p.allowed(c)
}

// holds holds what the shim says of a queue pair against what is known of it. waits says that it
// has requests that are not with the provider, and progressed that it has just made progress.
func (p *pace) holds(now units.Time, q *paced.QP, waits, progressed bool, stats *paced.QPStats) {
	if p.failed || q.Control().Rate == 0 {
		return
	}
	a, err := q.Query()
	if err != nil || a.State != ib.RTS {
		return
	}
	if out := q.Outstanding(); out != p.out {
		p.p.Failf("rule 7: queue pair %#x has %v with the NIC, and says %v", p.qpn, p.out, out)
	}
	if gap := min(max(p.least, 1).Serialize(p.last), units.Second); progressed && waits && len(p.segments) == 0 && now > p.lastAt+gap+12*units.Microsecond {
		p.p.Failf("rule 16: queue pair %#x: nothing is with the NIC, and no segment leaves %v after the last, at %v", p.qpn, now-p.lastAt, p.least)
	}
	if stats == nil {
		return
	}
	q.Stats(stats)
	held := stats.Held
	for _, h := range []units.LongTime{held.Rate, held.Window, held.Bound, held.Late, held.Other, held.Sent} {
		if h.Before(units.LongTime{}) {
			p.p.Failf("rule 19: queue pair %#x was held for %v", p.qpn, h)
		}
	}
	active := held.Active()
	switch {
	case stats.QPN != p.qpn || stats.State != a.State || stats.Outstanding != p.out || stats.Rate != q.Control().Rate:
		p.p.Failf("rule 19: queue pair %#x says that it is %#x, in %v, %v with the NIC, at %v", p.qpn, stats.QPN, stats.State, stats.Outstanding, stats.Rate)
	case stats.Segments != p.taken || stats.SegmentBytes != p.bytes:
		p.p.Failf("rule 19: queue pair %#x counts %d segments of %v, and has sent %d of %v", p.qpn, stats.Segments, stats.SegmentBytes, p.taken, p.bytes)
	case stats.Engine != "" && stats.RTT.Count() > p.acks:
		p.p.Failf("rule 19: queue pair %#x counts %d round trips, and has had %d", p.qpn, stats.RTT.Count(), p.acks)
	case stats.RTT.Count() > 0 && (stats.RTT.Sum < 0 || stats.RTT.Sum == 0 && stats.RTT.Quantile(1) > units.Microsecond*units.Time(stats.RTT.Count()+1)):
		p.p.Failf("rule 19: queue pair %#x counts round trips of %v in all", p.qpn, stats.RTT.Sum)
	case active.Sub(units.LongTime{}) > now-p.since:
		p.p.Failf("rule 19: queue pair %#x was at work for %v, of %v", p.qpn, active, now-p.since)
	case stats.Cuts.Total() > p.acks+stats.CNPs:
		p.p.Failf("rule 19: queue pair %#x counts %d cuts, of %d acknowledgements", p.qpn, stats.Cuts.Total(), p.acks)
	}
}

// counted holds what the shim counts against what it has done.
func (w *ward) counted(s *paced.Shim) {
	n := s.Stats()
	turns := n.Turnarounds + n.Coalesced
	switch {
	case n.Segments != w.segments || n.SegmentBytes != w.bytes || n.Posts != w.posts:
		w.p.Failf("rule 19: the shim counts %d segments of %v in %d posts, and has sent %d of %v in %d", n.Segments, n.SegmentBytes, n.Posts, w.segments, w.bytes, w.posts)
	case n.Samples != w.acks || n.NICTime+n.PollTime != n.Samples || n.Bypassed > 0:
		w.p.Failf("rule 19: the shim counts %d samples, %d by the NIC's time and %d by its own, %d bypassed: there were %d", n.Samples, n.NICTime, n.PollTime, n.Bypassed, w.acks)
	case n.Messages > w.accepted || n.Failed > n.Messages:
		w.p.Failf("rule 19: the shim counts %d messages, %d failed, of %d", n.Messages, n.Failed, w.accepted)
	case n.Clamped > n.Samples || n.ProviderFull+n.NICRateRefused+n.ClockErrors+n.SentTime > 0:
		w.p.Failf("rule 19: the shim counts %+v", n)
	case turns > n.Samples || turns > 0 && (w.watch == nil || !w.watch.turnaround):
		w.p.Failf("rule 19: the shim counts %d answers with a turnaround of %d", turns, n.Samples)
	case w.shim.Clock == paced.SoftwareClock && n.NICTime > 0:
		w.p.Failf("rule 19: the shim counts %d samples by the NIC's time, and does not use it", n.NICTime)
	case len(s.QPs()) > 0:
		w.p.Failf("rule 19: the shim has %d queue pairs, when all are destroyed", len(s.QPs()))
	case s.Deadline() != units.LongNever:
		w.p.Failf("rule 19: the shim has nothing to do, and something at %v", s.Deadline())
	}
}
