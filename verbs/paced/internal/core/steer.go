package core

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Sample is one segment that succeeded: what the driver knows of it, and the results
// of Measure. It belongs to the driver, which reuses it for the next segment.
type Sample struct {
	Segment completions.Segment // by Complete

	// Given by the driver.
	Stamped bool // completions carry the NIC's timestamp
	Watched bool // Ack is wanted even without an engine
	// Report is the provider's report of the segment's way, if Reported.
	Report   verbs.Telemetry
	Reported bool
	// CNPs counts the congestion notification packets that have arrived, if
	// CountsCNPs.
	CNPs       uint64
	CountsCNPs bool
	// Retransmits counts, modulo 256, the timers of the queue pair that have run out before its
	// own timeout (verbs.AdpRetransQP); 0 where none are counted.
	Retransmits uint8
	// First and Last are when its first and last packet left the host, by the NIC's
	// counter, if Departed.
	First, Last uint64
	Departed    bool

	// Ack is the engine's input, if there is an engine or Watched is set. It is valid
	// until the next Measure.
	Ack cc.Ack
	RTT units.Time // 0 if it is not known
	Marks
	FreshCNPs uint64 // not yet passed to the engine

	hasReport bool // Ack has something of a report, this one's or an earlier one's
}

// Marks say how a Sample was taken and what it led to.
type Marks uint8

// Marks.
const (
	ByNIC       Marks = 1 << iota // completed by the NIC's timestamp
	ByDeparture                   // sent by Departed
	Clamped                       // shorter than its serialisation
	Turnaround                    // without what the peer took to answer
	Cut                           // the engine lowered its rate or window
	CutByCNP                      // and for a congestion notification
	Bypassed                      // the engine was spared: Ack is not valid
	Repaired                      // outstanding for a retransmission timeout, of which the engine was told: Ack is valid if Watched
)

// Complete takes the provider's completion of a segment of the queue pair and fills
// out. It returns how many segments the completion finishes, earlier ones included,
// and false if the provider does not have the segment. Call Measure or Fail next.
func (q *QP) Complete(wc *verbs.WC, out *completions.Segment) (done int, ok bool) {
	before, bytes := q.table.InFlight(), q.table.Outstanding()
	ok = q.table.Complete(uint32(wc.WRID), wc, out)
	done = before - q.table.InFlight()
	q.left(bytes)
	q.core.inFlight -= done
	return done, ok
}

// Measure takes the round trip of the segment in x, which succeeded, to the engine.
// now is when its completion was polled.
func (c *Core) Measure(now units.Time, q *QP, wc *verbs.WC, x *Sample) {
	seg := &x.Segment
	done := now
	x.Marks, x.FreshCNPs = 0, 0
	if x.Stamped {
		var ok bool
		if done, ok = c.clock.HostTime(wc.Timestamp, now); ok {
			x.Marks = ByNIC
		}
	}
	if x.Departed && (x.Marks == ByNIC || x.Stamped && c.cfg.NICClock) {
		c.departed(now, done, q, wc.Timestamp, x)
	}
	early := x.Retransmits != q.retransmits
	l := q.loopOf()
	repaired := early || done-seg.PostedAt >= q.ackTimeout() || !l.sampled
	size := q.sizeOf(seg.Bytes)
	rtt, net, clamped := completions.RoundTrip(seg.PostedAt, done, size.wire)
	if clamped {
		x.Marks |= Clamped
	}
	if x.Reported {
		rtt, net = x.withoutTurnaround(rtt, net)
	}
	x.RTT = rtt
	engine := l.driver.Engine()
	if engine == nil && !x.Watched {
		return
	}

	// The engine's time does not run backwards, whatever calibration does.
	before := l.lastAck
	l.lastAck = max(before, done)
	m := q.member
	if m != nil {
		before, m.lastAck = m.lastAck, l.lastAck
	}
	if x.CountsCNPs && engine != nil {
		// CNPs that arrived since the last completion share its time.
		if m == nil {
			x.FreshCNPs = l.driver.CNPs(x.CNPs)
		} else {
			x.FreshCNPs = m.freshCNPs(x.CNPs)
		}
		if x.FreshCNPs > 0 {
			if q.obey(now, engine.OnCNP(l.lastAck)) {
				x.Marks |= CutByCNP
			}
		}
	}
	q.retransmits = x.Retransmits
	if repaired && q.wasRepaired(now, before, engine, early, x) {
		if !x.Watched {
			return
		}
		engine = nil
	} else {
		l.sampled = true
	}
	if net < l.bypass && !x.Watched && l.driver.AtLine() {
		x.Marks |= Bypassed
		return
	}
	a := &x.Ack
	// Field by field: a literal would be made elsewhere and copied. The report's
	// are zero unless there is one.
	a.Now, a.SentAt, a.RTT, a.NetRTT = l.lastAck, seg.PostedAt, rtt, net
	a.Bytes, a.Packets, a.Acked, a.Sent = seg.Bytes, size.packets, seg.Acked, seg.Sent
	out := q.table.Outstanding()
	if m != nil {
		out = m.group.out
		a.Acked, a.Sent = m.group.sent-out, m.group.sent
	}
	l.driver.Complete(a, out)
	if x.hasReport {
		x.hasReport = false
		a.ECN, a.EIN, a.HasMaxDelay, a.MaxHopDelay, a.ReverseMaxHopDelay, a.Path = false, false, false, 0, 0, nil
	}
	if x.Reported {
		t := &x.Report
		x.hasReport = true
		a.ECN, a.EIN = t.ECN, t.EIN
		a.HasMaxDelay, a.MaxHopDelay, a.ReverseMaxHopDelay = t.HasMaxDelay, t.MaxHopDelay, t.ReverseMaxHopDelay
		if t.Path.N > 0 {
			a.Path = &t.Path
		}
	}
	if engine != nil && q.obey(now, engine.OnAck(a)) {
		x.Marks |= Cut
	}
}

// wasRepaired reports whether the segment in x was outstanding for a retransmission timeout in
// which nothing of the queue pair was acknowledged, the last time being at before, or beside
// one that was. Early says that the device counts a timer that has run out since, one shorter
// than the queue pair's own timeout. Its round trip then measures the timer and not the network (Karn and Partridge,
// SIGCOMM 1987): the engine is told of the timeout, once. An acknowledgement that follows
// without one in between reaches the engine, however late it is: on a path on which segments
// take a timeout each, every other one counts.
func (q *QP) wasRepaired(now, before units.Time, engine cc.Engine, early bool, x *Sample) bool {
	l := q.loopOf()
	if posted := x.Segment.PostedAt; posted >= l.repaired {
		if !l.sampled || !early && l.lastAck-max(before, posted) < q.ackTimeout() {
			return false
		}
		l.repaired, l.sampled = l.lastAck, false
		if engine != nil && q.obey(now, engine.OnTimeout(l.lastAck)) {
			x.Marks |= Cut
		}
	}
	x.Marks |= Repaired
	return true
}

// sent takes note that n bytes leave now, which the engine of l paces.
func (q *QP) sent(now units.Time, n units.Bytes, l *loop) {
	l.driver.Sent(now, n)
	if l.driver.Free() {
		return
	}
	gap := l.driver.Gap()
	if n > q.largest || n == 0 {
		gap *= units.Time((n + q.largest - 1) / q.largest)
	}
	q.core.gapsEnd = max(q.core.gapsEnd, now+gap)
}

// size holds values derived from a segment's size, by divisions that most segments,
// being of one size, are spared.
type size struct {
	bytes   units.Bytes
	wire    units.Time // that it takes to serialise at the rate wire
	packets int32      // of the path MTU
}

func (q *QP) sizeOf(n units.Bytes) *size {
	if n != q.size.bytes {
		mtu := units.Bytes(q.mtu)
		q.size = size{n, q.wire.Serialize(n), max(1, int32((n+mtu-1)/mtu))}
	}
	return &q.size
}

// obey applies what the engine says to something, and reports whether that is a cut.
// The scheduler enforces a lower rate when the segment it holds comes due (TIMELY
// section 5); a window that closed takes the segment back.
func (q *QP) obey(now units.Time, control cc.Control) (cut bool) {
	l := q.loopOf()
	if q.hold == HeldBound && control.Rate != l.driver.Control().Rate {
		q.settle(now) // by the rate that held until now
	}
	change := l.driver.Apply(control)
	if change == 0 {
		return false
	}
	if change&cc.ChangedRate != 0 {
		q.core.pace(q.paced(), l)
	}
	if change&cc.ChangedWindow != 0 && q.member == nil && q.filed && q.fits(units.Bytes(q.next())) != HeldNone {
		q.withdraw() // a group looks when the segment is due
	}
	return change&cc.ChangedDown != 0
}

// pace gives the scheduler the current rate of a loop.
func (c *Core) pace(flow ratelimiter.FlowID, l *loop) {
	rate := l.driver.Rate()
	if l.driver.Free() {
		rate = ratelimiter.Unpaced
	}
	// The rate is positive, which is all that SetRate asks for.
	_ = c.sched.SetRate(flow, max(rate, 1))
}

// withoutTurnaround subtracts from a round trip the time that the peer took to answer,
// where the peer reports it (verbs.Telemetry.HasTurnaround): TIMELY counts on
// receivers that acknowledge at once (section 3.1), Swift takes the receiver's delay
// out (section 3.1). What remains is no less than the segment takes to serialise.
//
// A request that was acknowledged with a later one also waited for that one, so its
// own round trip is unknown.
func (x *Sample) withoutTurnaround(rtt, net units.Time) (units.Time, units.Time) {
	switch t := &x.Report; {
	case t.Coalesced:
		return 0, 0
	case t.HasTurnaround:
		x.Marks |= Turnaround
		out := min(t.Turnaround, net)
		return max(rtt-out, units.Picosecond), net - out
	}
	return rtt, net
}

// departed reckons the round trip of the segment in x from when it left the host: the
// delay between posting and leaving is the host's own.
//
// A segment at line rate ends its serialisation, on an idle link, no earlier than
// its first packet's start allows, nor than its last one's. Measure subtracts the
// serialisation of the whole segment. So the round trip begins at the first packet
// or, if the host tore packets apart, as long before the last packet as the rest
// takes at line rate. Queueing behind the hook, in the NIC, stays part of the round
// trip (TIMELY section 5). A Read sends one packet, and all of its bytes come back.
//
// With NICClock the round trip begins when the first packet left, before done.
func (c *Core) departed(now, done units.Time, q *QP, completed uint64, x *Sample) {
	seg := &x.Segment
	if c.cfg.NICClock {
		seg.PostedAt = done - c.ticksPassed(x.First, completed)
		x.Marks |= ByDeparture
		return
	}
	from, ok1 := c.clock.HostTime(x.First, now)
	end, ok2 := c.clock.HostTime(x.Last, now)
	if !ok1 || !ok2 {
		return
	}
	if rest := seg.Bytes - 1; rest > 0 {
		rest -= rest % units.Bytes(q.mtu) // all but the last packet
		end -= q.wire.Serialize(rest)
	}
	seg.PostedAt = max(seg.PostedAt, from, end)
	x.Marks |= ByDeparture
}

// ticksPassed returns the time that lies between two of the NIC's timestamps.
func (c *Core) ticksPassed(from, to uint64) units.Time {
	ticks := to - from
	if bits := c.cfg.ClockBits; bits > 0 && bits < 64 {
		ticks &= 1<<uint(bits) - 1
	}
	return units.Time(detmath.Int64(float64(ticks) / c.cfg.CoreClockHz * float64(units.Second)))
}
