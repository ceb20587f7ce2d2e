package perf

import (
	"math"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Engine is what the engines of the queue pairs measured and what they answered.
// Rates are those of one queue pair.
type Engine struct {
	// Round trips as the engines get them: those of segments, less the time to
	// serialise them and, where the peer reports it, the time that the peer took to
	// answer.
	Samples uint64 `json:"rtt_samples"`
	// Bypassed is the share of round trips that the engines were spared, which are not
	// among Samples.
	Bypassed stats.Float `json:"bypassed_share,omitempty"`
	RTTP50Us stats.Float `json:"rtt_p50_us"`
	RTTP99Us stats.Float `json:"rtt_p99_us"`

	// Rates that were allowed: at the end, on average of the queue pairs; the lowest
	// and the highest of any.
	RateGbps    stats.Float `json:"rate_gbps"`
	LowestGbps  stats.Float `json:"rate_lowest_gbps"`
	HighestGbps stats.Float `json:"rate_highest_gbps"`
	// Floor and Ceiling are the engine's own bounds, by its settings; unmeasured of
	// engines that bound a window. AtFloor is the share of the time between a queue
	// pair's first and last round trip in which it was allowed no more than the floor.
	FloorGbps   stats.Float `json:"rate_floor_gbps"`
	CeilingGbps stats.Float `json:"rate_ceiling_gbps"`
	AtFloor     stats.Float `json:"at_floor_share"`
	// Window is the bytes that the engines allow to be outstanding at the end, on
	// average of the queue pairs; unmeasured where they do not bound them.
	WindowBytes stats.Float `json:"window_bytes"`

	Cuts Cuts `json:"cuts"`
}

// Cuts counts the answers that lowered a rate or a window, by what they answered.
type Cuts struct {
	RTT       uint64 `json:"rtt"`
	ECN       uint64 `json:"ecn"`
	CNP       uint64 `json:"cnp"`
	EIN       uint64 `json:"ein"`
	Telemetry uint64 `json:"telemetry"`
}

// engineTally is what an account has of it so far.
type engineTally struct {
	rtt             *stats.Recorder
	lowest, highest units.Rate
	floored, time   units.Time // of queue pairs together

	flows []flowTally
	cuts  paced.Cuts
	spared
	// At the end.
	rate, floor, ceiling, window float64
	bounded, windowed            bool
}

// spared counts round trips of a shim, and those of them that engines were spared. Until a
// stretch ends, its tally has those from before it.
type spared struct{ bypassed, all uint64 }

// spared returns the counts so far of what the end's engines run in.
func (e *end) spared() spared {
	s, ok := e.dev.(*paced.Shim)
	if !ok {
		return spared{}
	}
	x := s.Stats()
	return spared{x.Bypassed, x.Samples}
}

// flowTally is what a queue pair was allowed last.
type flowTally struct {
	since units.Time
	rate  units.Rate
	known bool
	floor units.Rate
	cuts  paced.Cuts // when the account was opened
}

// pacedQPs returns the queue pairs that something paces.
func (e *end) pacedQPs() []*paced.QP {
	var qps []*paced.QP
	for _, qp := range e.qps {
		if q, ok := qp.(*paced.QP); ok {
			qps = append(qps, q)
		}
	}
	return qps
}

// newEngineTally returns an empty one; nil where nothing paces.
func (e *end) newEngineTally() *engineTally {
	n := len(e.paced)
	if n == 0 {
		return nil
	}
	t := &engineTally{rtt: stats.NewRecorder(), lowest: math.MaxInt64, flows: make([]flowTally, n)}
	for i, q := range e.paced {
		q.Stats(&e.qpStats)
		t.flows[i].floor = e.qpStats.Floor
	}
	return t
}

// watch makes queue pairs report to next instead of before, and settles the time
// between. Either may be nil.
func (e *end) watch(before, next *engineTally) {
	for i, q := range e.paced {
		if next == nil || e.cfg.Unwatched {
			q.Watch(nil)
			continue
		}
		f := &next.flows[i]
		q.Watch(func(a *cc.Ack, c cc.Control) { next.take(f, a, c) })
	}
	now := e.spared()
	if before != nil {
		before.spared = spared{now.bypassed - before.spared.bypassed, now.all - before.spared.all}
	}
	if next != nil {
		next.spared = now
	}
	for i, q := range e.paced {
		q.Stats(&e.qpStats)
		if before != nil {
			before.conclude(i, &e.qpStats)
		}
		if next != nil {
			next.flows[i].cuts = e.qpStats.Cuts
		}
	}
}

// leave has queue pairs that are about to go report no more, and takes their counts.
func (e *end) leave(t *engineTally) {
	for i, q := range e.paced {
		q.Watch(nil)
		q.Stats(&e.qpStats)
		for by, n := range e.qpStats.Cuts {
			t.cuts[by] += n - t.flows[i].cuts[by]
		}
	}
}

// join has new queue pairs report in the place of those before.
func (e *end) join(t *engineTally) {
	for i, q := range e.paced {
		q.Stats(&e.qpStats)
		f := &t.flows[i]
		*f = flowTally{floor: e.qpStats.Floor, cuts: e.qpStats.Cuts}
		if !e.cfg.Unwatched {
			q.Watch(func(a *cc.Ack, c cc.Control) { t.take(f, a, c) })
		}
	}
}

// take takes a round trip and the engine's answer. It runs with the shim's lock held.
func (t *engineTally) take(f *flowTally, a *cc.Ack, c cc.Control) {
	if a.RTT > 0 { // it is known
		t.rtt.Record(a.NetRTT)
	}
	t.lowest, t.highest = min(t.lowest, c.Rate), max(t.highest, c.Rate)
	if f.known {
		passed := a.Now - f.since
		t.time += passed
		if f.rate <= f.floor {
			t.floored += passed
		}
	}
	f.since, f.rate, f.known = a.Now, c.Rate, true
}

// conclude adds the final statistics of queue pair i, which no longer reports to t.
func (t *engineTally) conclude(i int, s *paced.QPStats) {
	for by, n := range s.Cuts {
		t.cuts[by] += n - t.flows[i].cuts[by]
	}
	n := float64(len(t.flows))
	t.rate += float64(s.Rate) / n
	t.floor, t.ceiling, t.bounded = float64(s.Floor), float64(s.Ceiling), s.Ceiling > 0
	if s.Window > 0 {
		t.windowed = true
		t.window += float64(s.Window) / n
	}
}

// add adds a stretch that follows.
func (t *engineTally) add(u *engineTally) {
	t.rtt.Merge(u.rtt)
	t.lowest, t.highest = min(t.lowest, u.lowest), max(t.highest, u.highest)
	t.floored, t.time = t.floored+u.floored, t.time+u.time
	t.spared = spared{t.spared.bypassed + u.spared.bypassed, t.spared.all + u.spared.all}
	for by, n := range u.cuts {
		t.cuts[by] += n
	}
	t.rate, t.floor, t.ceiling, t.window = u.rate, u.floor, u.ceiling, u.window
	t.bounded, t.windowed = u.bounded, u.windowed
}

// report is what is written of it; nil where nothing paces.
func (t *engineTally) report() *Engine {
	if t == nil {
		return nil
	}
	u := stats.Unmeasured
	rate := func(bps float64) stats.Float { return stats.Float(bps / float64(units.Gbps)) }
	e := &Engine{
		Samples: t.rtt.Count(), RTTP50Us: t.rtt.PercentileUs(50), RTTP99Us: t.rtt.PercentileUs(99),
		RateGbps: rate(t.rate), LowestGbps: u, HighestGbps: u, FloorGbps: u, CeilingGbps: u, AtFloor: u, WindowBytes: u,
		Cuts: Cuts{
			RTT: t.cuts[paced.ByRTT], ECN: t.cuts[paced.ByECN], CNP: t.cuts[paced.ByCNP],
			EIN: t.cuts[paced.ByEIN], Telemetry: t.cuts[paced.ByTelemetry],
		},
	}
	if n := t.spared.bypassed; n > 0 {
		e.Bypassed = stats.Float(float64(n) / float64(t.spared.all))
	}
	if t.rtt.Count() > 0 {
		e.LowestGbps, e.HighestGbps = rate(float64(t.lowest)), rate(float64(t.highest))
	}
	if t.bounded {
		e.FloorGbps, e.CeilingGbps = rate(t.floor), rate(t.ceiling)
		if t.time > 0 {
			e.AtFloor = stats.Float(float64(t.floored) / float64(t.time))
		}
	}
	if t.windowed {
		e.WindowBytes = stats.Float(t.window)
	}
	return e
}
