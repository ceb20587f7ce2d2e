package paced

import (
	"errors"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// abilities are the optional interfaces of the provider's queue pair; nil where it has
// none.
type abilities struct {
	telemetry verbs.TelemetryQP
	cnps      verbs.CNPQP
	departs   verbs.SentTimestampQP
}

// prepare looks for what the provider's queue pair can do.
func (q *QP) prepare() {
	q.telemetry, _ = q.inner.(verbs.TelemetryQP)
	q.cnps, _ = q.inner.(verbs.CNPQP)
	q.limiter, _ = q.inner.(verbs.RateLimitQP)
	q.departs, _ = q.inner.(verbs.SentTimestampQP)
	_, q.adaptive = q.inner.(verbs.AdpRetransQP)
	q.tells = q.telemetry != nil || q.cnps != nil || q.departs != nil || q.adaptive
}

// start makes the engine of a queue pair that is about to send.
func (q *QP) start() error {
	s := q.shard
	line := q.lineRate()
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
	key, grouped := q.groupKey()
	q.reported = q.telemetry != nil && q.telemetry.TelemetryKinds() != 0
	cnps := q.CNPs()
	longest := s.longest(q.port)
	s.mu.Lock()
	defer s.mu.Unlock()
	q.core.SetLongest(longest)
	q.leaveGroup() // a change to RTS that the provider refused had joined it
	if grouped {
		if err := q.join(key, engine, line, cnps); err != nil {
			return err
		}
		engine = nil // the group's steers it
	}
	q.core.Start(s.instant(), engine, line, s.cfg.Outstanding(line), cnps)
	return nil
}

// lacks names what the configured scheme requires and the queue pair does not report.
func (q *QP) lacks() string {
	scheme := q.shard.scheme
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
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.core.SetLimiter(r)
	return nil
}

// hybrid has the NIC pace each segment's packets at Config.NICRate: by the queue pair's
// limit, or else by the path's static rate, which it has had since RTR.
func (q *QP) hybrid() error {
	err := q.limitNIC(q.shard.cfg.NICRate)
	if err == nil || q.path == 0 {
		return err
	}
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.core.SetLimiter(units.Rate(q.path.BitsPerSecond()))
	return nil
}

// staticRate gives the path that a sets a static rate and returns that, where it is to take
// the place of the queue pair's own limit; else it returns 0.
func (q *QP) staticRate(a *verbs.QPAttr, mask verbs.QPAttrMask) ib.StaticRate {
	rate := q.shard.cfg.NICRate
	if rate == 0 || mask&verbs.AttrAV == 0 || a.AV.StaticRate > 0 || !q.lacksLimiter() {
		return 0
	}
	static := ib.StaticRateAtLeast(int64(rate))
	port, err := q.shard.dev.Port(q.port)
	if err != nil || static.BitsPerSecond() >= port.LinkRate {
		return 0
	}
	a.AV.StaticRate = static.BitsPerSecond()
	return static
}

// lacksLimiter reports whether the provider's queue pair has no rate limit in any state.
func (q *QP) lacksLimiter() bool {
	return q.limiter == nil || errors.Is(q.limiter.SetRateLimit(0), verbs.ErrNotSupported)
}

// keptRate returns the static rate of the path if the provider has it still.
func (q *QP) keptRate(given ib.StaticRate) ib.StaticRate {
	if given == 0 {
		return 0
	}
	a, err := q.inner.Query()
	if err != nil || a.AV.StaticRate != given.BitsPerSecond() {
		return 0
	}
	return given
}

// steer takes the round trip of the segment that just succeeded, x, to the engine.
func (q *QP) steer(now units.Time, wc *verbs.WC, x *core.Sample) {
	s := q.shard
	x.Watched = q.watch != nil || s.cfg.Observe != nil
	x.Departed, x.Reported, x.CountsCNPs, x.Retransmits = false, false, false, 0
	if q.tells {
		q.ask(wc, x)
	}
	s.core.Measure(now, &q.core, wc, x)
	stats := &s.stats
	stats.Samples++
	if x.RTT > 0 {
		q.tally.rtt.add(x.RTT)
	}
	if x.Marks&core.ByNIC != 0 {
		stats.NICTime++
	} else {
		stats.PollTime++
	}
	if x.Marks&core.Cut != 0 {
		cause := ByRTT
		if x.Marks&core.Repaired == 0 {
			cause = q.causeOf(&x.Ack)
		}
		q.tally.cuts[cause]++
	}
	if x.Marks&core.Clamped != 0 {
		stats.Clamped++
	}
	if x.Marks&core.Bypassed != 0 {
		stats.Bypassed++
	}
	if q.tells {
		q.countTold(x)
	}
	if x.Watched {
		if q.watch != nil {
			q.watch(&x.Ack, q.core.Control())
		}
		if s.cfg.Observe != nil {
			s.cfg.Observe(q, &x.Ack, q.core.Control())
		}
	}
}

// ask adds to x what the provider's queue pair reports about a segment.
func (q *QP) ask(wc *verbs.WC, x *core.Sample) {
	if q.departs != nil && x.Stamped {
		x.First, x.Last, x.Departed = q.departs.SentTimestamps(wc)
	}
	x.Reported = q.reported && q.telemetry.CompletionTelemetry(wc, &x.Report)
	if x.CountsCNPs = q.cnps != nil; x.CountsCNPs {
		x.CNPs = q.cnps.CNPs()
	}
	if q.adaptive {
		x.Retransmits = uint8(q.inner.(verbs.AdpRetransQP).AdpRetrans())
	}
}

// countTold counts what the provider's queue pair reported.
func (q *QP) countTold(x *core.Sample) {
	s := &q.shard.stats
	if x.Marks&core.ByDeparture != 0 {
		s.SentTime++
	}
	if x.Reported && x.Report.Coalesced {
		s.Coalesced++
	}
	if x.Marks&core.Turnaround != 0 {
		s.Turnarounds++
	}
	s.CNPs += x.FreshCNPs
	q.tally.cnps += x.FreshCNPs
	if x.Marks&core.CutByCNP != 0 {
		q.tally.cuts[ByCNP]++
	}
}
