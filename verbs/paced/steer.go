package paced

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// longestGap keeps sums of spans far from overflow.
const longestGap = 3600 * units.Second

// steering is the part of a QP that measures and obeys the engine.
type steering struct {
	engine  cc.Engine // nil without congestion control, and before RTS
	control cc.Control
	line    units.Rate // of the port; 0 if not known
	wire    units.Rate // at which the NIC sends a segment: its limiter's, else line

	size size // of the last segment; bytes is -1 if wire or the MTU changed since

	lastAck units.Time
	cnpSeen uint64
	scale   cc.UpdateScaler

	appLimit cc.AppLimit
	gap      units.Time // after a full segment at the present rate
	span     units.Time // over which the flow's rate is measured
	// When the engine's window last held the flow back: the flow is then not
	// limited by the application, however slow it is.
	windowShut units.Time
	everShut   bool

	reported  bool              // telemetry has something for the engine
	telemetry verbs.TelemetryQP // nil where the provider has none
	cnps      verbs.CNPQP
	departs   verbs.SentTimestampQP
	limiter   verbs.RateLimitQP
}

// spanSegments is how many segments' time the sending rate is measured over at
// least, so that one segment more or less is not the 20 percent in question.
const spanSegments = 8

// prepare looks for what the provider's queue pair can do.
func (q *QP) prepare() {
	st := &q.steering
	st.telemetry, _ = q.inner.(verbs.TelemetryQP)
	st.cnps, _ = q.inner.(verbs.CNPQP)
	st.limiter, _ = q.inner.(verbs.RateLimitQP)
	st.departs, _ = q.inner.(verbs.SentTimestampQP)
	st.line = q.shim.lineRate(q.port)
	st.wire, st.size.bytes = st.line, -1
	st.control = cc.Control{Rate: max(st.line, 1), Window: cc.Unlimited}
}

// start makes the engine of a queue pair that is about to send.
func (q *QP) start() error {
	s := q.shim
	line := s.lineRate(q.port)
	if line <= 0 {
		return q.errorf("modify_qp", verbs.ErrInvalid, "port %d tells no line rate: set Config.LineRate", q.port)
	}
	if missing := q.starves(); missing != "" {
		return q.errorf("modify_qp", verbs.ErrNotSupported, "the engine %s lives on %s, which this device does not report: take an engine that needs round trips only, or a device that reports it (on the model, sim:lab/h0?telemetry=per-hop)", s.scheme.Name, missing)
	}
	engine, err := s.newEngine(cc.Env{LineRate: line, BaseRTT: s.cfg.BaseRTT, MTU: units.Bytes(q.mtu)})
	if err != nil {
		return q.errorf("modify_qp", verbs.ErrInvalid, "no engine: %v", err)
	}
	q.line, q.wire, q.size.bytes = line, line, -1
	q.limit = s.cfg.Outstanding(line)
	q.engine = engine
	q.lastAck, q.scale, q.appLimit, q.everShut = s.Clock(), cc.UpdateScaler{}, cc.AppLimit{}, false
	q.cnpSeen = q.CNPs()
	q.reported = q.telemetry != nil && q.telemetry.TelemetryKinds() != 0
	control := cc.Control{Rate: line, Window: cc.Unlimited}
	if engine != nil {
		control = engine.Control()
	}
	q.control = cc.Control{}
	q.obey(s.Clock(), ByRTT, control) // no cut: nothing was in force
	return nil
}

// starves names, in words, what the configured scheme lives on and the queue pair
// does not report; it is empty if there is nothing.
func (q *QP) starves() string {
	scheme := q.shim.scheme
	if scheme == nil {
		return "" // an engine of the program's own, which must know
	}
	var kinds verbs.TelemetryKinds
	if q.telemetry != nil {
		kinds = q.telemetry.TelemetryKinds()
	}
	switch {
	case scheme.Telemetry == telemetry.MaxDelay && kinds&verbs.ReportsMaxDelay == 0,
		scheme.Telemetry == telemetry.PerHop && kinds&verbs.ReportsPath == 0:
		return scheme.Telemetry.String() + " telemetry"
	case scheme.EIN && kinds&verbs.ReportsEIN == 0:
		return "early incast notices"
	case scheme.ECN && kinds&verbs.ReportsECN == 0:
		return "ECN marks"
	}
	return ""
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
	if q.engine == nil {
		return
	}
	q.appLimit.Sent(now, n, q.control.Rate, q.gap, q.span)
	if s := q.shim; q.control.Rate < q.line {
		s.gapsEnd = max(s.gapsEnd, now+q.gap*units.Time((n+q.largest-1)/q.largest))
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
	if q.engine == nil && s.cfg.Observe == nil && q.watch == nil {
		return
	}

	// The engine's time does not run backwards, whatever calibration does.
	q.lastAck = max(q.lastAck, done)
	if q.cnps != nil && q.engine != nil {
		// Notifications that came since the last completion share its time, and
		// to an engine those of one instant are one.
		if seen := q.cnps.CNPs(); seen != q.cnpSeen {
			s.stats.CNPs += seen - q.cnpSeen
			q.tally.cnps += seen - q.cnpSeen
			q.cnpSeen = seen
			q.obey(now, ByCNP, q.engine.OnCNP(q.lastAck))
		}
	}
	a := &s.ack
	// Field by field: a literal would be made elsewhere and copied. The report's
	// are zero unless there is one.
	a.Now, a.SentAt, a.RTT, a.NetRTT = q.lastAck, m.PostedAt, m.RTT, m.NetRTT
	a.Bytes, a.Packets, a.Acked, a.Sent = m.Bytes, size.packets, seg.Acked, seg.Sent
	a.AppLimited = q.appLimited()
	a.Scale = q.scale.Scale(q.lastAck, s.cfg.BaseRTT)
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
	if q.engine != nil {
		q.obey(now, q.causeOf(a), q.engine.OnAck(a))
	}
	if q.watch != nil {
		q.watch(a, q.control)
	}
	if s.cfg.Observe != nil {
		s.cfg.Observe(q, a, q.control)
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

// appLimited reports whether the flow sends at less than 80 percent of its rate
// for another reason than the engine's own window.
func (q *QP) appLimited() bool {
	return q.appLimit.Limited() && (!q.everShut || q.lastAck-q.windowShut > 2*q.span)
}

// obey applies, and counts, what the engine says to something. The scheduler enforces a lower rate when
// the segment it holds comes due (TIMELY section 5); a window that closed takes
// the segment back.
func (q *QP) obey(now units.Time, by Cause, c cc.Control) {
	s := q.shim
	smaller := c.Window < q.control.Window
	if smaller || c.Rate < min(q.control.Rate, q.line) {
		q.tally.cuts[by]++
	}
	if c.Rate != q.control.Rate {
		if q.hold == holdBound {
			q.settle(now) // by the rate that held until now
		}
		rate := max(c.Rate, 1)
		q.appLimit.Rate(rate)
		q.gap = min(rate.Serialize(q.largest), longestGap)
		q.span = max(s.cfg.BaseRTT, spanSegments*q.gap)
		if rate >= q.line {
			rate = ratelimiter.Unpaced
		}
		// The rate is positive, which is all that SetRate asks for.
		_ = s.sched.SetRate(q.flow, rate)
	}
	q.control = c
	if smaller && q.filed && q.room(q.lastAck, units.Bytes(q.next())) != holdNone {
		q.withdraw()
	}
}
