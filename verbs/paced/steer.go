package paced

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// steering is the part of a QP that measures and obeys the engine.
type steering struct {
	driver cc.Driver  // without an engine where there is no congestion control, and before RTS
	line   units.Rate // of the port; 0 if not known
	wire   units.Rate // at which the NIC sends a segment: its limiter's, else line

	size size // of the last segment; bytes is -1 if wire or the MTU changed since

	lastAck units.Time

	reported  bool              // telemetry has something for the engine
	telemetry verbs.TelemetryQP // nil where the provider has none
	cnps      verbs.CNPQP
	departs   verbs.SentTimestampQP
	limiter   verbs.RateLimitQP
}

// prepare looks for what the provider's queue pair can do.
func (q *QP) prepare() {
	st := &q.steering
	st.telemetry, _ = q.inner.(verbs.TelemetryQP)
	st.cnps, _ = q.inner.(verbs.CNPQP)
	st.limiter, _ = q.inner.(verbs.RateLimitQP)
	st.departs, _ = q.inner.(verbs.SentTimestampQP)
	st.line = q.shim.lineRate(q.port)
	st.wire, st.size.bytes = st.line, -1
	st.driver.Hold(cc.Control{Rate: max(st.line, 1), Window: cc.Unlimited})
}

// start makes the engine of a queue pair that is about to send.
func (q *QP) start() error {
	s := q.shim
	line := s.lineRate(q.port)
	if line <= 0 {
		return q.errorf("modify_qp", verbs.ErrInvalid, "port %d tells no line rate: set Config.LineRate", q.port)
	}
	if missing := q.lacks(); missing != "" {
		return q.errorf("modify_qp", verbs.ErrNotSupported, "the engine %s requires %s, which this device does not report: take an engine that needs round trips only, or a device that reports it (on the model, sim:lab/h0?telemetry=per-hop)", s.scheme.Name, missing)
	}
	engine, err := s.newEngine(cc.Env{LineRate: line, BaseRTT: s.cfg.BaseRTT, MTU: units.Bytes(q.mtu)})
	if err != nil {
		return q.errorf("modify_qp", verbs.ErrInvalid, "no engine: %v", err)
	}
	q.line, q.wire, q.size.bytes = line, line, -1
	q.limit = s.cfg.Outstanding(line)
	q.lastAck = s.Clock()
	q.reported = q.telemetry != nil && q.telemetry.TelemetryKinds() != 0
	if engine == nil {
		q.driver.Hold(cc.Control{Rate: line, Window: cc.Unlimited})
	} else {
		q.driver.Start(engine, line, q.largest, s.cfg.BaseRTT)
		q.driver.CNPs(q.CNPs())
	}
	q.pace()
	return nil
}

// lacks names what the configured scheme requires and the queue pair does not report.
func (q *QP) lacks() string {
	scheme := q.shim.scheme
	if scheme == nil {
		return "" // an engine of the program's own, which must know
	}
	var kinds verbs.TelemetryKinds
	if q.telemetry != nil {
		kinds = q.telemetry.TelemetryKinds()
	}
	return scheme.Lacks(cc.Signals{
		Path: kinds&verbs.ReportsPath != 0, MaxDelay: kinds&verbs.ReportsMaxDelay != 0,
		ECN: kinds&verbs.ReportsECN != 0, EIN: kinds&verbs.ReportsEIN != 0,
	})
}

// limitNIC sets the NIC's limiter; 0 takes it off.
func (q *QP) limitNIC(r units.Rate) error {
	if q.limiter == nil {
		return q.errorf("modify_qp_rate_limit", verbs.ErrNotSupported, "the device has no rate limiter for queue pairs")
	}
	if err := q.limiter.SetRateLimit(int64(r)); err != nil {
		return err
	}
	q.wire, q.size.bytes = q.line, -1
	if r > 0 && r < q.line {
		q.wire = r
	}
	return nil
}

// sent takes note that n bytes leave now.
func (q *QP) sent(now units.Time, n units.Bytes) {
	q.driver.Sent(now, n)
	if s := q.shim; q.driver.Engine() != nil && q.driver.Control().Rate < q.line {
		s.gapsEnd = max(s.gapsEnd, now+q.driver.Gap()*units.Time((n+q.largest-1)/q.largest))
	}
}

// steer takes the RTT sample of the segment that just succeeded, shim.segment,
// to the engine.
func (q *QP) steer(now units.Time, wc *verbs.WC) {
	s := q.shim
	seg := &s.segment
	done, fromNIC := now, false
	if q.sends.timestamps {
		done, fromNIC = s.clock.HostTime(wc.Timestamp, now)
	}
	if q.departs != nil && (fromNIC || q.sends.timestamps && s.cfg.Clock == NICClock) {
		q.departed(now, done, wc)
	}
	size := q.sizeOf(seg.Bytes)
	m := completions.MeasureSerialized(seg, done, size.wire)
	reported := q.reported && q.telemetry.CompletionTelemetry(wc, &s.report)
	if reported {
		s.excludeTurnaround(&m, &s.report)
	}
	s.stats.Samples++
	if m.RTT > 0 {
		q.tally.rtt.add(m.RTT)
	}
	if fromNIC {
		s.stats.NICTime++
	} else {
		s.stats.PollTime++
	}
	if m.Clamped {
		s.stats.Clamped++
	}
	engine := q.driver.Engine()
	if engine == nil && s.cfg.Observe == nil && q.watch == nil {
		return
	}

	// The engine's time does not run backwards, whatever calibration does.
	q.lastAck = max(q.lastAck, done)
	if q.cnps != nil && engine != nil {
		// Those that came since the last completion share its time.
		if fresh := q.driver.CNPs(q.cnps.CNPs()); fresh > 0 {
			s.stats.CNPs += fresh
			q.tally.cnps += fresh
			q.obey(now, ByCNP, engine.OnCNP(q.lastAck))
		}
	}
	a := &s.ack
	// Field by field: a literal would be made elsewhere and copied. The report's
	// are zero unless there is one.
	a.Now, a.SentAt, a.RTT, a.NetRTT = q.lastAck, m.PostedAt, m.RTT, m.NetRTT
	a.Bytes, a.Packets, a.Acked, a.Sent = m.Bytes, size.packets, seg.Acked, seg.Sent
	q.driver.Complete(a, q.table.Outstanding())
	if s.reported {
		s.reported = false
		a.ECN, a.EIN, a.HasMaxDelay, a.MaxHopDelay, a.ReverseMaxHopDelay, a.Path = false, false, false, 0, 0, nil
	}
	if reported {
		t := &s.report
		s.reported = true
		a.ECN, a.EIN = t.ECN, t.EIN
		a.HasMaxDelay, a.MaxHopDelay, a.ReverseMaxHopDelay = t.HasMaxDelay, t.MaxHopDelay, t.ReverseMaxHopDelay
		if t.Path.N > 0 {
			a.Path = &t.Path
		}
	}
	if engine != nil {
		q.obey(now, q.causeOf(a), engine.OnAck(a))
	}
	if q.watch != nil {
		q.watch(a, q.driver.Control())
	}
	if s.cfg.Observe != nil {
		s.cfg.Observe(q, a, q.driver.Control())
	}
}

// size is what follows from a segment's size, by divisions that most segments,
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

// obey applies, and counts, what the engine says to something. The scheduler enforces a lower rate when
// the segment it holds comes due (TIMELY section 5); a window that closed takes
// the segment back.
func (q *QP) obey(now units.Time, by Cause, c cc.Control) {
	if q.hold == holdBound && c.Rate != q.driver.Control().Rate {
		q.settle(now) // by the rate that held until now
	}
	change := q.driver.Apply(c)
	if change&cc.ChangedDown != 0 {
		q.tally.cuts[by]++
	}
	if change&cc.ChangedRate != 0 {
		q.pace()
	}
	if change&cc.ChangedWindow != 0 && q.filed && q.room(q.lastAck, units.Bytes(q.next())) != holdNone {
		q.withdraw()
	}
}

// pace gives the scheduler the rate in force.
func (q *QP) pace() {
	rate := max(q.driver.Control().Rate, 1)
	if rate >= q.line {
		rate = ratelimiter.Unpaced
	}
	// The rate is positive, which is all that SetRate asks for.
	_ = q.shim.sched.SetRate(q.flow, rate)
}
